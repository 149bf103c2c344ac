#include "tests/integration/orchestrator/recorded_spaces.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/gzip_file.h"

namespace kernelcast::orchestrator {
namespace {

using nlohmann::json;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The workers that made these records did not separate preparation from measuring. GPU measurements
// take about the same time, so a value above 2.5 times the median includes a preparation and is
// replaced by the median.
void TakePreparationOut(RecordedSpace& space) {
  std::vector<double> times;
  for (const RecordedCandidate& one : space.candidates) {
    if (one.log2_speedup) times.push_back(static_cast<double>(one.device_time_ns));
  }
  const double median = Median(times);
  for (RecordedCandidate& one : space.candidates) {
    const double most = one.log2_speedup ? 2.5 * median : median;
    if (static_cast<double>(one.device_time_ns) > most) {
      one.device_time_ns = static_cast<int64_t>(median);
    }
  }
}

}  // namespace

std::vector<RecordedSpace> ReadRecordedSpaces(const std::string& device) {
  std::vector<RecordedSpace> spaces;
  const std::string folder =
      absl::StrCat(KERNELCAST_SOURCE_DIR "/data/measured/", device, "/spaces");
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const absl::StatusOr<std::string> text = ReadGzipFile(file.path().string());
    REQUIRE(text.ok());
    RecordedSpace& space = spaces.emplace_back();
    space.name = file.path().stem().stem().string();
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      const json record = json::parse(line);
      const json::json_pointer measured("/evaluation/measured");
      if (!record.contains(measured)) continue;
      const json& measurement = record[measured];
      RecordedCandidate one;
      one.device_time_ns = static_cast<int64_t>(
          1e9 * std::stod(measurement.value("deviceTime", measurement.value("device_time", "0s"))));
      const json::json_pointer speedup("/ok/speedup/value");
      if (measurement.contains(speedup)) {
        one.log2_speedup = std::log2(measurement[speedup].get<double>());
      }
      space.candidates.push_back(one);
    }
    if (device.starts_with("nvidia")) TakePreparationOut(space);
  }
  std::sort(spaces.begin(), spaces.end(),
            [](const RecordedSpace& a, const RecordedSpace& b) { return a.name < b.name; });
  return spaces;
}

}  // namespace kernelcast::orchestrator
