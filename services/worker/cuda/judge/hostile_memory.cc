#include "services/worker/cuda/judge/hostile_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::Argument;
using cuda_runner::Program;
using cuda_runner::ProgramLaunch;

constexpr int64_t kLimitNs = 10'000'000'000;
// 1e30 as float32; 1.1e4 and -1.4e4 as float16; beyond 1e29 as bfloat16 and float64.
constexpr uint32_t kFiniteWord = 0x7149f2ca;
constexpr uint32_t kNanWord = 0x7ff17ff1;
constexpr uint32_t kSharedThreads = 1024;
constexpr uint32_t kLocalThreads = 512;
constexpr uint32_t kLocalWords = 64;
// Blocks of the second kernel that fill a multiprocessor of 2048 threads.
constexpr uint32_t kLocalBlocks = 4;
// Shared memory that the system takes for each block.
constexpr uint32_t kReservedBytes = 1024;
// A block that uses all shared memory runs alone on a multiprocessor. Twice as many blocks as
// multiprocessors reach every one even if some start late.
constexpr uint32_t kSharedBlocks = 2;

constexpr std::string_view kSource = R"cuda(
extern "C" __global__ void __launch_bounds__(1024)
hostile_shared(unsigned pattern, unsigned words, unsigned* count) {
  extern __shared__ unsigned hostile_words[];
  volatile unsigned* const to = hostile_words;
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) to[i] = pattern;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    atomicAdd_system(count, 1u);
    __threadfence_system();
  }
}

// 256 bytes of local memory for each thread, and 16 registers. What `words` is the compiler does not
// know, so that the array is in memory.
extern "C" __global__ void __launch_bounds__(512, 4) hostile_local(unsigned pattern, unsigned words) {
  unsigned at[64];
  for (unsigned i = 0; i < 2 * words; ++i) at[i & 63] = pattern;
  unsigned v[16];
#pragma unroll
  for (unsigned i = 0; i < 16; ++i) v[i] = at[(words * i + threadIdx.x) & 63];
  asm volatile("" ::"r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(v[4]), "r"(v[5]), "r"(v[6]),
               "r"(v[7]), "r"(v[8]), "r"(v[9]), "r"(v[10]), "r"(v[11]), "r"(v[12]), "r"(v[13]),
               "r"(v[14]), "r"(v[15]));
}
)cuda";

Argument Word(uint32_t value) {
  return {.arena = cuda_runner::kLiteral, .bytes = 4, .value = value};
}

}  // namespace

std::string_view HostileKernelsSource() { return kSource; }

std::vector<std::string> HostileKernelNames() { return {"hostile_shared", "hostile_local"}; }

absl::StatusOr<std::vector<Program>> HostileMemory::Programs() const {
  int shared_bytes = 0;
  KC_RETURN_IF_ERROR(device_.Check(
      device_.api().DeviceGetAttribute(
          &shared_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device_.device()),
      "asking for the size of shared memory"));
  const auto multiprocessors = static_cast<uint32_t>(device_.multiprocessors());
  std::vector<Program> programs;
  for (const uint32_t word : {kFiniteWord, kNanWord}) {
    ProgramLaunch shared;
    shared.kernel = 0;
    shared.grid[0] = kSharedBlocks * multiprocessors;
    shared.block[0] = kSharedThreads;
    shared.shared_memory_bytes = static_cast<uint32_t>(shared_bytes);
    shared.arguments = {Word(word),
                        Word(static_cast<uint32_t>(shared_bytes) / 4),
                        {.arena = cuda_runner::kCountArena, .bytes = 8, .value = 0}};
    ProgramLaunch local;
    local.kernel = 1;
    local.grid[0] = kLocalBlocks * multiprocessors;
    local.block[0] = kLocalThreads;
    // Shared memory takes space from the L1 cache. What is still there when a kernel ends may never
    // reach memory.
    local.shared_memory_bytes = static_cast<uint32_t>(shared_bytes) / kLocalBlocks - kReservedBytes;
    local.arguments = {Word(word), Word(kLocalWords)};
    programs.push_back({.launches = {std::move(local), std::move(shared)}});
  }
  return programs;
}

absl::Status HostileMemory::Attach(CudaRunner& runner, const CancelToken& cancel) {
  if (runner.has_hostile_memory) return absl::OkStatus();
  if (count_.bytes() == 0) {
    KC_ASSIGN_OR_RETURN(count_, SharedArena::Create(device_, sizeof(uint32_t)));
  }
  const auto check = [&](const CudaRunner::Answer& answer, const char* what) -> absl::Status {
    if (answer.ok()) return absl::OkStatus();
    KC_RETURN_IF_ERROR(cancel.Check());
    return absl::UnavailableError(
        absl::StrCat("hostile memory, ", what, ": ", CudaRunner::FailureText(answer)));
  };
  KC_RETURN_IF_ERROR(check(
      runner.Map(cuda_runner::kCountArena, count_.fd(), count_.bytes(), true, cancel), "mapping"));
  KC_ASSIGN_OR_RETURN(
      const CudaRunner::Answer loaded,
      runner.Load(cuda_runner::kHostile, cubin_, HostileKernelNames(), kLimitNs, cancel));
  KC_RETURN_IF_ERROR(check(loaded, "loading"));
  KC_ASSIGN_OR_RETURN(const std::vector<Program> programs, Programs());
  KC_ASSIGN_OR_RETURN(const CudaRunner::Answer taken,
                      runner.SetPrograms(cuda_runner::kHostile, programs, kLimitNs, cancel));
  KC_RETURN_IF_ERROR(check(taken, "programs"));
  runner.has_hostile_memory = true;
  return absl::OkStatus();
}

absl::Status HostileMemory::ResetCount() {
  return device_.Check(device_.api().MemsetD32Async(count_.address(), 0, 1, device_.stream()),
                       "clearing a counter");
}

absl::StatusOr<uint32_t> HostileMemory::Count() {
  uint32_t count = 0;
  KC_RETURN_IF_ERROR(device_.Read(&count, count_.address(), sizeof(count), "reading a counter"));
  return count;
}

}  // namespace kernelcast::worker
