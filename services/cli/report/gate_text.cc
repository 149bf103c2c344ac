#include "services/cli/report/gate_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {

using Gate = ReportFinalist::Gate;

bool NothingCarriesOver(const ReportSearch& search) {
  const std::vector<ReportFinalist>& finalists = search.finalists;
  const auto gated = [](const ReportFinalist& one) { return one.gate != Gate::kNotMeasured; };
  return !search.confirmed.has_value() && std::any_of(finalists.begin(), finalists.end(), gated);
}

std::string_view Name(Gate gate) {
  switch (gate) {
    case Gate::kNotMeasured: return "not_measured";
    case Gate::kCarriesOver: return "carries_over";
    case Gate::kDoesNotCarryOver: return "does_not_carry_over";
    case Gate::kFailed: return "failed";
  }
  return "not_measured";
}

std::vector<std::string> GateLines(const ReportSearch& search) {
  std::vector<std::string> lines;
  for (const ReportFinalist& one : search.finalists) {
    if (one.gate == Gate::kNotMeasured) continue;
    if (one.gate == Gate::kFailed) {
      lines.push_back(absl::StrCat(one.candidate_id, " fails at the held-out bench shapes: ",
                                   OneLine(one.held_out_outcome)));
      continue;
    }
    lines.push_back(
        absl::StrCat(one.candidate_id,
                     one.gate == Gate::kCarriesOver ? " carries over: " : " does not carry over: ",
                     FormatSpeedup(one.speedup), " at the bench shapes, ",
                     FormatSpeedup(one.held_out_speedup), " at the held-out ones"));
  }
  return lines;
}

}  // namespace kernelcast::cli
