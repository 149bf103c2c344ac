#include "tests/e2e/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace kernelcast::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPatienceSeconds = 120;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Program::Program(const TemporaryFolder& home, const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment, Streams streams,
                 int columns) {
  std::vector<std::string> argv = {ProgramFolder() + "/kernelcast"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  std::map<std::string, std::string> values = {
      {"HOME", home.path().string()},
      {"XDG_STATE_HOME", home.File("state")},
      {"KERNELCAST_PROBLEMS", std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems"},
      {"TERM", "xterm-256color"},
      {"LC_ALL", "C.UTF-8"}};
  for (const char* name : {"PATH", "TMPDIR", "KERNELCAST_LEASE_FILE", "ASAN_OPTIONS",
                           "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) values[name] = value;
  }
  for (const auto& [name, value] : environment) values[name] = value;
  std::vector<std::string> variables;
  for (const auto& [name, value] : values) variables.push_back(name + "=" + value);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  std::array<int, 2> out{-1, -1};
  std::array<int, 2> err{-1, -1};
  if (streams == Streams::kTerminal) {
    out_fd_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    grantpt(out_fd_);
    unlockpt(out_fd_);
    winsize size{};
    size.ws_row = 40;
    size.ws_col = static_cast<unsigned short>(columns);
    ioctl(out_fd_, TIOCSWINSZ, &size);
    // A new session's first opened terminal becomes its controlling terminal.
    posix_spawn_file_actions_addopen(&actions, 0, ptsname(out_fd_), O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_adddup2(&actions, 0, 2);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  } else {
    if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) {
      throw std::runtime_error("no pipe available");
    }
    out_fd_ = out[0];
    err_fd_ = err[0];
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (streams == Streams::kFullOutput) {
      posix_spawn_file_actions_addopen(&actions, 1, "/dev/full", O_WRONLY, 0);
    } else {
      posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    }
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  }
  std::vector<char*> argument_pointers;
  for (std::string& argument : argv) argument_pointers.push_back(argument.data());
  argument_pointers.push_back(nullptr);
  std::vector<char*> variable_pointers;
  for (std::string& variable : variables) variable_pointers.push_back(variable.data());
  variable_pointers.push_back(nullptr);
  const int error = posix_spawn(&pid_, argv[0].c_str(), &actions, &attributes,
                                argument_pointers.data(), variable_pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (out[1] >= 0) close(out[1]);
  if (err[1] >= 0) close(err[1]);
  if (error != 0) throw std::runtime_error("cannot run " + argv[0] + ": " + std::strerror(error));
}

Program::~Program() {
  if (!reaped_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_fd_ >= 0) close(out_fd_);
  if (err_fd_ >= 0) close(err_fd_);
}

bool Program::Pump(int timeout_ms) {
  std::array<pollfd, 2> fds = {pollfd{out_fd_, POLLIN, 0}, pollfd{err_fd_, POLLIN, 0}};
  poll(fds.data(), fds.size(), timeout_ms);
  std::array<char, 65536> buffer;
  const auto drain = [&](int& fd, short events, std::string& into) {
    if (fd < 0 || events == 0) return;
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count > 0) {
      into.append(buffer.data(), static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      close(fd);  // a terminal whose other end is closed gives EIO
      fd = -1;
    }
  };
  drain(out_fd_, fds[0].revents, outcome_.out);
  drain(err_fd_, fds[1].revents, outcome_.err);
  return out_fd_ >= 0 || err_fd_ >= 0;
}

bool Program::Await(const std::string& text, const std::string& in) {
  const Clock::time_point start = Clock::now();
  while (in.find(text) == std::string::npos) {
    if (SecondsSince(start) > kPatienceSeconds) return false;
    if (!Pump(50)) return in.find(text) != std::string::npos;
  }
  return true;
}

bool Program::AwaitOut(const std::string& text) { return Await(text, outcome_.out); }
bool Program::AwaitErr(const std::string& text) { return Await(text, outcome_.err); }

bool Program::AwaitErrNumber(const std::string& text, int least) {
  const auto reached = [&] {
    for (size_t at = outcome_.err.find(text); at != std::string::npos;
         at = outcome_.err.find(text, at + 1)) {
      if (std::atoi(outcome_.err.c_str() + at + text.size()) >= least) return true;
    }
    return false;
  };
  const Clock::time_point start = Clock::now();
  while (!reached()) {
    if (SecondsSince(start) > kPatienceSeconds) return false;
    if (!Pump(50)) return reached();
  }
  return true;
}

void Program::Signal(int number) { kill(pid_, number); }

void Program::Type(const std::string& text) {
  [[maybe_unused]] const ssize_t written = write(out_fd_, text.data(), text.size());
}

Outcome Program::Wait(double seconds) {
  const Clock::time_point start = Clock::now();
  int status = 0;
  bool streams = true;
  while (waitpid(pid_, &status, WNOHANG) != pid_) {
    if (SecondsSince(start) > seconds) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      break;
    }
    if (streams) {
      streams = Pump(20);
    } else {
      poll(nullptr, 0, 5);
    }
  }
  reaped_ = true;
  // Reads the rest of the pipes; a child of the program may hold them open.
  while (streams && Pump(0)) {
    std::array<pollfd, 2> fds = {pollfd{out_fd_, POLLIN, 0}, pollfd{err_fd_, POLLIN, 0}};
    if (poll(fds.data(), fds.size(), 50) <= 0) break;
  }
  outcome_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return outcome_;
}

Outcome Run(const TemporaryFolder& home, const std::vector<std::string>& arguments,
            const std::map<std::string, std::string>& environment) {
  return Program(home, arguments, environment).Wait();
}

Outcome RunUntil(const TemporaryFolder& home,
                 const std::function<std::vector<std::string>(int attempt)>& arguments_of,
                 const std::function<bool(const Outcome&)>& enough) {
  Outcome outcome;
  for (int attempt = 0; attempt < 5; ++attempt) {
    outcome = Program(home, arguments_of(attempt)).Wait(900);
    if (enough(outcome)) break;
  }
  return outcome;
}

bool Alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return false;
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] != 'Z';
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    if (!std::getline(stat, line)) continue;
    std::istringstream fields(line.substr(line.rfind(')') + 2));
    char state = 0;
    pid_t ppid = 0;
    fields >> state >> ppid;
    if (ppid == parent && state != 'Z') {
      children.push_back(static_cast<pid_t>(std::stol(entry.path().filename())));
    }
  }
  return children;
}

}  // namespace kernelcast::testing
