#include "services/cli/report/gate_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {

bool NothingCarriesOver(const v1::Search& search) {
  return !search.has_confirmed_best() &&
         std::ranges::any_of(search.finalists(), [](const v1::Finalist& one) {
           return one.gate() != v1::Finalist::GATE_UNSPECIFIED;
         });
}

std::vector<std::string> GateLines(const v1::Search& search) {
  std::vector<std::string> lines;
  for (const v1::Finalist& one : search.finalists()) {
    if (one.gate() == v1::Finalist::GATE_UNSPECIFIED) continue;
    if (one.gate() == v1::Finalist::GATE_FAILED) {
      lines.push_back(absl::StrCat(one.candidate_id(), " fails at the held-out bench shapes: ",
                                   OneLine(one.held_out_outcome())));
      continue;
    }
    const bool carries = one.gate() == v1::Finalist::GATE_CARRIES_OVER;
    lines.push_back(
        absl::StrCat(one.candidate_id(), carries ? " carries over: " : " does not carry over: ",
                     FormatSpeedup(FromProto(one.speedup())), " at the bench shapes, ",
                     FormatSpeedup(FromProto(one.held_out_speedup())), " at the held-out ones"));
  }
  return lines;
}

}  // namespace kernelcast::cli
