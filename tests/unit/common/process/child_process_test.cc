#include "common/process/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/base/clock.h"

namespace kernelcast {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kLongNs = 50 * kSecondNs;

ChildOptions Shell(const std::string& script) {
  ChildOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.environment = {"PATH=/usr/bin:/bin"};
  return options;
}

std::unique_ptr<ChildProcess> MustSpawn(const ChildOptions& options) {
  auto child = ChildProcess::Spawn(options);
  INFO(child.status().ToString());
  REQUIRE(child.ok());
  return *std::move(child);
}

ChildExit Run(const ChildOptions& options, int64_t timeout_ns = kLongNs) {
  return MustSpawn(options)->Wait(timeout_ns);
}

// A pipe whose write end the children inherit: the read end sees EOF when the last of them is dead,
// so no process table is needed.
class Leash {
 public:
  Leash() { REQUIRE(pipe2(fds_, O_CLOEXEC) == 0); }
  ~Leash() {
    close(fds_[0]);
    if (fds_[1] >= 0) close(fds_[1]);
  }
  int writing_end() const { return fds_[1]; }
  // Blocks until no process holds the write end. Returns false after one minute.
  bool AllDead() {
    close(fds_[1]);
    fds_[1] = -1;
    pollfd fd{fds_[0], POLLIN, 0};
    char byte;
    while (poll(&fd, 1, 60'000) > 0) {
      if (read(fds_[0], &byte, 1) == 0) return true;
    }
    return false;
  }

 private:
  int fds_[2];
};

size_t OpenDescriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("A child's exit code and output are collected", "[process]") {
  const ChildExit exit = Run(Shell("echo out; echo err >&2; exit 7"));
  CHECK(exit.exited);
  CHECK(exit.exit_code == 7);
  CHECK(exit.signal == 0);
  CHECK_FALSE(exit.timed_out);
  CHECK_FALSE(exit.output_limit);
  CHECK(exit.output == "out\nerr\n");
  CHECK(exit.max_resident_bytes > 0);
}

TEST_CASE("A child killed by a signal is reported with it", "[process]") {
  const ChildExit exit = Run(Shell("kill -SEGV $$"));
  CHECK_FALSE(exit.exited);
  CHECK(exit.signal == SIGSEGV);
  CHECK_FALSE(exit.timed_out);
}

TEST_CASE("A timeout kills the whole group, including grandchildren", "[process]") {
  Leash leash;
  // The shells hold descriptor 3; the grandchild ignores every signal it can.
  ChildOptions options = Shell("sh -c 'trap \"\" TERM HUP INT; sleep 1000; sleep 1000' & wait");
  options.descriptors = {{leash.writing_end(), 3}};
  const ChildExit exit = Run(options, kSecondNs / 5);
  CHECK(exit.timed_out);
  CHECK_FALSE(exit.exited);
  CHECK(exit.signal == SIGKILL);
  CHECK(leash.AllDead());
}

TEST_CASE("Processes left in the child's group die with it", "[process]") {
  Leash leash;
  ChildOptions options = Shell("sleep 1000 & exit 3");
  options.descriptors = {{leash.writing_end(), 3}};
  const ChildExit exit = Run(options);
  CHECK(exit.exited);
  CHECK(exit.exit_code == 3);
  CHECK(leash.AllDead());
}

TEST_CASE("The destructor kills the whole group", "[process]") {
  Leash leash;
  ChildOptions options = Shell("sleep 1000 & sleep 1000");
  options.descriptors = {{leash.writing_end(), 3}};
  const pid_t pid = MustSpawn(options)->pid();
  CHECK(leash.AllDead());
  CHECK(kill(pid, 0) == -1);  // not a zombie either
  CHECK(errno == ESRCH);
}

TEST_CASE("Kill ends a child and Wait reports the signal, not a timeout", "[process]") {
  const auto child = MustSpawn(Shell("sleep 1000"));
  child->Kill();
  child->Kill();
  const ChildExit exit = child->Wait(kLongNs);
  CHECK(exit.signal == SIGKILL);
  CHECK_FALSE(exit.timed_out);
  child->Kill();  // no effect after the end
  CHECK(child->Wait(0).signal == SIGKILL);
}

TEST_CASE("An output flood ends the child", "[process]") {
  ChildOptions options = Shell("while :; do echo 0123456789012345678901234567890123456789; done");
  options.max_output_bytes = 100'000;
  options.kept_output_bytes = 1'000;
  const ChildExit exit = Run(options);
  CHECK(exit.output_limit);
  CHECK(exit.signal == SIGKILL);
  CHECK_FALSE(exit.timed_out);
  CHECK(exit.output.size() == 1'000);
}

TEST_CASE("The tail of a large output is kept", "[process]") {
  ChildOptions options = Shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done");
  options.kept_output_bytes = 24;
  const ChildExit exit = Run(options);
  CHECK(exit.exited);
  CHECK_FALSE(exit.output_limit);
  CHECK(exit.output == "7\nline 19998\nline 19999\n");
}

TEST_CASE("A child has only the descriptors it is given", "[process]") {
  // Without O_CLOEXEC on purpose: libraries open files like that.
  const int stray = open("/dev/null", O_RDONLY);
  const int far_stray = fcntl(stray, F_DUPFD, 300);
  Leash leash;
  ChildOptions options;
  options.argv = {"/bin/ls", "/proc/self/fd"};
  options.descriptors = {{leash.writing_end(), 9}};
  const ChildExit exit = Run(options);
  close(stray);
  close(far_stray);
  // 3 is the descriptor with which ls reads the folder.
  CHECK(exit.output == "0\n1\n2\n3\n9\n");
}

TEST_CASE("Descriptors can be swapped when passed to the child", "[process]") {
  int first[2];
  int second[2];
  REQUIRE(pipe2(first, O_CLOEXEC) == 0);
  REQUIRE(pipe2(second, O_CLOEXEC) == 0);
  const int low = first[1];
  const int high = second[1];
  ChildOptions options =
      Shell("echo one >&" + std::to_string(high) + "; echo two >&" + std::to_string(low));
  // dash accepts only single-digit descriptors; a fresh process has pipes far below ten.
  if (low < 10 && high < 10) {
    options.descriptors = {{low, high}, {high, low}};
    CHECK(Run(options).exit_code == 0);
    char buffer[8] = {};
    CHECK(read(first[0], buffer, sizeof buffer) == 4);
    CHECK(std::string(buffer) == "one\n");
    CHECK(read(second[0], buffer, sizeof buffer) == 4);
    CHECK(std::string(buffer) == "two\n");
  }
  for (const int fd : {first[0], first[1], second[0], second[1]}) {
    close(fd);
  }
}

TEST_CASE("Bad descriptors are refused", "[process]") {
  for (const auto& [from, to] : {std::pair{-1, 3}, {0, 32}, {0, -1}, {200, 3}}) {
    ChildOptions options = Shell("true");
    options.descriptors = {{from, to}};
    CHECK(ChildProcess::Spawn(options).status().code() == absl::StatusCode::kInvalidArgument);
  }
  ChildOptions twice = Shell("true");
  twice.descriptors = {{0, 3}, {1, 3}};
  CHECK(ChildProcess::Spawn(twice).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(ChildProcess::Spawn({}).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Standard input is empty", "[process]") {
  const ChildExit exit = Run(Shell("read line; echo status $?"));
  CHECK(exit.output == "status 1\n");
}

TEST_CASE("The environment is exactly what is given", "[process]") {
  ChildOptions options;
  options.argv = {"env"};  // found through the parent's PATH
  CHECK(Run(options).output.empty());
  options.environment = {"A=1", "B=two words"};
  CHECK(Run(options).output == "A=1\nB=two words\n");
}

TEST_CASE("A child runs in the given folder", "[process]") {
  ChildOptions options;
  options.argv = {"/bin/pwd", "-P"};
  options.working_directory = "/usr";
  CHECK(Run(options).output == "/usr\n");
}

TEST_CASE("A child starts with no signal blocked or ignored", "[process]") {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto old_handler = signal(SIGPIPE, SIG_IGN);
  ChildOptions options;
  options.argv = {"/bin/grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"};
  const ChildExit exit = Run(options);
  signal(SIGPIPE, old_handler);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  unsigned long long blocked_mask = 1;
  unsigned long long ignored_mask = 1;
  REQUIRE(std::sscanf(exit.output.c_str(), "SigBlk: %llx SigIgn: %llx", &blocked_mask,
                      &ignored_mask) == 2);
  CHECK(blocked_mask == 0);
  // glibc reserves signals 32 and 33 and leaves them ignored.
  CHECK((ignored_mask & ~0x180000000ull) == 0);
}

TEST_CASE("A missing program, a missing folder and a plain file cannot be started", "[process]") {
  ChildOptions options;
  options.argv = {"/no/such/program"};
  CHECK(ChildProcess::Spawn(options).status().code() == absl::StatusCode::kNotFound);
  options.argv = {"kernelcast-no-such-program"};
  CHECK(ChildProcess::Spawn(options).status().code() == absl::StatusCode::kNotFound);
  options.argv = {"/bin/true"};
  options.working_directory = "/no/such/folder";
  const absl::Status no_folder = ChildProcess::Spawn(options).status();
  CHECK(no_folder.code() == absl::StatusCode::kNotFound);
  CHECK(std::string(no_folder.message()).find("/no/such/folder") != std::string::npos);
  options.working_directory.clear();
  options.argv = {"/etc/passwd"};
  CHECK(ChildProcess::Spawn(options).status().code() == absl::StatusCode::kPermissionDenied);
}

TEST_CASE("Processor time, memory and file size are limited", "[process]") {
  SECTION("processor time") {
    ChildOptions options = Shell("while :; do :; done");
    options.max_cpu_seconds = 1;
    const ChildExit exit = Run(options);
    CHECK(exit.signal == SIGXCPU);
    CHECK(exit.cpu_ns >= kSecondNs / 2);
    CHECK_FALSE(exit.timed_out);
  }
  SECTION("limits that the child sees") {
    // Blocks until the limits are set, shortly after the start.
    int gate[2];
    REQUIRE(pipe2(gate, O_CLOEXEC) == 0);
    ChildOptions options = Shell("read go; ulimit -v; ulimit -f; ulimit -c");
    options.descriptors = {{gate[0], 0}};
    options.max_address_space_bytes = int64_t{1} << 30;
    options.max_file_bytes = 1 << 20;
    const auto child = MustSpawn(options);
    REQUIRE(write(gate[1], "\n", 1) == 1);
    CHECK(child->Wait(kLongNs).output == "1048576\n2048\n0\n");
    close(gate[0]);
    close(gate[1]);
  }
}

TEST_CASE("Poll never blocks and shows output before the end", "[process]") {
  int gate[2];
  REQUIRE(pipe2(gate, O_CLOEXEC) == 0);
  ChildOptions options = Shell("echo ready; read go");
  options.descriptors = {{gate[0], 0}};
  const auto child = MustSpawn(options);
  while (child->output() != "ready\n") {
    REQUIRE_FALSE(child->Poll());
  }
  CHECK_FALSE(child->Poll());
  REQUIRE(write(gate[1], "\n", 1) == 1);
  while (!child->Poll()) {
  }
  CHECK(child->Wait(0).exited);
  CHECK_FALSE(child->Wait(0).timed_out);
  close(gate[0]);
  close(gate[1]);
}

TEST_CASE("A child that closes its output is still awaited", "[process]") {
  const ChildExit exit =
      Run(Shell("exec >&- 2>&-; i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; exit 5"));
  CHECK(exit.exit_code == 5);
  CHECK(exit.output.empty());
}

TEST_CASE("A process outside the group that holds the output does not block Wait", "[process]") {
  Leash leash;
  // setsid leaves the group and keeps the pipe; the test ends it through its own fifo.
  ChildOptions options = Shell("setsid sh -c 'read end <&4' & exit 0");
  options.descriptors = {{leash.writing_end(), 3}};
  int gate[2];
  REQUIRE(pipe2(gate, O_CLOEXEC) == 0);
  options.descriptors.emplace_back(gate[0], 4);
  const ChildExit exit = Run(options);
  CHECK(exit.exited);
  CHECK_FALSE(exit.timed_out);
  close(gate[0]);
  close(gate[1]);
  CHECK(leash.AllDead());
}

TEST_CASE("Many children leak no descriptors and no zombies", "[process]") {
  ChildOptions options;
  options.argv = {"/bin/true"};
  Run(options);
  const size_t before = OpenDescriptors();
  for (int i = 0; i < 200; ++i) {
    REQUIRE(Run(options).exit_code == 0);
    ChildOptions missing;
    missing.argv = {"/no/such/program"};
    REQUIRE_FALSE(ChildProcess::Spawn(missing).ok());
  }
  CHECK(OpenDescriptors() == before);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("Running out of descriptors is RESOURCE_EXHAUSTED", "[process]") {
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{3, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  ChildOptions options;
  options.argv = {"/bin/true"};
  const absl::Status status = ChildProcess::Spawn(options).status();
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
}

}  // namespace kernelcast
