#ifndef KERNELCAST_SERVICES_WORKER_RUNNER_CONTROL_H_
#define KERNELCAST_SERVICES_WORKER_RUNNER_CONTROL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

// Memory shared by the judge (in the worker) and the runner. The judge creates three memory files:
// this block followed by the table of cases, the inputs (read-only for the runner), and the
// outputs. The judge trusts nothing in them, since a candidate can write to all of it: it only
// takes from the runner that a call ended, and then checks the outputs itself. The progress of the
// start is in a separate block, which the runner unmaps before any code of the candidate runs.
//
//   judge                                        runner
//   spawn with the descriptors below             map, load the object, drop privileges, sandbox
//                                                run the object's constructors
//                                                ready = 1, wake
//   command, case, then command_sequence += 1    sees it (spins, then sleeps), runs the entry
//   wake if the runner sleeps                    entry_status, done_sequence = command_sequence
//   sees it (spins), takes the time
namespace kernelcast::worker::runner {

inline constexpr uint32_t kMagic = 0x4b435231;

// Descriptors that are open when the runner starts.
inline constexpr int kControlFd = 3;
inline constexpr int kInputsFd = 4;
inline constexpr int kOutputsFd = 5;
inline constexpr int kObjectFd = 6;
inline constexpr int kStartFd = 7;

inline constexpr int kMaxDimensions = 8;
inline constexpr int kMaxTensors = 128;

enum Command : uint32_t {
  kNop = 1,  // returns at once: cost of a call without the entry
  kRun = 2,  // calls the entry on a case
  // kRun after filling the free stack and the memory that malloc returns next with large finite
  // numbers or NaN. For checked calls, so that reads of uninitialised memory give wrong results.
  kRunOnFinite = 3,
  kRunOnNan = 4,
};

enum State : uint32_t {
  kStarting = 0,
  kLoading = 1,       // reading the object; none of its code has run
  kConstructing = 2,  // its code runs: any failure from now on is the candidate's
};

// Why the runner gave up before it was ready; also the line that it prints.
enum Failure : uint32_t {
  kNoFailure = 0,
  kBadArguments = 1,
  kMapFailed = 2,
  kLoadFailed = 3,     // the dynamic loader refused the object
  kSandboxFailed = 4,  // a required protection is unavailable
};

// Protections in effect.
enum Protection : uint32_t {
  kSeccomp = 1,
  kNoNewPrivileges = 2,
  kResourceLimits = 4,
  kUnprivilegedUser = 8,
  kParentDeathSignal = 16,
  kLandlock = 32,
  kNamespaces = 64,
};

// Progress of the start, written by the runner. In its own memory file.
struct StartBlock {
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> failure;
  std::atomic<uint32_t> protections;
};

struct TensorRecord {
  uint64_t offset;  // in its memory file
  uint64_t bytes;
  uint8_t dlpack_code;
  uint8_t dlpack_bits;
  uint16_t dimensions;
  uint32_t reserved;
  int64_t shape[kMaxDimensions];
};

struct CaseRecord {
  uint32_t inputs;
  uint32_t outputs;
  TensorRecord tensors[kMaxTensors];  // inputs, then outputs
};

struct ControlBlock {
  // Set by the judge before the runner starts.
  uint32_t magic;
  uint32_t case_count;
  uint64_t inputs_bytes;
  uint64_t outputs_bytes;
  // The object's constructors, as addresses relative to its load address. The judge has removed
  // them from the dynamic section so that loading runs none of its code.
  uint64_t init_function;  // 0: none
  uint64_t init_array;
  uint64_t init_array_entries;
  uint64_t max_address_space_bytes;
  uint64_t max_cpu_seconds;
  uint32_t run_as_uid;  // 0: keep the current user
  int32_t cpu;          // core to run on; -1: any
  uint32_t spin_us;     // time to spin for the next command before sleeping

  // Written by the judge.
  alignas(64) std::atomic<uint32_t> command_sequence;
  std::atomic<uint32_t> command;
  std::atomic<uint32_t> case_index;
  // Whether the runner stays awake while it waits for the next command.
  std::atomic<uint32_t> linger;
  std::atomic<uint32_t> judge_sleeps;  // the runner must wake it

  // Written by the runner.
  alignas(64) std::atomic<uint32_t> done_sequence;
  std::atomic<int32_t> entry_status;
  alignas(64) std::atomic<uint32_t> runner_sleeps;  // the judge must wake it
  std::atomic<uint32_t> ready;                      // waits for commands
  std::atomic<uint32_t> allocation_refused;
  std::atomic<int32_t> trapped_system_call;  // -1: none
  std::atomic<uint32_t> fault_signal;
  std::atomic<uint64_t> fault_address;
  std::atomic<uint64_t> inputs_address;  // where the inputs are mapped in the runner
  std::atomic<uint64_t> outputs_address;
};

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
              std::atomic<uint64_t>::is_always_lock_free);

inline constexpr size_t kCaseTableOffset = 4096;
static_assert(sizeof(ControlBlock) <= kCaseTableOffset);

}  // namespace kernelcast::worker::runner

#endif  // KERNELCAST_SERVICES_WORKER_RUNNER_CONTROL_H_
