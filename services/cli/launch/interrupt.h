#ifndef KERNELCAST_SERVICES_CLI_LAUNCH_INTERRUPT_H_
#define KERNELCAST_SERVICES_CLI_LAUNCH_INTERRUPT_H_

namespace kernelcast::cli {

// Handles SIGINT, SIGTERM and SIGHUP. The first signal is recorded. The second shows the terminal's
// cursor again and exits at once with code 4. Create one instance per process, in main before any
// thread. The methods are thread-safe.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;
  // Becomes readable after a signal; never read from it.
  int fd() const;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_LAUNCH_INTERRUPT_H_
