#ifndef KERNELCAST_COMMON_PROCESS_PROCESS_CLOCK_H_
#define KERNELCAST_COMMON_PROCESS_PROCESS_CLOCK_H_

#include <sys/types.h>
#include <time.h>

#include <cstdint>

namespace kernelcast {

// Reads a process's processor time from the system. Movable; thread-compatible.
class ProcessClock {
 public:
  ProcessClock() = default;
  // The process must exist.
  explicit ProcessClock(pid_t pid);
  ~ProcessClock();
  ProcessClock(ProcessClock&& other) noexcept;
  ProcessClock& operator=(ProcessClock&& other) noexcept;

  // Processor time that it has used with all its threads: exact while it sleeps, else up to a tick
  // of the system behind. 0 if it is not known.
  int64_t RanNs() const;
  // Whether its first thread sleeps. Its own word would not prove it, nor would its clock, which
  // stands still for a tick. True if it is not known.
  bool Sleeps() const;

 private:
  clockid_t clock_ = -1;
  int stat_fd_ = -1;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROCESS_PROCESS_CLOCK_H_
