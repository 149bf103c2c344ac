#include "services/cli/launch/service_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "services/cli/core/exit_code.h"
#include "services/cli/launch/local_services.h"

namespace kernelcast::cli {
namespace {

int PidFd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceProcess>> ServiceProcess::Spawn(
    const std::vector<std::string>& argv, const std::string& log_file) {
  if (access(argv[0].c_str(), X_OK) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot run ", argv[0], ": ", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_file.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);

  // posix_spawn cannot request a signal at the parent's death, so start this program again to do
  // it.
  const std::string parent = std::to_string(getpid());
  std::vector<char*> arguments;
  std::string self = "kernelcast";
  std::string command = kRunServiceCommand;
  arguments.push_back(self.data());
  arguments.push_back(command.data());
  arguments.push_back(const_cast<char*>(parent.c_str()));
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("cannot start ", argv[0], " with its log in ",
                                               log_file, ": ", std::strerror(error)));
  }
  return std::unique_ptr<ServiceProcess>(new ServiceProcess(pid, PidFd(pid)));
}

ServiceProcess::~ServiceProcess() {
  if (!ended_) {
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (pid_fd_ >= 0) close(pid_fd_);
}

bool ServiceProcess::Ended() {
  if (ended_) return true;
  int status = 0;
  const pid_t waited = waitpid(pid_, &status, WNOHANG);
  if (waited != pid_) return false;
  ended_ = true;
  if (WIFEXITED(status)) {
    ending_ = absl::StrCat("exited with code ", WEXITSTATUS(status));
  } else {
    ending_ = absl::StrCat("was killed by signal ", WTERMSIG(status));
  }
  return true;
}

void ServiceProcess::Signal(int number) {
  if (!ended_) kill(pid_, number);
}

int RunService(int argc, char** argv) {
  if (argc < 2) return static_cast<int>(ExitCode::kUsage);
  const pid_t parent = static_cast<pid_t>(std::atoi(argv[0]));
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the request.
  if (getppid() != parent) return static_cast<int>(ExitCode::kInterrupted);
  execv(argv[1], argv + 1);
  std::fprintf(stderr, "kernelcast: cannot run %s: %s\n", argv[1], std::strerror(errno));
  return static_cast<int>(ExitCode::kUnreachable);
}

}  // namespace kernelcast::cli
