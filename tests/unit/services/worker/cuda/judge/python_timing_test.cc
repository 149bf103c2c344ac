#include "services/worker/cuda/judge/python_timing.h"

#include <catch2/catch.hpp>

namespace kernelcast::worker {
namespace {

TEST_CASE("Figures of short calls vary more between processes than those of long ones") {
  const auto graphs = [](double reference_ns) {
    SpreadOptions spread = SpreadOptions::Cuda();
    SpreadGraphs(reference_ns, spread);
    return spread.runner_deviation;
  };
  const auto eager = [](double reference_ns) {
    SpreadOptions spread = SpreadOptions::Cuda();
    SpreadEager(reference_ns, spread);
    return spread.runner_deviation;
  };
  CHECK(graphs(10'000) == Approx(0.055));
  CHECK(graphs(100'000) == Approx(0.01));
  CHECK(eager(100'000) == Approx(0.055));
  CHECK(eager(5'000'000) == Approx(0.006));
  CHECK(eager(1'000) == Approx(0.1));
}

TEST_CASE("The spread of several shapes is that of the shortest") {
  SpreadOptions spread = SpreadOptions::Cuda();
  SpreadGraphs(10'000, spread);
  SpreadGraphs(1'000'000, spread);
  CHECK(spread.runner_deviation == Approx(0.055));
}

TEST_CASE("A graph that takes much longer than its calls was slowed") {
  CHECK(IsSlowed(6'433'000, 4'877'000));
  CHECK(IsSlowed(308'000, 246'000));
  CHECK_FALSE(IsSlowed(85'000, 85'000));
  CHECK_FALSE(IsSlowed(90'000, 82'000));
  CHECK_FALSE(IsSlowed(20'000, 100'000));
  // The difference may be noise.
  CHECK_FALSE(IsSlowed(6'000, 4'500));
}

}  // namespace
}  // namespace kernelcast::worker
