#include "services/worker/core/options.h"

namespace kernelcast::worker {

// Printed by bench_interval_coverage for the example problems; the data are in data/measured/.

SpreadOptions SpreadOptions::Cpu() {
  return {.runner_deviation = 0.03,
          .sitting_deviation = 0.01,
          .state_deviation = 0.1,
          .state_degrees = 8,
          .state_share = 0.8,
          .device_degrees = 20,
          .problem_degrees = 8,
          .kernel_degrees = 3,
          .least_group_noise = 0.005};
}

SpreadOptions SpreadOptions::Cuda() {
  return {.runner_deviation = 0.003,
          .sitting_deviation = 0.001,
          .state_deviation = 0.001,
          .state_degrees = 8,
          .state_share = 0.6,
          .device_degrees = 20,
          .problem_degrees = 8,
          .kernel_degrees = 3,
          .least_group_noise = 0.004};
}

}  // namespace kernelcast::worker
