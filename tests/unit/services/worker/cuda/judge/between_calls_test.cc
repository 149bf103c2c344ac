#include "services/worker/cuda/judge/between_calls.h"

#include <catch2/catch.hpp>
#include <vector>

namespace kernelcast::worker {
namespace {

using Times = std::vector<double>;

TEST_CASE("A candidate is charged for what it does between its calls") {
  BetweenCalls between;
  // Nothing is known of the reference.
  CHECK(between.ChargeUs(Times{500, 500}, 0) == 0);
  between.SetReference(Times{100, 104, 102});
  // Up to 30% and 10 us are forgiven.
  CHECK(between.ChargeUs(Times{142, 142, 142}, 0) == 0);
  CHECK(between.ChargeUs(Times{152, 152, 400}, 0) == 50);
  // The judge wrote 50 MB more, which takes at most 100 us.
  CHECK(between.ChargeUs(Times{252}, 50'000'000) == 0);
  CHECK(between.ChargeUs(Times{302}, 50'000'000) == 100);
}

TEST_CASE("Requests that take longer than the reference's beyond the reported calls are charged") {
  BeyondCalls beyond;
  // Nothing is known of the reference.
  CHECK(beyond.ChargeUs(12, 8, 5000, 0) == 0);
  for (const double us : {1000, 1020, 980, 990, 1010}) beyond.AddReference(12, us, 600);
  beyond.BeginCandidate();
  // Up to 30%, and 10 us for each call, are forgiven.
  CHECK(beyond.ChargeUs(12, 8, 1380, 0) == 0);
  CHECK(beyond.ChargeUs(10, 8, 1370, 0) == 0);
  beyond.BeginCandidate();
  CHECK(beyond.ChargeUs(12, 8, 9000, 0) == 1000);
  // One request that was held up is not charged, and one that was not does not hide the others.
  beyond.BeginCandidate();
  for (const double us : {1000, 1010, 9000}) CHECK(beyond.ChargeUs(12, 8, us, 0) == 0);
  beyond.BeginCandidate();
  CHECK(beyond.ChargeUs(12, 8, 9000, 0) == 1000);
  CHECK(beyond.ChargeUs(12, 8, 9000, 0) == 1000);
  CHECK(beyond.ChargeUs(12, 8, 1000, 0) == 1000);
  // Eight times 50 MB, which the judge asks it to write, take at most 800 us.
  beyond.BeginCandidate();
  CHECK(beyond.ChargeUs(12, 8, 2400, 50'000'000) == 0);
  beyond.BeginCandidate();
  CHECK(beyond.ChargeUs(12, 8, 2600, 50'000'000) == 100);
}

TEST_CASE("Requests that take as long as the reference's may are not charged") {
  // Its calls of 500 us hid that the host needs 900 us to launch what lies between them.
  BeyondCalls hidden;
  for (int i = 0; i < 6; ++i) hidden.AddReference(9, 400, 900);
  CHECK(hidden.ChargeUs(9, 8, 1200, 0) == 0);
  hidden.BeginCandidate();
  CHECK(hidden.ChargeUs(9, 8, 4900, 0) == 500);
  // With few requests the slowest counts, with many the median.
  BeyondCalls few;
  for (const double us : {600, 900, 600}) few.AddReference(14, us, 0);
  CHECK(few.ChargeUs(14, 1, 1150, 0) == 0);
  few.AddReference(14, 600, 0);
  few.AddReference(14, 600, 0);
  few.BeginCandidate();
  CHECK(few.ChargeUs(14, 1, 1150, 0) == 550);
}

// The values of calls that take 7 us each, and of what does nothing after the last.
std::vector<float> Values(const std::vector<float>& before_us) {
  std::vector<float> values;
  for (const float time_us : before_us) {
    values.push_back(time_us);
    values.push_back(7);
  }
  return values;
}

TEST_CASE("A request of one call says nothing about copies of results between calls") {
  const auto of = [](const std::vector<float>& before_us) {
    const std::vector<float> values = Values(before_us);
    return TimesBetween(values, {.first = 0, .count = before_us.size() - 1, .copies = true});
  };
  BetweenCalls between;
  between.SetReference(of({50, 84, 83, 83, 60}));
  // As many calls as the judge happens to make do not charge an honest candidate.
  between.SetReference(of({50, 60}));
  CHECK(between.ChargeUs(of({50, 83, 83, 84, 60}), 0) == 0);
  CHECK(between.ChargeUs(of({50, 83, 60}), 0) == 0);
  CHECK(between.ChargeUs(of({50, 60}), 0) == 0);
  CHECK(between.ChargeUs(of({50, 183, 183, 183, 60}), 0) == 100);
}

TEST_CASE("Where all requests make one call, what follows it is charged") {
  const auto after_us = [](float time_us) {
    const std::vector<float> values = Values({50, time_us});
    return TimesBetween(values, {.first = 0, .count = 1, .copies = true, .single = true});
  };
  BetweenCalls between;
  between.SetReference(after_us(60));
  CHECK(between.ChargeUs(after_us(61), 0) == 0);
  CHECK(between.ChargeUs(after_us(160), 0) == 100);
}

TEST_CASE("Before device code every call counts, and what precedes the first does not") {
  const std::vector<float> values = Values({500, 50, 51, 52});
  CHECK(TimesBetween(values, {.first = 1, .count = 3}) == Times{50, 51, 52});
}

}  // namespace
}  // namespace kernelcast::worker
