#ifndef KERNELCAST_TESTS_INTEGRATION_ORCHESTRATOR_RECORDED_SPACES_H_
#define KERNELCAST_TESTS_INTEGRATION_ORCHESTRATOR_RECORDED_SPACES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kernelcast::orchestrator {

struct RecordedCandidate {
  std::optional<double> log2_speedup;  // empty if it failed
  int64_t device_time_ns = 0;
};

// A problem's template space with a measurement of every point.
struct RecordedSpace {
  std::string name;
  std::vector<RecordedCandidate> candidates;
};

// Reads data/measured/DEVICE, sorted by name.
std::vector<RecordedSpace> ReadRecordedSpaces(const std::string& device);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_TESTS_INTEGRATION_ORCHESTRATOR_RECORDED_SPACES_H_
