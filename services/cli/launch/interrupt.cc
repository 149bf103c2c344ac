#include "services/cli/launch/interrupt.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "services/cli/core/exit_code.h"

namespace kernelcast::cli {
namespace {

// Signal handlers can only use globals.
std::atomic<int> first_signal{0};
int wake_fd = -1;

void OnSignal(int number) {
  int expected = 0;
  if (!first_signal.compare_exchange_strong(expected, number)) {
    // The second signal exits at once. Children die with this process.
    static constexpr char kShowCursor[] = "\x1b[?25h\n";
    if (isatty(STDERR_FILENO)) {
      [[maybe_unused]] const ssize_t ignored =
          write(STDERR_FILENO, kShowCursor, sizeof kShowCursor - 1);
    }
    _exit(static_cast<int>(ExitCode::kInterrupted));
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(wake_fd, &one, sizeof one);
}

}  // namespace

Interrupt::Interrupt() {
  wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  // Report a closed pipe as an error of write instead of ending the process.
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

bool Interrupt::requested() const { return first_signal.load() != 0; }
int Interrupt::fd() const { return wake_fd; }

}  // namespace kernelcast::cli
