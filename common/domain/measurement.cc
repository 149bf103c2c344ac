#include "common/domain/measurement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr size_t kMaxShapesListed = 4;
constexpr size_t kMaxStallsListed = 3;
// A candidate's process writes WrongResult::detail, so its length is limited here.
constexpr size_t kMaxDetailBytes = 300;

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

// Three digits and a suitable unit: "41.2 us".
std::string DurationText(double ns) {
  const double size = std::abs(ns);
  if (size >= 1e9) return NumberText(ns / 1e9, 3) + " s";
  if (size >= 1e6) return NumberText(ns / 1e6, 3) + " ms";
  if (size >= 1e3) return NumberText(ns / 1e3, 3) + " us";
  return NumberText(ns, 3) + " ns";
}

std::string ShapeText(const AxisValues& shape) {
  std::string text;
  for (const auto& [axis, value] : shape) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", axis, "=", value);
  }
  return text.empty() ? "the only shape" : text;
}

std::string IntervalText(const Ratio& ratio) {
  return absl::StrCat(NumberText(ratio.confidence * 100, 3), "% interval ",
                      NumberText(ratio.low, 4), " to ", NumberText(ratio.high, 4));
}

std::string_view ComparisonText(Comparison comparison) {
  switch (comparison) {
    case Comparison::kFaster: return "faster beyond noise";
    case Comparison::kSlower: return "slower beyond noise";
    case Comparison::kSame: return "the same within noise";
    case Comparison::kAmbiguous: return "the interval is too wide to tell which is faster";
  }
  return "not compared";
}

// The resource that limits the kernel, or "" if unknown.
std::string ProfileText(const ShapeProfile& profile) {
  static constexpr std::pair<const char*, const char*> kCounters[] = {
      {"memory_throughput_ratio", "memory is used to"},
      {"sm_throughput_ratio", "the multiprocessors to"},
      {"tensor_pipe_ratio", "the tensor cores to"},
      {"achieved_occupancy_ratio", "occupancy is"}};
  std::string text;
  for (const auto& [counter, words] : kCounters) {
    const auto found = profile.counters.find(counter);
    if (found != profile.counters.end()) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", words, " ",
                      NumberText(100 * found->second, 2), "%");
    }
  }
  std::string stalls;
  for (size_t i = 0; i < std::min(profile.stall_reasons.size(), kMaxStallsListed); ++i) {
    const StallReason& stall = profile.stall_reasons[i];
    absl::StrAppend(&stalls, stalls.empty() ? "warps wait for " : ", ", stall.reason, " (",
                    NumberText(100 * stall.share, 2), "% of their time)");
  }
  return absl::StrCat(text, text.empty() || stalls.empty() ? "" : "; ", stalls);
}

std::string ShapeTimingText(const ShapeTiming& timing, bool weighted) {
  const double ns = timing.candidate.median_ns;
  std::string text =
      absl::StrCat("At ", ShapeText(timing.shape),
                   weighted ? absl::StrCat(" (weight ", NumberText(timing.weight, 3), ")") : "",
                   " a call takes ", DurationText(ns), ", the reference ",
                   DurationText(timing.reference.median_ns));
  if (ns > 0 && timing.bytes > 0) {
    absl::StrAppend(&text, ", ", NumberText(timing.bytes / ns, 3), " GB/s");
  }
  if (ns > 0 && timing.flops > 0) {
    absl::StrAppend(&text, ", ", NumberText(timing.flops / ns, 3), " GFLOP/s");
  }
  if (timing.eager && !timing.eager->no_graph_reason.empty()) {
    absl::StrAppend(&text, ", with what launching costs the host, because there is no CUDA graph (",
                    timing.eager->no_graph_reason, ")");
  } else if (timing.eager) {
    absl::StrAppend(&text, ", in CUDA graphs; launched from the host ",
                    DurationText(timing.eager->candidate.median_ns), " and ",
                    DurationText(timing.eager->reference.median_ns));
  }
  if (timing.roofline.has_value()) {
    absl::StrAppend(&text, ", ", NumberText(timing.roofline->ratio, 3),
                    " times the roofline time of ", DurationText(timing.roofline->time_ns), " (",
                    timing.roofline->bound == Roofline::Bound::kMemory ? "memory" : "compute",
                    " bound; speed-of-light score ", NumberText(timing.roofline->score, 2), ")");
  }
  if (timing.candidate.cold_median_ns > 1.5 * ns) {
    absl::StrAppend(&text, "; on inputs not read before it takes ",
                    DurationText(timing.candidate.cold_median_ns));
  }
  if (const std::string profile = timing.profile ? ProfileText(*timing.profile) : "";
      !profile.empty()) {
    absl::StrAppend(&text, "; ", profile);
  }
  return text + ".";
}

}  // namespace

