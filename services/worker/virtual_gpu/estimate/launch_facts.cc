#include "services/worker/virtual_gpu/estimate/launch_facts.h"

#include <algorithm>
#include <cmath>

namespace kernelcast::worker::virtual_gpu {
namespace {

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

double Sum(const auto& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

std::vector<double> LaunchFacts(const LaunchCounts& counts, const LaunchEstimate& estimate) {
  const Counters& c = counts.counters;
  const LaunchEstimate& e = estimate;
  const auto Of = [&](Kind kind) { return c.kind[static_cast<size_t>(kind)]; };
  const auto Ns = [&](Resource resource) { return e.ns[static_cast<size_t>(resource)]; };
  std::vector<double> facts = {
      counts.blocks,                                               // blocks
      counts.warps,                                                // block_warps
      e.blocks_per_multiprocessor,                                 // resident_blocks
      e.waves,                                                     // waves
      static_cast<double>(counts.sampled_blocks),                  // sampled_blocks
      static_cast<double>(counts.sampled_warps),                   // sampled_warps
      static_cast<double>(counts.steps),                           // executed_instructions
      Ratio(c.skipped, c.instructions),                            // inferred_share
      c.instructions,                                              // instructions
      Ratio(c.lanes, 32 * c.instructions),                         // active_lane_share
      c.issue_slots,                                               // issue_slots
      Of(Kind::kInteger),                                          // integer
      Of(Kind::kFloat32),                                          // float32
      Of(Kind::kFloat64),                                          // float64
      Of(Kind::kHalf),                                             // half
      Of(Kind::kConversion),                                       // conversions
      Of(Kind::kSpecial),                                          // special_functions
      Of(Kind::kPredicate),                                        // predicates
      Of(Kind::kMove),                                             // moves
      Of(Kind::kShuffle),                                          // shuffles
      Of(Kind::kVote),                                             // votes
      Of(Kind::kControl),                                          // control
      Of(Kind::kBarrier),                                          // barriers
      Of(Kind::kFence),                                            // fences
      Of(Kind::kMatrix),                                           // matrix_products
      Of(Kind::kMatrixLoad),                                       // matrix_loads
      c.branches,                                                  // branches
      Ratio(c.divergent_branches, c.branches),                     // divergent_share
      c.flops32,                                                   // float32_operations
      c.flops64,                                                   // float64_operations
      c.flops16,                                                   // half_operations
      c.matrix_flops[static_cast<size_t>(MatrixType::kHalf)],      // matrix_operations_half
      c.matrix_flops[static_cast<size_t>(MatrixType::kTf32)],      // matrix_operations_tf32
      c.matrix_flops[static_cast<size_t>(MatrixType::kFloat8)],    // matrix_operations_float8
      c.matrix_flops[static_cast<size_t>(MatrixType::kInteger8)],  // matrix_operations_integer8
      c.matrix_flops[static_cast<size_t>(MatrixType::kFloat64)],   // matrix_operations_float64
      Ratio(c.matrix_group_flops, Sum(c.matrix_flops)),            // matrix_group_share
      c.load_requests[0],                                          // load_requests_1
      Ratio(c.load_sectors[0], c.load_requests[0]),                // load_sectors_1
      c.load_requests[1],                                          // load_requests_2
      Ratio(c.load_sectors[1], c.load_requests[1]),                // load_sectors_2
      c.load_requests[2],                                          // load_requests_4
      Ratio(c.load_sectors[2], c.load_requests[2]),                // load_sectors_4
      c.load_requests[3],                                          // load_requests_8
      Ratio(c.load_sectors[3], c.load_requests[3]),                // load_sectors_8
      c.load_requests[4],                                          // load_requests_16
      Ratio(c.load_sectors[4], c.load_requests[4]),                // load_sectors_16
      c.store_requests[0],                                         // store_requests_1
      Ratio(c.store_sectors[0], c.store_requests[0]),              // store_sectors_1
      c.store_requests[1],                                         // store_requests_2
      Ratio(c.store_sectors[1], c.store_requests[1]),              // store_sectors_2
      c.store_requests[2],                                         // store_requests_4
      Ratio(c.store_sectors[2], c.store_requests[2]),              // store_sectors_4
      c.store_requests[3],                                         // store_requests_8
      Ratio(c.store_sectors[3], c.store_requests[3]),              // store_sectors_8
      c.store_requests[4],                                         // store_requests_16
      Ratio(c.store_sectors[4], c.store_requests[4]),              // store_sectors_16
      Ratio(c.load_bytes, 32 * Sum(c.load_sectors)),               // load_efficiency
      Ratio(c.store_bytes, 32 * Sum(c.store_sectors)),             // store_efficiency
      c.local_sectors,                                             // local_sectors
      c.shared_load_requests,                                      // shared_load_requests
      Ratio(c.shared_load_wavefronts, c.shared_load_requests),     // shared_load_wavefronts
      Ratio(c.shared_load_wavefronts, c.shared_load_ideal),        // shared_load_conflicts
      c.shared_store_requests,                                     // shared_store_requests
      Ratio(c.shared_store_wavefronts,
            c.shared_store_requests + c.async_copies),         // shared_store_wavefronts
      Ratio(c.shared_store_wavefronts, c.shared_store_ideal),  // shared_store_conflicts
      c.shared_bytes,                                          // shared_bytes_moved
      c.async_copies,                                          // async_copies
      c.async_bytes,                                           // async_bytes
      c.global_atomics,                                        // global_atomics
      c.global_atomic_requests,                                // global_atomic_requests
      Ratio(c.global_atomic_depth, c.global_atomic_requests),  // global_atomic_depth
      counts.hottest_global,                                   // global_atomic_hottest
      c.shared_atomics,                                        // shared_atomics
      c.shared_atomic_requests,                                // shared_atomic_requests
      Ratio(c.shared_atomic_depth, c.shared_atomic_requests),  // shared_atomic_depth
      counts.hottest_shared,                                   // shared_atomic_hottest
      e.unique_bytes,                                          // unique_bytes
      e.dram_bytes,                                            // dram_bytes
      e.l2_bytes,                                              // l2_bytes
      e.l2_reuse,                                              // l2_reuse
      e.loads_in_flight,                                       // loads_in_flight
      e.bytes_in_flight,                                       // bytes_in_flight
      counts.block_cycles,                                     // block_cycles
      Ns(Resource::kDram),                                     // dram_ns
      Ns(Resource::kL2),                                       // l2_ns
      Ns(Resource::kLoadStore),                                // load_store_ns
      Ns(Resource::kIssue),                                    // issue_ns
      Ns(Resource::kFloat32),                                  // float32_ns
      Ns(Resource::kInteger),                                  // integer_ns
      Ns(Resource::kFloat64),                                  // float64_ns
      Ns(Resource::kHalf),                                     // half_ns
      Ns(Resource::kSpecial),                                  // special_ns
      Ns(Resource::kConversion),                               // conversion_ns
      Ns(Resource::kTensor),                                   // tensor_ns
      Ns(Resource::kAtomics),                                  // atomics_ns
      Ns(Resource::kLatency),                                  // latency_ns
      e.total_ns,                                              // estimated_ns
  };
  for (double& fact : facts) {
    if (!std::isfinite(fact)) fact = 0;
  }
  return facts;
}

}  // namespace kernelcast::worker::virtual_gpu
