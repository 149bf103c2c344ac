#ifndef KERNELCAST_SERVICES_CLI_LAUNCH_INTERRUPT_H_
#define KERNELCAST_SERVICES_CLI_LAUNCH_INTERRUPT_H_

#include <functional>
#include <string_view>
#include <thread>

#include "absl/time/time.h"

namespace kernelcast::cli {

// Time that a command has after an interrupt to print what it has and to end its services.
inline constexpr absl::Duration kInterruptGrace = absl::Milliseconds(1800);

// Handles SIGINT, SIGTERM and SIGHUP. The first signal is recorded. The process must end within
// kInterruptGrace, or it is ended. A second signal ends it at once. A signal within half a second
// of the first is ignored, because timeout(1) signals the process and its group. A forced end shows
// the terminal's cursor again, prints the farewell, and exits with code 4. Create one instance per
// process, in main before any thread. The methods are thread-safe.
class Interrupt {
 public:
  // Calls `on_request` once, on a thread of its own, before `requested` becomes true.
  explicit Interrupt(std::function<void()> on_request = {});
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;
  // The signal that was received first; 0: none.
  int signal() const;
  // Time since that signal; zero if there was none.
  absl::Duration age() const;
  // Becomes readable after a signal; never read from it.
  int fd() const;
  // Waits for an interrupt, at most this long.
  void WaitFor(absl::Duration timeout) const;

  // Removes the limit of kInterruptGrace. For `up`, which drains services until a second signal.
  void LiftDeadline() const;
  // Sets a line for standard error, which a forced end prints. Cut to 500 bytes.
  void SetFarewell(std::string_view line) const;

 private:
  void Run(const std::function<void()>& on_request);

  int done_fd_;
  std::thread thread_;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_LAUNCH_INTERRUPT_H_
