#include "services/worker/core/output_rules.h"

#include "absl/strings/str_cat.h"
#include "common/domain/python_task.h"

namespace kernelcast::worker {
namespace {

// The maximum length of the reason that a task's checker gives.
constexpr size_t kMaxReasonBytes = 300;

}  // namespace

std::string OutputRules::FormatRule(const Tolerance& tolerance) const {
  return problem_.task ? RuleText(problem_.task->format, tolerance) : "";
}

std::optional<std::string> OutputRules::TrivialAnswer(const Output& output,
                                                      const TensorVerdict& verdict) {
  const bool has_checker = problem_.task && HasChecker(problem_.task->format);
  const auto unexplained =
      variation_.Judge({output.axes, output.distribution, output.index, output.draw},
                       verdict.variation, output.dtype, output.noise,
                       has_checker ? VariationRule::kNotConstant : VariationRule::kFollow);
  if (!unexplained) return std::nullopt;
  return VariationText(*unexplained, FormatRule(output.tolerance));
}

std::optional<WrongResult> OutputRules::Judge(const Output& output, const TensorVerdict& verdict,
                                              const Circumstances& circumstances) {
  const bool unwritten = !verdict.ok && verdict.cause == WrongResult::Cause::kNotWritten;
  const bool agrees = verdict.ok || (circumstances.by_checker && !unwritten);
  std::optional<std::string> trivial;
  if (agrees && !circumstances.refusal) {
    trivial = TrivialAnswer(output, verdict);
    if (!trivial) {
      if (verdict.by_own_error && decided_by_.empty()) {
        decided_by_ = OwnErrorText(verdict.mismatches, output.elements, output.name);
      }
      return std::nullopt;
    }
  }
  WrongResult wrong;
  wrong.cause = circumstances.timed ? WrongResult::Cause::kTimedOutput
                : trivial           ? WrongResult::Cause::kNormwise
                                    : verdict.cause;
  if (trivial) {
    wrong.rule = *trivial;
  } else if (circumstances.refusal) {
    wrong.rule = absl::StrCat(FormatRule(output.tolerance),
                              "; it said: ", circumstances.refusal->substr(0, kMaxReasonBytes));
  } else {
    wrong.rule = unwritten && problem_.task ? kWrittenRule : FormatRule(output.tolerance);
  }
  wrong.shape = output.axes;
  wrong.distribution = output.distribution;
  wrong.output = output.name;
  wrong.mismatches = verdict.mismatches;
  wrong.elements = output.elements;
  wrong.index = verdict.index;
  wrong.got = verdict.got;
  wrong.expected = verdict.expected;
  RoundForReport(wrong.got, wrong.expected);
  wrong.normwise_error = RoundForReport(verdict.normwise_error);
  return wrong;
}

}  // namespace kernelcast::worker
