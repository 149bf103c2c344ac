#include "common/domain/measurement.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

Measurement With(MeasureOutcome outcome) {
  Measurement measurement;
  measurement.outcome = std::move(outcome);
  return measurement;
}

std::string FeedbackFor(MeasureOutcome outcome) {
  return MeasurementFeedback(With(std::move(outcome)));
}

ShapeTiming Timing(AxisValues shape, double candidate_ns, double reference_ns) {
  ShapeTiming timing;
  timing.shape = std::move(shape);
  timing.candidate.median_ns = candidate_ns;
  timing.reference.median_ns = reference_ns;
  timing.speedup = {reference_ns / candidate_ns, 1, 2, 0.95};
  return timing;
}

WrongResult Wrong(WrongResult::Cause cause) {
  WrongResult wrong;
  wrong.cause = cause;
  wrong.shape = {{"rows", 7}, {"cols", 129}};
  wrong.distribution = "large";
  wrong.output = "y";
  wrong.mismatches = 12;
  wrong.elements = 903;
  wrong.index = 55;
  wrong.got = 0.125;
  wrong.expected = 0.25;
  wrong.normwise_error = 3e-5;
  wrong.entry_status = 3;
  return wrong;
}

TEST_CASE("Outcomes have names", "[measurement]") {
  CHECK(OutcomeName(MeasuredOk{}) == "ok");
  CHECK(OutcomeName(WrongResult{}) == "wrong_result");
  CHECK(OutcomeName(Crash{}) == "crash");
  CHECK(OutcomeName(Timeout{}) == "timeout");
  CHECK(OutcomeName(Exploit{}) == "exploit");
  CHECK(OutcomeName(EnvironmentUnstable{}) == "environment_unstable");
  CHECK(OutcomeName(Passed{}) == "passed");
}

TEST_CASE("Only an ok outcome has a measured speedup", "[measurement]") {
  MeasuredOk ok;
  ok.speedup.value = 2;
  const Measurement measured = With(ok);
  REQUIRE(MeasuredSpeedup(measured) != nullptr);
  CHECK(MeasuredSpeedup(measured)->value == 2);
  EnvironmentUnstable unstable;
  unstable.speedup.value = 2;
  CHECK(MeasuredSpeedup(With(unstable)) == nullptr);
  CHECK(MeasuredSpeedup(With(Crash{})) == nullptr);
}

TEST_CASE("Feedback on an ok outcome gives the speedup, its certainty and where time was spent",
          "[measurement]") {
  MeasuredOk ok;
  ok.speedup = {1.8312, 1.81, 1.853, 0.95};
  ok.comparison = Comparison::kFaster;
  ok.correctness_cases = 42;
  ShapeTiming timing = Timing({{"rows", 128}, {"cols", 1024}}, 41'230, 75'500);
  timing.bytes = 1'048'576;
  timing.flops = 655'360;
  timing.implausible_below_ns = 5'000;
  timing.roofline = Roofline{.time_ns = 10'000,
                             .bound = Roofline::Bound::kMemory,
                             .peak = "memory",
                             .ratio = 4.123,
                             .score = 0.677};
  timing.candidate.cold_median_ns = 90'000;
  ok.shapes = {timing};
  ok.environment.throttle_reasons = {"power", "heat"};
  CHECK_THAT(
      FeedbackFor(ok),
      Equals("Correct in 42 cases. Runs 1.831 times as fast as the reference (95% interval "
             "1.81 to 1.853): faster beyond noise. At cols=1024, rows=128 a call takes 41.2 us, "
             "the reference 75.5 us, 25.4 GB/s, 15.9 GFLOP/s, 4.12 times the roofline time "
             "of 10 us (memory bound; speed-of-light score 0.68); on inputs not read before it "
             "takes 90 us. The device "
             "was throttled: power, heat."));
}

TEST_CASE("Feedback gives the weights of shapes where they differ", "[measurement]") {
  MeasuredOk ok;
  ok.shapes = {Timing({{"n", 8}}, 1'000, 2'000), Timing({{"n", 9}}, 1'000, 3'000)};
  CHECK_THAT(FeedbackFor(ok), !Contains("weight"));
  CHECK(ShapeWeights(ok) == std::vector<double>{0.5, 0.5});
  ok.shapes[0].weight = 0.75;
  ok.shapes[1].weight = 0.25;
  CHECK_THAT(FeedbackFor(ok), Contains("At n=8 (weight 0.75) a call takes 1 us"));
  CHECK(ShapeWeights(ok) == std::vector<double>{0.75, 0.25});
}

