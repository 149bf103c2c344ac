#include "services/worker/core/verdict.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

namespace kernelcast::worker::verdict_test {
namespace {

// For a shape that moves 1.5 MB, which takes at least one microsecond.
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
  const MeasureOptions options;
  RunnerSpread spread(options.spread);
  return Conclude(shapes, options, "problem", 20, spread);
}

TEST_CASE("A time is an exploit only where the whole call was too short") {
  const auto ok = std::get<MeasuredOk>(ConcludeOn({Shape(1001, 300)}));
  CHECK(ok.speedup.value == Approx(2000.0 / 1001));
  CHECK(ok.correctness_cases == 20);
  CHECK(ok.shapes[0].implausible_below_ns == Approx(1000));
  CHECK(ok.shapes[0].call_overhead_ns == 300);

  // The empty call may have been slower when it was timed.
  const auto unstable = std::get<EnvironmentUnstable>(ConcludeOn({Shape(1, 1200)}));
  CHECK(unstable.reason ==
        "a call took 1200 ns without the kernel and 1 ns more with it, where moving "
        "1500000 bytes takes at least 1000 ns");
  CHECK(unstable.blocks == 64);
  CHECK(unstable.speedup.value == 0);

  const auto exploit = std::get<Exploit>(ConcludeOn({Shape(1, 998)}));
  CHECK(exploit.kind == Exploit::Kind::kImplausiblyFast);
  CHECK(exploit.distribution == "declared");
  // One such shape is enough, whatever the others.
  CHECK(std::get<Exploit>(ConcludeOn({Shape(1, 1200), Shape(1, 300)})).kind ==
        Exploit::Kind::kImplausiblyFast);
}

TEST_CASE("The form of a wrong output is the last line that its process printed") {
  const WrongResult wrong =
      WrongForm(WrongResult::Cause::kShape, "noise\noutput 0 is a \xff instead of a tensor\n\n");
  CHECK(wrong.cause == WrongResult::Cause::kShape);
  CHECK(wrong.detail == "output 0 is a \xEF\xBF\xBD instead of a tensor");
  CHECK(WrongForm(WrongResult::Cause::kForm, "").detail.empty());
}

TEST_CASE("A status that says that a candidate does not compile holds the error") {
  const absl::Status status = NotCompiled(
      "noise\nA kernel does not compile:\na\n"
      "A kernel does not compile:\ncandidate.py:3: b\n");
  CHECK(absl::IsInvalidArgument(status));
  const auto error = NotCompiledError(status);
  REQUIRE(error);
  CHECK(error->stage == CompileStage::kCompiler);
  CHECK(error->log == "A kernel does not compile:\ncandidate.py:3: b\n");
  CHECK(NotCompiledError(NotCompiled("anything"))->log == "anything");
  CHECK_FALSE(NotCompiledError(absl::OkStatus()));
  CHECK_FALSE(NotCompiledError(absl::InvalidArgumentError("another")));
}

TEST_CASE("A case name is added where an outcome lacks one") {
  MeasureOutcome outcome = Timeout{1, "check"};
  NameCase({{"n", 3}}, "large", outcome);
  CHECK(std::get<Timeout>(outcome).shape == AxisValues{{"n", 3}});
  NameCase({{"n", 4}}, "declared", outcome);
  CHECK(std::get<Timeout>(outcome).distribution == "large");
  outcome = MeasuredOk{};
  NameCase({{"n", 3}}, "large", outcome);
  CHECK(std::holds_alternative<MeasuredOk>(outcome));
}

TEST_CASE("With many discarded blocks and a wide interval no figure is given") {
  TimedShape shape = Shape(1001, 300);
  shape.ratios = {{1, 2, 3, 4, 5, 6}};
  shape.discarded_blocks = 12;
  CHECK(std::holds_alternative<MeasuredOk>(ConcludeOn({shape})));
  shape.discarded_blocks = 13;
  const auto unstable = std::get<EnvironmentUnstable>(ConcludeOn({shape}));
  CHECK(unstable.discarded_blocks == 13);
  CHECK(unstable.speedup.value == Approx(3.5));
}

TEST_CASE("A wide interval far below 1 is a figure, however disturbed the machine is") {
  TimedShape shape = Shape(1001, 300);
  shape.ratios = {{0.02, 0.04, 0.08, 0.02, 0.04, 0.08, 0.02, 0.04}};
  shape.discarded_blocks = 60;
  const auto ok = std::get<MeasuredOk>(ConcludeOn({shape}));
  CHECK(ok.speedup.high < 0.7);
  CHECK(ok.speedup.high > 1.5 * ok.speedup.value);
  CHECK(ok.comparison == Comparison::kSlower);
}

TEST_CASE("Several shapes combine as a geometric mean per runner") {
  TimedShape two = Shape(1001, 300);
  two.ratios = {std::vector<double>(8, 2), std::vector<double>(8, 2.2)};
  TimedShape eight = Shape(1001, 300);
  eight.ratios = {std::vector<double>(8, 8), std::vector<double>(8, 8.8)};
  const auto ok = std::get<MeasuredOk>(ConcludeOn({two, eight}));
  REQUIRE(ok.runner_speedups.size() == 2);
  CHECK(ok.runners == 2);
  CHECK(ok.runner_speedups[0] == Approx(4));
  CHECK(ok.runner_speedups[1] == Approx(4.4));
  CHECK(ok.speedup.value == Approx(std::sqrt(4 * 4.4)));
  CHECK(ok.shapes[0].speedup.value == Approx(std::sqrt(2 * 2.2)));
}

TEST_CASE("Weights of shapes count in the speedup and in its noise") {
  // Groups of a shape scatter by the same factor around 2 and 8.
  const auto scattered = [](double ratio, double weight) {
    TimedShape shape = Shape(1001, 300);
    shape.weight = weight;
    shape.ratios = {{}};
    for (int i = 0; i < 16; ++i) shape.ratios[0].push_back(ratio * std::exp(0.01 * (i % 5 - 2)));
    return shape;
  };
  const auto noise = [](const Ratio& ratio) { return std::pow(ratio.within_deviation, 2); };
  const auto ok = std::get<MeasuredOk>(ConcludeOn({scattered(2, 3), scattered(8, 1)}));
  CHECK(ok.shapes[0].weight == 0.75);
  CHECK(ok.shapes[1].weight == 0.25);
  // exp(3/4 log 2 + 1/4 log 8) = 2^(3/4 + 3/4).
  CHECK(ok.speedup.value == Approx(std::exp2(1.5)));
  CHECK(noise(ok.speedup) == Approx(0.75 * 0.75 * noise(ok.shapes[0].speedup) +
                                    0.25 * 0.25 * noise(ok.shapes[1].speedup)));
  // Nearly all weight on one shape: the figures of that shape.
  const auto first = std::get<MeasuredOk>(ConcludeOn({scattered(2, 1000), scattered(8, 0.001)}));
  CHECK(first.speedup.value == Approx(2).epsilon(1e-5));
  CHECK(first.speedup.low == Approx(first.shapes[0].speedup.low).epsilon(1e-4));
  const auto equal = std::get<MeasuredOk>(ConcludeOn({scattered(2, 5), scattered(8, 5)}));
  CHECK(equal.speedup.value == Approx(4));
  CHECK(equal.shapes[0].weight == 0.5);
}

TEST_CASE("Outputs vary if one process differs from the first") {
  std::optional<uint64_t> first;
  Determinism known = Determinism::kUnknown;
  const auto after = [&](uint64_t outputs) {
    known = CompareOutputs(outputs, first, known);
    return known;
  };
  CHECK(after(7) == Determinism::kUnknown);
  CHECK(after(7) == Determinism::kBitwise);
  CHECK(after(8) == Determinism::kVaries);
  CHECK(after(7) == Determinism::kVaries);
}

TEST_CASE("A shape without a ratio makes the whole unknown, and a runner without one is ignored") {
  TimedShape missing = Shape(1001, 300);
  missing.ratios = {{}};
  CHECK(std::get<MeasuredOk>(ConcludeOn({Shape(1001, 300), missing})).speedup.value == 0);
  TimedShape one = Shape(1001, 300);
  one.ratios = {{}, std::vector<double>(8, 1.5)};
  const auto ok = std::get<MeasuredOk>(ConcludeOn({one}));
  CHECK(ok.runners == 1);
  CHECK(ok.speedup.value == Approx(1.5));
}

TEST_CASE("The reference against itself is the same, not faster by placement") {
  TimedShape shape = Shape(1001, 300);
  // Tight within its single runner, 2% off.
  shape.ratios = {std::vector<double>(16, 1.02)};
  const auto ok = std::get<MeasuredOk>(ConcludeOn({shape}));
  CHECK(ok.speedup.low < 1);
  CHECK(ok.comparison == Comparison::kAmbiguous);
}

TEST_CASE("A final measurement updates the spread and a screening does not") {
  const MeasureOptions options;
  RunnerSpread spread(options.spread);
  const double before = spread.Of("problem").runner;
  TimedShape shape = Shape(1001, 300);
  (void)Conclude({&shape, 1}, options, "problem", 20, spread);
  CHECK(spread.Of("problem").runner == before);
  shape.ratios.assign(5, std::vector<double>(16, 1.25));
  (void)Conclude({&shape, 1}, options, "problem", 20, spread);
  CHECK(spread.Of("problem").runner < before);
  CHECK(spread.Of("problem").runner < spread.Of("another problem").runner);
}

TEST_CASE("A candidate whose time varies between processes does not widen intervals of others") {
  const MeasureOptions options;
  RunnerSpread spread(options.spread);
  const double before = spread.Of("problem").runner;
  TimedShape suspect = Shape(1001, 300);
  // As many processes as confirm a slow round of a screening.
  suspect.ratios = {std::vector<double>(16, 1), std::vector<double>(16, 2),
                    std::vector<double>(16, 4)};
  CHECK(std::get<MeasuredOk>(Conclude({&suspect, 1}, options, "problem", 20, spread)).runners == 3);
  CHECK(spread.Of("problem").runner == before);
  // In a final measurement it is charged.
  suspect.ratios.resize(5, std::vector<double>(16, 1.5));
  suspect.charged = true;
  (void)Conclude({&suspect, 1}, options, "problem", 20, spread);
  CHECK(spread.Of("problem").runner == before);
  // One that is not charged shows what processes of this problem differ by.
  suspect.charged = false;
  (void)Conclude({&suspect, 1}, options, "problem", 20, spread);
  CHECK(spread.Of("problem").runner > before);
}

TEST_CASE("A doubt about a charge widens the interval on both sides") {
  TimedShape shape = Shape(1001, 300);
  const auto sure = std::get<MeasuredOk>(ConcludeOn({shape})).speedup;
  shape.doubts = {std::log(1.5)};
  const auto unsure = std::get<MeasuredOk>(ConcludeOn({shape})).speedup;
  CHECK(unsure.value == sure.value);
  CHECK(unsure.low * 1.5 < sure.value);
  CHECK(unsure.high > 1.5 * sure.value);
}

TEST_CASE("A few groups that agree by chance do not count as noise-free") {
  TimedShape shape = Shape(1001, 300);
  shape.ratios = {{1.25, 1.25}};
  const auto ok = std::get<MeasuredOk>(ConcludeOn({shape}));
  CHECK(ok.speedup.within_deviation ==
        Approx(MeasureOptions().spread.least_group_noise * std::sqrt(1.57 / 2)));
}

}  // namespace
}  // namespace kernelcast::worker::verdict_test
