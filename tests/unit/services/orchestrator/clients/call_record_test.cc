#include "services/orchestrator/clients/call_record.h"

#include <catch2/catch.hpp>

namespace kernelcast::orchestrator {
namespace {

const CallRecord::Options kOptions;
const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

TEST_CASE("Failures in a row make a peer suspicious, and so does a large share of failures") {
  CallRecord in_row;
  for (int i = 0; i < kOptions.failures_in_row; ++i) {
    CHECK_FALSE(in_row.Suspicious(kOptions, 0, 0));
    in_row.Add(true);
  }
  CHECK(in_row.Suspicious(kOptions, 0, 0));
  in_row.Add(false);
  CHECK_FALSE(in_row.Suspicious(kOptions, 0, 0));

  CallRecord half;
  for (int i = 0; i < kOptions.least_calls; ++i) half.Add(i % 2 == 0);
  CHECK(half.Suspicious(kOptions, 100, 0));
  CallRecord few;
  for (int i = 0; i < kOptions.least_calls; ++i) few.Add(i % 4 == 0);
  CHECK_FALSE(few.Suspicious(kOptions, 100, 0));
}

TEST_CASE("A peer that fails as the others do is not to blame") {
  CallRecord record;
  for (int i = 0; i < 10; ++i) record.Add(true);
  CHECK(record.Suspicious(kOptions, 30, 3));
  CHECK_FALSE(record.Suspicious(kOptions, 30, 20));
}

TEST_CASE("Only the latest calls count") {
  CallRecord record;
  for (int i = 0; i < 100; ++i) record.Add(true);
  CHECK(record.calls() == CallRecord::kLatest);
  CHECK(record.failures() == CallRecord::kLatest);
  for (int i = 0; i < CallRecord::kLatest; ++i) record.Add(false);
  CHECK(record.failures() == 0);
}

TEST_CASE("A peer is left out for longer each time, and within bounds") {
  CallRecord record;
  absl::Time now = kStart;
  absl::Duration expected = kOptions.first_pause;
  for (int i = 0; i < 20; ++i) {
    CHECK(record.LeaveOut(kOptions, now) == std::min(expected, kOptions.longest_pause));
    expected *= 2;
    CHECK(record.out(now));
    CHECK_FALSE(record.on_probation(now));
    now += kOptions.longest_pause;
    CHECK(record.on_probation(now));
    CHECK_FALSE(record.in());
  }
}

TEST_CASE("A probe that succeeds brings a peer back; only long good behaviour makes it forgotten") {
  CallRecord record;
  (void)record.LeaveOut(kOptions, kStart);
  record.ComeBack();
  CHECK(record.in());
  CHECK(record.calls() == 0);
  CHECK(record.LeaveOut(kOptions, kStart) == 2 * kOptions.first_pause);
  record.ComeBack();
  for (int i = 0; i < 2 * CallRecord::kLatest; ++i) record.Add(false);
  CHECK(record.LeaveOut(kOptions, kStart) == kOptions.first_pause);
}

}  // namespace
}  // namespace kernelcast::orchestrator
