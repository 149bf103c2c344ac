#include "services/orchestrator/clients/outlier_detector.h"

#include <catch2/catch.hpp>

namespace kernelcast::orchestrator::outlier_detector_test {
namespace {

const OutlierDetector::Options kOptions;
const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

TEST_CASE("Consecutive failures or a high failure rate eject a peer") {
  OutlierDetector in_row;
  for (int i = 0; i < kOptions.failures_in_row; ++i) {
    CHECK_FALSE(in_row.Suspicious(kOptions, 0, 0));
    in_row.Add(true);
  }
  CHECK(in_row.Suspicious(kOptions, 0, 0));
  in_row.Add(false);
  CHECK_FALSE(in_row.Suspicious(kOptions, 0, 0));

  OutlierDetector half;
  for (int i = 0; i < kOptions.least_calls; ++i) half.Add(i % 2 == 0);
  CHECK(half.Suspicious(kOptions, 100, 0));
  OutlierDetector few;
  for (int i = 0; i < kOptions.least_calls; ++i) few.Add(i % 4 == 0);
  CHECK_FALSE(few.Suspicious(kOptions, 100, 0));
}

TEST_CASE("A peer that fails like the others is not blamed") {
  OutlierDetector record;
  for (int i = 0; i < 10; ++i) record.Add(true);
  CHECK(record.Suspicious(kOptions, 30, 3));
  CHECK_FALSE(record.Suspicious(kOptions, 30, 20));
}

TEST_CASE("Only the latest calls count") {
  OutlierDetector record;
  for (int i = 0; i < 100; ++i) record.Add(true);
  CHECK(record.calls() == OutlierDetector::kLatest);
  CHECK(record.failures() == OutlierDetector::kLatest);
  for (int i = 0; i < OutlierDetector::kLatest; ++i) record.Add(false);
  CHECK(record.failures() == 0);
}

TEST_CASE("Each ejection of a peer lasts longer, within bounds") {
  OutlierDetector record;
  absl::Time now = kStart;
  absl::Duration expected = kOptions.first_pause;
  for (int i = 0; i < 20; ++i) {
    CHECK(record.Eject(kOptions, now) == std::min(expected, kOptions.longest_pause));
    expected *= 2;
    CHECK(record.out(now));
    CHECK_FALSE(record.on_probation(now));
    now += kOptions.longest_pause;
    CHECK(record.on_probation(now));
    CHECK_FALSE(record.in());
  }
}

TEST_CASE("A successful probe restores a peer and only long good behaviour clears its record") {
  OutlierDetector record;
  (void)record.Eject(kOptions, kStart);
  record.Readmit();
  CHECK(record.in());
  CHECK(record.calls() == 0);
  CHECK(record.Eject(kOptions, kStart) == 2 * kOptions.first_pause);
  record.Readmit();
  for (int i = 0; i < 2 * OutlierDetector::kLatest; ++i) record.Add(false);
  CHECK(record.Eject(kOptions, kStart) == kOptions.first_pause);
}

}  // namespace
}  // namespace kernelcast::orchestrator::outlier_detector_test