std::string CompiledBaselineText(const CompiledBaseline& compiled) {
  if (!compiled.unavailable_reason.empty()) {
    return absl::StrCat("No figure against torch.compile: ", compiled.unavailable_reason);
  }
  return absl::StrCat("Runs ", NumberText(compiled.speedup.value, 4),
                      " times as fast as the reference under torch.compile (",
                      IntervalText(compiled.speedup),
                      compiled.eager ? "), both launched from the host" : ")");
}

namespace {

std::string Feedback(const MeasuredOk& ok) {
  std::string text = absl::StrCat(
      "Correct",
      ok.correctness_cases > 0 ? absl::StrCat(" in ", ok.correctness_cases, " cases") : "",
      ". Runs ", NumberText(ok.speedup.value, 4), " times as fast as the reference (",
      IntervalText(ok.speedup), "): ", std::string(ComparisonText(ok.comparison)), ".");
  if (ok.compiled) absl::StrAppend(&text, " ", CompiledBaselineText(*ok.compiled), ".");
  // Shapes with the lowest speedup come first: they have the most to gain.
  std::vector<const ShapeTiming*> shapes;
  for (const ShapeTiming& shape : ok.shapes) shapes.push_back(&shape);
  std::ranges::stable_sort(shapes, {}, [](const ShapeTiming* s) { return s->speedup.value; });
  const bool weighted = std::ranges::any_of(
      shapes, [&](const ShapeTiming* s) { return s->weight != shapes.front()->weight; });
  for (size_t i = 0; i < std::min(shapes.size(), kMaxShapesListed); ++i) {
    absl::StrAppend(&text, " ", ShapeTimingText(*shapes[i], weighted));
  }
  if (shapes.size() > kMaxShapesListed) {
    absl::StrAppend(&text, " ", shapes.size() - kMaxShapesListed, " other shapes gain more.");
  }
  if (!ok.environment.throttle_reasons.empty()) {
    absl::StrAppend(&text,
                    " The device was throttled: ", CommaList(ok.environment.throttle_reasons), ".");
  }
  for (const MeasurementNote note : ok.notes) {
    absl::StrAppend(&text, " Note: ", std::string(NoteText(note)), ".");
  }
  return text;
}

std::string CaseText(const AxisValues& shape, const std::string& distribution) {
  return absl::StrCat(
      " at ", ShapeText(shape),
      distribution.empty() ? "" : " with input distribution " + Quoted(distribution));
}

// " in stage 'check', at rows=7 with input distribution 'large'", without the parts that are
// unknown.
std::string StageText(const std::string& stage, const AxisValues& shape,
                      const std::string& distribution) {
  std::string text = stage.empty() ? "" : " in stage " + Quoted(stage);
  if (!shape.empty() || !distribution.empty()) {
    absl::StrAppend(&text, stage.empty() ? "" : ",", CaseText(shape, distribution));
  }
  return text;
}

// Causes whose text has the detail.
bool IsWrongForm(WrongResult::Cause cause) {
  return cause == WrongResult::Cause::kForm || cause == WrongResult::Cause::kShape ||
         cause == WrongResult::Cause::kDtype;
}

std::string WrongText(const WrongResult& wrong) {
  const std::string where = CaseText(wrong.shape, wrong.distribution);
  const std::string output = "output " + Quoted(wrong.output);
  const std::string share = absl::StrCat(wrong.mismatches, " of ", wrong.elements, " elements");
  const std::string first =
      absl::StrCat("the first, at flat index ", wrong.index, ", is ", NumberText(wrong.got),
                   " instead of ", NumberText(wrong.expected));
  switch (wrong.cause) {
    case WrongResult::Cause::kValue:
      return absl::StrCat("Wrong result in ", output, where, ": ", share, " are out of tolerance; ",
                          first, ".");
    case WrongResult::Cause::kNonFinite:
      return absl::StrCat("Wrong result in ", output, where, ": ", share,
                          " are out of tolerance, not finite where they should be; ", first, ".");
    case WrongResult::Cause::kNormwise:
      return absl::StrCat("Wrong result in ", output, where,
                          ": each element is within its tolerance, but the error of the whole, ",
                          NumberText(wrong.normwise_error, 3), " relative to its norm, is not.");
    case WrongResult::Cause::kNotWritten:
      return absl::StrCat("Wrong result in ", output, where, ": ", share,
                          " were not written, the first at flat index ", wrong.index, ".");
    case WrongResult::Cause::kEntryStatus:
      return absl::StrCat("The entry returned ", wrong.entry_status, where, "; 0 means success.");
    case WrongResult::Cause::kTimedOutput:
      return absl::StrCat("Right in the checks but wrong while being timed, in ", output, where,
                          ": ", share, " are out of tolerance; ", first, ".");
    case WrongResult::Cause::kForm:
    case WrongResult::Cause::kShape:
    case WrongResult::Cause::kDtype: {
      const char* const what = wrong.cause == WrongResult::Cause::kForm    ? "kind"
                               : wrong.cause == WrongResult::Cause::kShape ? "shape"
                                                                           : "dtype";
      return absl::StrCat("Wrong ", what, " of an output", where, ": ",
                          Quoted(TruncateUtf8Front(wrong.detail, kMaxDetailBytes), kMaxDetailBytes),
                          ".");
    }
  }
  return "Wrong result.";
}

std::string Feedback(const WrongResult& wrong) {
  std::string text = WrongText(wrong);
  if (!wrong.rule.empty()) absl::StrAppend(&text, " The rule: ", wrong.rule, ".");
  if (!wrong.detail.empty() && !IsWrongForm(wrong.cause)) {
    absl::StrAppend(&text, " ", wrong.detail, ".");
  }
  return text;
}

std::string SignalText(int32_t signal) {
  static constexpr std::pair<int32_t, const char*> kSignals[] = {
      {4, "SIGILL, an illegal instruction"},
      {6, "SIGABRT, it called abort or an assertion failed"},
      {7, "SIGBUS, a bad memory access"},
      {8, "SIGFPE, an integer division by zero"},
      {9, "SIGKILL"},
      {11, "SIGSEGV, an access outside its memory or a stack overflow"},
      {24, "SIGXCPU, the limit of processor time"},
      {25, "SIGXFSZ, the limit of file size"},
      {31, "SIGSYS, a forbidden system call"},
  };
  for (const auto& [number, name] : kSignals) {
    if (number == signal) return absl::StrCat("signal ", signal, " (", name, ")");
  }
  return absl::StrCat("signal ", signal);
}

std::string Feedback(const Crash& crash) {
  std::string text;
  switch (crash.cause) {
    case Crash::Cause::kSignal:
      text = absl::StrCat("Crashed with ", SignalText(crash.signal));
      break;
    case Crash::Cause::kExit:
      text = absl::StrCat("Ended its process with exit code ", crash.exit_code);
      break;
    case Crash::Cause::kMemoryLimit: text = "Used more memory than is allowed"; break;
    case Crash::Cause::kOutputLimit: text = "Wrote more output than is allowed"; break;
    case Crash::Cause::kLoad: text = "The compiled candidate could not be loaded"; break;
    case Crash::Cause::kDeviceError: text = "The device reported an error"; break;
  }
  // If loading failed, the text says so already.
  const std::string stage = crash.cause == Crash::Cause::kLoad ? "" : crash.stage;
  absl::StrAppend(&text, StageText(stage, crash.shape, crash.distribution), ".");
  // The last line is the most informative. The tail may be cut at its front.
  std::string_view tail = crash.output_tail;
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == '\r' || tail.back() == ' ')) {
    tail.remove_suffix(1);
  }
  tail = tail.substr(tail.rfind('\n') + 1);
  if (!tail.empty()) {
    absl::StrAppend(&text, " Last output: ", Quoted(TruncateUtf8Front(tail, 300), 300), ".");
  }
  return text;
}

