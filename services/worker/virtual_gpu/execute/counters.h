#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_COUNTERS_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_COUNTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "services/worker/virtual_gpu/execute/memory.h"
#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

// Access widths per lane: 1, 2, 4, 8 and 16 bytes.
inline constexpr int kWidths = 5;

// Whether blocks read words published by other blocks of their launch, and so may have to wait:
// after publishing something that lets others continue, or before.
enum class Waits : uint8_t { kNever, kAfterPublishing, kBeforePublishing };

// Counts collected during execution. Contains only doubles, so that the counts of samples can be
// scaled and added.
struct Counters {
  double instructions = 0;  // per warp
  double lanes = 0;         // active lanes, summed over instructions
  double issue_slots = 0;   // approximate machine instructions
  std::array<double, kKinds> kind = {};
  std::array<double, kPipes> pipe = {};  // issue slots by unit

  std::array<double, kWidths> load_requests = {};  // global
  std::array<double, kWidths> load_sectors = {};
  std::array<double, kWidths> store_requests = {};
  std::array<double, kWidths> store_sectors = {};
  double load_bytes = 0;  // requested by lanes
  double store_bytes = 0;
  double global_lines = 0;  // of 128 bytes, per request
  double local_sectors = 0;
  double local_lines = 0;  // per request

  double shared_load_requests = 0;
  double shared_load_wavefronts = 0;
  double shared_load_ideal = 0;  // wavefronts without conflicts
  double shared_store_requests = 0;
  double shared_store_wavefronts = 0;
  double shared_store_ideal = 0;
  double shared_bytes = 0;

  double global_atomics = 0;  // per lane
  double global_atomic_requests = 0;
  double global_atomic_depth = 0;  // most lanes at one address, summed over requests
  double shared_atomics = 0;
  double shared_atomic_requests = 0;
  double shared_atomic_depth = 0;
  double shared_atomic_cycles = 0;  // time that the unit is busy

  double async_copies = 0;
  double async_bytes = 0;
  double async_sectors = 0;

  double branches = 0;
  double divergent_branches = 0;
  double barriers = 0;

  std::array<double, kMatrixTypes> matrix = {};  // instructions
  std::array<double, kMatrixTypes> matrix_flops = {};
  double matrix_group_flops = 0;  // the part of wgmma

  double flops32 = 0;  // float32, float64 and half operations of active lanes
  double flops64 = 0;
  double flops16 = 0;

  double loads = 0;             // global and asynchronous, per warp
  double load_cycles = 0;       // sum of their latencies
  double load_byte_cycles = 0;  // latencies times bytes
  double skipped = 0;           // instructions inferred from loops, not executed

  std::array<double, kRegions> read_sectors = {};  // by region
  std::array<double, kRegions> read_new = {};      // of those, first touched by the block
  std::array<double, kRegions> read_halves = {};   // half lines, first touched by the block
  std::array<double, kRegions> write_bytes = {};
  std::array<double, kRegions> write_halves = {};
  std::array<double, kRegions> write_sectors = {};
  std::array<double, kRegions> write_new = {};
  double lines_read = 0;     // in all regions; recently read lines are not counted again
  double stray_sectors = 0;  // outside all regions

  std::span<double> values() {
    return {reinterpret_cast<double*>(this), sizeof(Counters) / sizeof(double)};
  }
  std::span<const double> values() const {
    return {reinterpret_cast<const double*>(this), sizeof(Counters) / sizeof(double)};
  }
  void Add(const Counters& other, double scale) {
    const std::span<double> to = values();
    const std::span<const double> from = other.values();
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] += scale * from[i];
    }
  }
};
static_assert(sizeof(Counters) % sizeof(double) == 0);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_COUNTERS_H_
