#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROFILE_REPORT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROFILE_REPORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// Results of kTrace and kCount, which the runner writes to the memory file attached to the request.
namespace kernelcast::worker::cuda_runner {

// A counter, with our name and NVIDIA's.
struct CounterMetric {
  const char* name;
  const char* metric;
  double scale;  // from the metric's unit to ours
  bool sums;     // over the kernels of a call; otherwise a mean weighted by their time
};

inline constexpr std::array<CounterMetric, 18> kCounterMetrics = {{
    {"kernel_ns", "gpu__time_duration.sum", 1, true},
    {"dram_read_bytes", "dram__bytes_read.sum", 1, true},
    {"dram_written_bytes", "dram__bytes_write.sum", 1, true},
    {"instructions", "smsp__inst_executed.sum", 1, true},
    {"dram_throughput_ratio", "dram__throughput.avg.pct_of_peak_sustained_elapsed", 0.01, false},
    {"memory_throughput_ratio", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
     0.01, false},
    {"sm_throughput_ratio", "sm__throughput.avg.pct_of_peak_sustained_elapsed", 0.01, false},
    {"tensor_pipe_ratio", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 0.01,
     false},
    {"issue_active_ratio", "smsp__issue_active.avg.pct_of_peak_sustained_active", 0.01, false},
    {"achieved_occupancy_ratio", "sm__warps_active.avg.pct_of_peak_sustained_active", 0.01, false},
    {"l1_hit_ratio", "l1tex__t_sector_hit_rate.pct", 0.01, false},
    {"l2_hit_ratio", "lts__t_sector_hit_rate.pct", 0.01, false},
    {"global_load_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 1, true},
    {"global_load_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 1, true},
    {"global_store_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", 1, true},
    {"global_store_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", 1, true},
    {"shared_load_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", 1, true},
    {"shared_store_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", 1, true},
}};
// Weights for means over time; without this counter there are none.
inline constexpr size_t kKernelNs = 0;

// Reasons why a warp does not issue; the rest of the time it issues. The metric is
// smsp__average_warps_issue_stalled_REASON_per_issue_active.ratio.
inline constexpr std::array<const char*, 18> kStallReasons = {"barrier",
                                                              "branch_resolving",
                                                              "dispatch_stall",
                                                              "drain",
                                                              "gmma",
                                                              "imc_miss",
                                                              "lg_throttle",
                                                              "long_scoreboard",
                                                              "math_pipe_throttle",
                                                              "membar",
                                                              "mio_throttle",
                                                              "misc",
                                                              "no_instruction",
                                                              "not_selected",
                                                              "short_scoreboard",
                                                              "sleeping",
                                                              "tex_throttle",
                                                              "wait"};

inline constexpr size_t kMaxTracedKernels = 64;
inline constexpr size_t kReasonBytes = 512;

struct TracedKernel {
  char name[240];   // NUL-terminated, truncated if too long
  double launches;  // per call
  double median_ns;
  uint32_t registers;
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t reserved;
};

struct TraceReport {
  uint32_t kernels;
  uint32_t reserved;
  double call_ns;                  // median of the sum of a call's kernels
  char unavailable[kReasonBytes];  // why there is no result, or ""
  TracedKernel kernel[kMaxTracedKernels];
};

struct CountReport {
  char unavailable[kReasonBytes];
  uint32_t passes;
  uint32_t reserved;
  // NaN if the device has no such counter. Stalls are shares of the time of resident warps.
  double values[kCounterMetrics.size()];
  double stalls[kStallReasons.size()];
};

static_assert(std::is_trivially_copyable_v<TraceReport> &&
              std::is_trivially_copyable_v<CountReport>);

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROFILE_REPORT_H_
