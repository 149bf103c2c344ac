#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROTOCOL_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

// Protocol between the worker and its CUDA runner over a packet socket. There is one request at a
// time, answered by one reply. Bulk data is in a memory file attached to the request.
//
//   worker (judge)                                runner
//   spawn with kSocketFd                          driver, context, stream, L2 buffer; kHello
//   kMap: an arena's memory                       maps it for reading or writing
//   kLoad: a cubin and its kernels' names         loads it into a module slot
//   kLoadObject: a shared object                  loads it as the candidate, enters the sandbox
//   kPrograms: launches with their arguments,     keeps them, with addresses of its own mappings
//     or the tensors of a call of the object
//   kRun: programs                                runs them one after the other, synchronises
//   kTime: samples                                for each: poison, L2 flush, event, program, event
//   kTrace, kCount: a call, a file to write to    profiles it (profile_report.h); only if it was
//                                                 started for profiling, since timing suffers
//   kUnload                                       unloads the module, discards its programs
//   kUnmap                                        unmaps the arena, discards the programs of slots
//                                                 that use it
//
// A failed request leaves the runner unchanged, with two exceptions: after a failed kLoad the slot
// is empty, and if the context is lost (`context_lost`) the runner is unusable.
//
// Once a runner has loaded an object, the candidate controls its replies. Such a runner serves one
// candidate and has loaded no cubin but that of kHostile, and no reference. The worker then relies
// only on its own clock and on the contents of memory.
namespace kernelcast::worker::cuda_runner {

inline constexpr int kSocketFd = 3;

// Module and program slots.
inline constexpr uint32_t kCandidate = 0;
inline constexpr uint32_t kReference = 1;
inline constexpr uint32_t kHostile =
    2;  // the worker's own kernels, which fill memory before a checked call
inline constexpr uint32_t kSlots = 3;

inline constexpr uint32_t kMaxArenas = 8;
inline constexpr uint32_t kCountArena = 7;  // used by the programs of kHostile
inline constexpr uint32_t kMaxPrograms = 512;
inline constexpr uint32_t kMaxLaunches = 64;
inline constexpr uint32_t kMaxArguments = 128;
inline constexpr uint32_t kMaxTensors = 128;
inline constexpr uint32_t kMaxDimensions = 8;
// Each program, preceded by a fill.
inline constexpr size_t kMaxRuns = 2 * size_t{kMaxPrograms};
inline constexpr size_t kMaxSamples = 128;
inline constexpr size_t kMaxPoisons = 1024;
inline constexpr size_t kMaxPacketBytes = 64 << 10;
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 32;

enum class Command : uint32_t {
  kHello = 1,
  kMap,
  kUnmap,
  kLoad,
  kUnload,
  kPrograms,
  kRun,
  kTime,
  kLoadObject,
  kTrace,
  kCount,
};

enum class Failure : uint32_t {
  kNone = 0,
  kDriver,   // a driver call failed; `cuda_error` is its result
  kRequest,  // malformed request
  kObject,   // the shared object cannot be loaded; `where` says why
  kEntry,    // kernelcast_run returned `cuda_error`, which is not 0
};

struct Request {
  Command command;
  uint32_t slot;      // kMap, kUnmap: arena; kLoad, kUnload, kPrograms: module slot
  uint64_t bytes;     // kMap: of the arena; kLoad: of the cubin; kPrograms: of the file
  uint32_t count;     // kLoad: kernels; kPrograms: programs; kRun: runs; kTime: samples
  uint32_t extra;     // kLoad: bytes of the names, each ended by NUL, after the cubin;
                      // kTime, kCount: poisons; kTrace: calls; kMap: bytes before the arena begins
  uint32_t writable;  // kMap
  uint32_t flushes;   // kTime, kCount: how often the L2 cache is overwritten before each call
  // kRun, kTime: each call replays a CUDA graph of it, which the first replay captures.
  uint32_t replay;
  uint32_t reserved;
};

// kRun: `count` of these follow the request. kTrace: one.
struct RunRecord {
  uint32_t slot;
  uint32_t program;
};

// kTime: `count` of these follow the request, then `extra` PoisonRecords. kCount: the same, but all
// poisons are written and the cache is flushed first, then come the calls, and only the last is
// counted.
struct SampleRecord {
  uint32_t slot;
  uint32_t program;
  uint32_t first_poison;
  uint32_t poisons;
};
struct PoisonRecord {
  uint32_t arena;
  uint32_t pattern;  // repeated; `bytes` and `offset` are multiples of 4
  uint64_t offset;
  uint64_t bytes;
};

// kLoadObject: follows the request. Locates the object's constructors, which loading skips
// (native/shared_object.h), and sets its limits.
struct ObjectRecord {
  uint64_t init_function;  // relative to the load address; 0: none
  uint64_t init_array;
  uint64_t init_array_entries;
  uint64_t max_memory_bytes;  // host memory; 0: unlimited
  uint32_t uid;               // user of the runner if it is root; 0: stay root
  uint32_t unused;
};

// kPrograms: for each program the file holds a ProgramRecord, its launches (each followed by its
// arguments), and its tensors, inputs first. A program has launches, tensors or neither.
struct ProgramRecord {
  uint32_t launches;
  uint32_t inputs;
  uint32_t outputs;
  uint32_t task_case;  // of a Python task
};
struct TensorRecord {
  uint32_t arena;
  uint32_t dlpack_code;
  uint32_t dlpack_bits;
  uint32_t dimensions;
  uint64_t offset;
  int64_t shape[kMaxDimensions];
};
struct LaunchRecord {
  uint32_t kernel;  // index among the names of kLoad, or kCopy
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t cluster[3];  // all 0: no cluster
  uint32_t shared_memory_bytes;
  uint32_t arguments;
};
struct ArgumentRecord {
  uint32_t arena;  // kLiteral: `value` holds the argument's bytes, else an offset in the arena
  uint32_t bytes;
  uint64_t value;
};
inline constexpr uint32_t kLiteral = ~0u;
// Instead of a launch: copies memory. The arguments are to, from and the number of bytes.
inline constexpr uint32_t kCopy = ~0u;

struct Reply {
  Command command;
  Failure failure;
  int32_t cuda_error;
  uint32_t context_lost;
  // kRun: from before the first launch until all have ended. kTime: the same, from when the device
  // has taken up work of the process.
  int64_t wall_ns;
  // kTime: the part of it that the host needed to launch the work between programs.
  int64_t launching_ns;
  uint64_t values;  // kTime: floats that follow, two per sample: flush and program, in microseconds
  char where[64];   // the failed call
};

static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Reply>);
static_assert(sizeof(Reply) + 2 * kMaxSamples * sizeof(float) <= kMaxPacketBytes);
static_assert(sizeof(Request) + kMaxSamples * sizeof(SampleRecord) +
                  kMaxPoisons * sizeof(PoisonRecord) <=
              kMaxPacketBytes);
static_assert(sizeof(Request) + kMaxRuns * sizeof(RunRecord) <= kMaxPacketBytes);

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROTOCOL_H_
