#include "services/worker/core/verdict.h"

#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

namespace kernelcast::worker {
namespace {

// Of a shape that moves 1.5 MB, which takes a microsecond at least.
TimedShape Shape(double candidate_ns, double overhead_ns) {
  TimedShape shape;
  shape.bytes = 1.5e6;
  shape.ratios = {std::vector<double>(16, 2000 / candidate_ns)};
  shape.candidate_ns.assign(64, candidate_ns);
  shape.reference_ns.assign(64, 2000);
  shape.blocks = 64;
  shape.overhead_ns = overhead_ns;
  return shape;
}

MeasureOutcome ConcludeOn(const std::vector<TimedShape>& shapes) {
  return Conclude(shapes, MeasureOptions{}, MeasureLevel::kScreen, 20);
}

TEST_CASE("A time is an exploit only where the whole call was too short") {
  const auto ok = std::get<MeasuredOk>(ConcludeOn({Shape(1001, 300)}));
  CHECK(ok.speedup.value == Approx(2000.0 / 1001));
  CHECK(ok.correctness_cases == 20);
  CHECK(ok.shapes[0].roofline_floor_ns == Approx(1000));
  CHECK(ok.shapes[0].call_overhead_ns == 300);

  // An empty call may have been slower when it was asked for.
  const auto unstable = std::get<EnvironmentUnstable>(ConcludeOn({Shape(1, 1200)}));
  CHECK(unstable.reason ==
        "a call took 1200 ns without the kernel and 1 ns more with it, where moving the declared "
        "1500000 bytes takes at least 1000 ns");
  CHECK(unstable.blocks == 64);
  CHECK(unstable.speedup.value == 0);

  CHECK(std::get<Exploit>(ConcludeOn({Shape(1, 998)})).kind == Exploit::Kind::kBelowRoofline);
  // One such shape is enough, whatever the others.
  CHECK(std::get<Exploit>(ConcludeOn({Shape(1, 1200), Shape(1, 300)})).kind ==
        Exploit::Kind::kBelowRoofline);
}

TEST_CASE("Where much was discarded and the interval is wide no figure is given") {
  TimedShape shape = Shape(1001, 300);
  shape.ratios = {{1, 2, 3, 4, 5, 6}};
  shape.discarded_blocks = 12;
  CHECK(std::holds_alternative<MeasuredOk>(ConcludeOn({shape})));
  shape.discarded_blocks = 13;
  const auto unstable = std::get<EnvironmentUnstable>(ConcludeOn({shape}));
  CHECK(unstable.discarded_blocks == 13);
  CHECK(unstable.speedup.value == Approx(3.5));
}

}  // namespace
}  // namespace kernelcast::worker
