#ifndef KERNELCAST_SERVICES_CLI_LAUNCH_INTERRUPT_H_
#define KERNELCAST_SERVICES_CLI_LAUNCH_INTERRUPT_H_

namespace kernelcast::cli {

// SIGINT, SIGTERM and SIGHUP as something to ask and to wait for. The first is remembered; the
// second ends the process with exit code 4 at once, after the terminal's cursor is shown again. One
// instance a process, made in main before any thread; all else is thread-safe.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;
  // Number of the first signal, 0 before it.
  int signal() const;
  // Readable once a signal has come; never read from it.
  int fd() const;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_LAUNCH_INTERRUPT_H_
