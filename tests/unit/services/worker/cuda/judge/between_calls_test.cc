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

TEST_CASE("A request that says nothing of the time between calls changes nothing") {
  BetweenCalls between;
  between.SetReference(Times{84, 83, 83});
  between.SetReference(Times{});
  CHECK(between.ChargeUs(Times{83, 83, 84}, 0) == 0);
  CHECK(between.ChargeUs(Times{}, 0) == 0);
  CHECK(between.ChargeUs(Times{183, 183, 183}, 0) == 100);
}

}  // namespace
}  // namespace kernelcast::worker