std::string_view ExploitText(Exploit::Kind kind) {
  switch (kind) {
    case Exploit::Kind::kForbiddenSystemCall: return "it made a system call that no kernel needs";
    case Exploit::Kind::kMutatedInput: return "it changed its inputs";
    case Exploit::Kind::kCachedOutput: return "it reused results of an earlier call";
    case Exploit::Kind::kSkippedWork: return "it did not do the work while being timed";
    case Exploit::Kind::kImplausiblyFast: return "it was faster than the device can be";
    case Exploit::Kind::kWriteOutOfBounds: return "it wrote outside its outputs";
    case Exploit::Kind::kBackgroundWork: return "it went on working after its call had ended";
    case Exploit::Kind::kForgedResult: return "it answered in place of its runner";
  }
  return "it tried to be judged faster than it is";
}

std::string Feedback(const Exploit& exploit) {
  return absl::StrCat("Disqualified: ", std::string(ExploitText(exploit.kind)),
                      exploit.evidence.empty() ? "" : absl::StrCat(" (", exploit.evidence, ")"),
                      StageText("", exploit.shape, exploit.distribution), ".");
}

std::string Feedback(const Timeout& timeout) {
  return absl::StrCat("Stopped after ", DurationText(static_cast<double>(timeout.limit_ns)),
                      StageText(timeout.stage, timeout.shape, timeout.distribution),
                      ": it had not ended.");
}

