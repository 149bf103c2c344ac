#ifndef KERNELCAST_SERVICES_WORKER_COMPILER_SANDBOX_STATUS_WIRE_H_
#define KERNELCAST_SERVICES_WORKER_COMPILER_SANDBOX_STATUS_WIRE_H_

// Messages of kernelcast-compiler-sandbox to the worker in a pipe: nothing if it could not enter
// the sandbox, kRunning if the compiler ran, kRunning and kNotRun if the compiler could not be run.
namespace kernelcast::worker::sandbox_status {

inline constexpr int kFd = 4;
inline constexpr char kRunning = 'R';
inline constexpr char kNotRun = 'N';

}  // namespace kernelcast::worker::sandbox_status

#endif  // KERNELCAST_SERVICES_WORKER_COMPILER_SANDBOX_STATUS_WIRE_H_