TEST_CASE("Feedback tells CUDA graphs from calls with the cost of launching", "[measurement]") {
  ShapeTiming timing = Timing({}, 50'000, 80'000);
  timing.eager.emplace();
  timing.eager->candidate.median_ns = 70'000;
  timing.eager->reference.median_ns = 95'000;
  MeasuredOk ok;
  ok.shapes = {timing};
  CHECK_THAT(FeedbackFor(ok), Contains("the reference 80 us, in CUDA graphs; launched from the "
                                       "host 70 us and 95 us"));
  ok.shapes[0].eager->no_graph_reason = "a call of the candidate cannot be captured";
  CHECK_THAT(FeedbackFor(ok), Contains("because there is no CUDA graph (a call of the candidate "
                                       "cannot be captured)"));
}

TEST_CASE("Feedback names the figure against torch.compile", "[measurement]") {
  MeasuredOk ok;
  ok.compiled.emplace();
  ok.compiled->speedup = {.value = 1.25, .low = 1.2, .high = 1.3};
  CHECK_THAT(FeedbackFor(ok), Contains("1.25 times as fast as the reference under torch.compile"));
  ok.compiled = CompiledBaseline();
  ok.compiled->unavailable_reason = "PyTorch 1.13 has no torch.compile";
  CHECK_THAT(FeedbackFor(ok), Contains("No figure against torch.compile: PyTorch 1.13"));
}

TEST_CASE("Feedback notes what limits the trust in a figure", "[measurement]") {
  MeasuredOk ok;
  CHECK_THAT(FeedbackFor(ok), !Contains("Note:"));
  ok.notes = {MeasurementNote::kInputsNeverChange};
  CHECK_THAT(FeedbackFor(ok), Contains("Note: this task has inputs that never change: answers "
                                       "that depend on them alone can be remembered."));
  for (const MeasurementNote note : kMeasurementNotes) {
    CHECK(Name(note) != "unknown");
    CHECK_FALSE(NoteText(note).empty());
  }
}

TEST_CASE("Feedback includes the profiler's findings for the shape", "[measurement]") {
  ShapeTiming timing = Timing({{"n", 8}}, 41'230, 75'500);
  timing.profile.emplace();
  MeasuredOk ok;
  ok.shapes = {timing};
  CHECK_THAT(FeedbackFor(ok), Catch::EndsWith("the reference 75.5 us."));
  ok.shapes[0].profile->counters = {{"memory_throughput_ratio", 0.834},
                                    {"achieved_occupancy_ratio", 0.46},
                                    {"instructions", 1e6}};
  ok.shapes[0].profile->stall_reasons = {{"long_scoreboard", 0.62}, {"barrier", 0.1}};
  CHECK_THAT(FeedbackFor(ok),
             Catch::EndsWith("; memory is used to 83%, occupancy is 46%; warps wait for "
                             "long_scoreboard (62% of their time), barrier (10% of their time)."));
}

TEST_CASE("Feedback omits unknown fields", "[measurement]") {
  MeasuredOk ok;
  ok.speedup = {1, 0.99, 1.01, 0.99};
  ok.comparison = Comparison::kSame;
  CHECK_THAT(FeedbackFor(ok), Equals("Correct. Runs 1 times as fast as the reference (99% interval "
                                     "0.99 to 1.01): the same within noise."));
}

TEST_CASE("Feedback lists only the few shapes that gain least", "[measurement]") {
  MeasuredOk ok;
  for (int i = 1; i <= 6; ++i) ok.shapes.push_back(Timing({{"n", i}}, 100, 100 * (7 - i)));
  const std::string text = FeedbackFor(ok);
  CHECK(text.find("At n=6") < text.find("At n=5"));
  CHECK_THAT(text,
             Contains("At n=3 ") && !Contains("At n=2 ") && Contains("2 other shapes gain more."));
}

TEST_CASE("Feedback on a wrong result gives its location", "[measurement]") {
  const std::string where = "output 'y' at cols=129, rows=7 with input distribution 'large'";
  CHECK_THAT(
      FeedbackFor(Wrong(WrongResult::Cause::kValue)),
      Equals("Wrong result in " + where +
             ": 12 of 903 elements are out of tolerance; the first, at flat index 55, is 0.125 "
             "instead of 0.25."));
  CHECK_THAT(FeedbackFor(Wrong(WrongResult::Cause::kNonFinite)), Contains("not finite"));
  CHECK_THAT(FeedbackFor(Wrong(WrongResult::Cause::kNormwise)),
             Equals("Wrong result in " + where +
                    ": each element is within its tolerance, but the error of the whole, 3e-05 "
                    "relative to its norm, is not."));
  CHECK_THAT(FeedbackFor(Wrong(WrongResult::Cause::kNotWritten)),
             Equals("Wrong result in " + where +
                    ": 12 of 903 elements were not written, the first at flat index 55."));
  CHECK_THAT(
      FeedbackFor(Wrong(WrongResult::Cause::kEntryStatus)),
      Equals("The entry returned 3 at cols=129, rows=7 with input distribution 'large'; 0 means "
             "success."));
  CHECK_THAT(FeedbackFor(Wrong(WrongResult::Cause::kTimedOutput)),
             Contains("Right in the checks but wrong while being timed"));
  WrongResult form = Wrong(WrongResult::Cause::kDtype);
  form.detail = "output 0 is float64 [2] instead of float32 [2]";
  CHECK_THAT(FeedbackFor(form),
             Equals("Wrong dtype of an output at cols=129, rows=7 with input "
                    "distribution 'large': 'output 0 is float64 [2] instead of float32 [2]'."));
  WrongResult other = Wrong(WrongResult::Cause::kValue);
  other.detail = "Work on another stream must be awaited";
  CHECK_THAT(FeedbackFor(other), Catch::EndsWith("instead of 0.25. Work on another stream must be "
                                                 "awaited."));
}

