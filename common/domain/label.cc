#include "common/domain/label.h"

namespace kernelcast {

std::string_view Name(FailureKind kind) {
  switch (kind) {
    case FailureKind::kCompileError: return "compile_error";
    case FailureKind::kWrongResult: return "wrong_result";
    case FailureKind::kCrash: return "crash";
    case FailureKind::kTimeout: return "timeout";
    case FailureKind::kExploit: return "exploit";
  }
  return "unknown";
}

std::optional<Truth> TruthOf(const MeasureOutcome& outcome) {
  struct Visitor {
    std::optional<Truth> operator()(const MeasuredOk& ok) const { return ok.speedup; }
    std::optional<Truth> operator()(const WrongResult&) const { return FailureKind::kWrongResult; }
    std::optional<Truth> operator()(const Crash&) const { return FailureKind::kCrash; }
    std::optional<Truth> operator()(const Timeout&) const { return FailureKind::kTimeout; }
    std::optional<Truth> operator()(const Exploit&) const { return FailureKind::kExploit; }
    std::optional<Truth> operator()(const EnvironmentUnstable&) const { return std::nullopt; }
    // Nothing was timed.
    std::optional<Truth> operator()(const Passed&) const { return std::nullopt; }
  };
  return std::visit(Visitor(), outcome);
}

std::string_view OutcomeName(const Truth& truth) {
  if (const auto* failure = std::get_if<FailureKind>(&truth)) return Name(*failure);
  return "ok";
}

}  // namespace kernelcast