std::string Feedback(const EnvironmentUnstable& unstable) {
  std::string text = "The machine was too noisy to tell";
  if (!unstable.reason.empty()) absl::StrAppend(&text, ": ", unstable.reason);
  if (unstable.blocks > 0) {
    absl::StrAppend(&text, "; ", unstable.discarded_blocks, " of ", unstable.blocks,
                    " blocks were discarded");
  }
  absl::StrAppend(&text, ".");
  if (unstable.speedup.value > 0) {
    absl::StrAppend(&text, " The speedup seemed to be ", NumberText(unstable.speedup.value, 4),
                    " (", IntervalText(unstable.speedup), ").");
  }
  return text + " Measuring again may help; the candidate is not to blame.";
}

std::string Feedback(const Passed& passed) {
  std::string text = absl::StrCat(
      "Correct",
      passed.correctness_cases > 0 ? absl::StrCat(" in ", passed.correctness_cases, " cases") : "",
      ". Nothing was timed.");
  for (const MeasurementNote note : passed.notes) {
    absl::StrAppend(&text, " Note: ", std::string(NoteText(note)), ".");
  }
  return text;
}

}  // namespace

std::string_view Name(MeasurementNote note) {
  switch (note) {
    case MeasurementNote::kInputsNeverChange: return "inputs_never_change";
    case MeasurementNote::kFewInputValues: return "few_input_values";
    case MeasurementNote::kInputsOnlyScaled: return "inputs_only_scaled";
  }
  return "unknown";
}

std::string_view NoteText(MeasurementNote note) {
  switch (note) {
    case MeasurementNote::kInputsNeverChange:
      return "this task has inputs that never change: answers that depend on them alone can be "
             "remembered";
    case MeasurementNote::kFewInputValues:
      return "this task's inputs have few possible values: a table of answers can win";
    case MeasurementNote::kInputsOnlyScaled:
      return "this task has inputs that never change except by a factor: answers that depend on "
             "them alone can be remembered and rescaled";
  }
  return "";
}

std::string_view Name(PeakSource source) {
  switch (source) {
    case PeakSource::kAttributes: return "attributes";
    case PeakSource::kTable: return "table";
    case PeakSource::kMeasured: return "measured";
  }
  return "unknown";
}

std::string_view OutcomeName(const MeasureOutcome& outcome) {
  return std::visit(Overloaded{[](const MeasuredOk&) { return std::string_view("ok"); },
                               [](const WrongResult&) { return std::string_view("wrong_result"); },
                               [](const Crash&) { return std::string_view("crash"); },
                               [](const Timeout&) { return std::string_view("timeout"); },
                               [](const Exploit&) { return std::string_view("exploit"); },
                               [](const EnvironmentUnstable&) {
                                 return std::string_view("environment_unstable");
                               },
                               [](const Passed&) { return std::string_view("passed"); }},
                    outcome);
}

std::vector<double> ShapeWeights(const MeasuredOk& ok) {
  std::vector<double> weights;
  for (const ShapeTiming& shape : ok.shapes) weights.push_back(shape.weight);
  if (!std::ranges::all_of(weights, [](double weight) { return weight > 0; })) weights.clear();
  return NormalizedWeights(weights, ok.shapes.size());
}

bool StoppedBehind(const Measurement& measurement) {
  const auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome);
  return ok != nullptr && std::ranges::any_of(ok->shapes, [](const ShapeTiming& shape) {
           return shape.stop_reason == kStoppedBehind;
         });
}

const Ratio* MeasuredSpeedup(const Measurement& measurement) {
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  return ok == nullptr ? nullptr : &ok->speedup;
}

std::string MeasurementFeedback(const Measurement& measurement) {
  return std::visit([](const auto& outcome) { return Feedback(outcome); }, measurement.outcome);
}

}  // namespace kernelcast