TEST_CASE("Feedback on a crash gives the signal and the last output", "[measurement]") {
  CHECK_THAT(FeedbackFor(Crash{.cause = Crash::Cause::kSignal,
                               .signal = 11,
                               .exit_code = 0,
                               .output_tail = "first\nlast \xff words\n\n"}),
             Equals("Crashed with signal 11 (SIGSEGV, an access outside its memory or a stack "
                    "overflow). Last output: 'last \xEF\xBF\xBD words'."));
  CHECK_THAT(FeedbackFor(Crash{
                 .cause = Crash::Cause::kSignal, .signal = 33, .exit_code = 0, .output_tail = ""}),
             Equals("Crashed with signal 33."));
  CHECK_THAT(FeedbackFor(Crash{
                 .cause = Crash::Cause::kExit, .signal = 0, .exit_code = 3, .output_tail = ""}),
             Equals("Ended its process with exit code 3."));
  for (const Crash::Cause cause : {Crash::Cause::kMemoryLimit, Crash::Cause::kOutputLimit,
                                   Crash::Cause::kLoad, Crash::Cause::kDeviceError}) {
    CHECK_FALSE(
        FeedbackFor(Crash{.cause = cause, .signal = 0, .exit_code = 0, .output_tail = ""}).empty());
  }
  CHECK(FeedbackFor(Crash{.cause = Crash::Cause::kLoad,
                          .signal = 0,
                          .exit_code = 0,
                          .output_tail = std::string(100'000, 'x')})
            .size() < 500);
}

TEST_CASE("Feedback on a crash, a timeout or an exploit names the stage and the case",
          "[measurement]") {
  Crash crash{.cause = Crash::Cause::kDeviceError, .output_tail = "illegal address\n"};
  crash.shape = {{"cols", 129}, {"rows", 7}};
  crash.distribution = "held_out large";
  crash.stage = "check";
  CHECK_THAT(FeedbackFor(crash),
             Equals("The device reported an error in stage 'check', at cols=129, rows=7 with input "
                    "distribution 'held_out large'. Last output: 'illegal address'."));
  crash.cause = Crash::Cause::kLoad;
  crash.stage = "load";
  crash.shape.clear();
  crash.distribution.clear();
  CHECK_THAT(FeedbackFor(crash), Catch::StartsWith("The compiled candidate could not be loaded."));
  Timeout timeout{.limit_ns = 2'000'000'000, .stage = "check"};
  timeout.shape = {{"n", 5}};
  timeout.distribution = "declared";
  CHECK_THAT(FeedbackFor(timeout), Equals("Stopped after 2 s in stage 'check', at n=5 with input "
                                          "distribution 'declared': it had not ended."));
  Exploit exploit{.kind = Exploit::Kind::kImplausiblyFast, .evidence = "takes 1 ns"};
  exploit.shape = {{"n", 5}};
  exploit.distribution = "bench";
  CHECK_THAT(FeedbackFor(exploit), Equals("Disqualified: it was faster than the device can be "
                                          "(takes 1 ns) at n=5 with input distribution 'bench'."));
}

TEST_CASE("Feedback on timeouts, exploits and noise is one sentence", "[measurement]") {
  CHECK_THAT(FeedbackFor(Timeout{.limit_ns = 2'500'000'000, .stage = "timing"}),
             Equals("Stopped after 2.5 s in stage 'timing': it had not ended."));
  CHECK_THAT(FeedbackFor(Exploit{.kind = Exploit::Kind::kMutatedInput, .evidence = "input x"}),
             Equals("Disqualified: it changed its inputs (input x)."));
  CHECK_THAT(FeedbackFor(EnvironmentUnstable{.reason = "other processes ran",
                                             .discarded_blocks = 9,
                                             .blocks = 10,
                                             .speedup = {1.5, 0.9, 2.1, 0.95}}),
             Equals("The machine was too noisy to tell: other processes ran; 9 of 10 blocks were "
                    "discarded. The speedup seemed to be 1.5 (95% interval 0.9 to 2.1). Measuring "
                    "again may help; the candidate is not to blame."));
  CHECK_THAT(FeedbackFor(Passed{.correctness_cases = 7}),
             Equals("Correct in 7 cases. Nothing was timed."));
}

}  // namespace
}  // namespace kernelcast
