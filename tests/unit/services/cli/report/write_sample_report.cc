// Writes the page of a synthetic search for inspection: write_sample_report COUNT
// [empty|pruned|failures] > FILE.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "services/cli/report/analysis.h"
#include "services/cli/report/html.h"
#include "tests/unit/services/cli/report/sample_report.h"

int main(int argc, char** argv) {
  using namespace kernelcast::cli;
  ReportInput input = SampleReport(argc > 1 ? std::atoi(argv[1]) : 200);
  const std::string only = argc > 2 ? argv[2] : "";
  if (!only.empty()) {
    input.confirmed.reset();
    std::vector<ReportCandidate> kept;
    for (const ReportCandidate& candidate : input.candidates) {
      const Fate fate = FateOf(candidate);
      if ((only == "pruned" && fate == Fate::kPruned) ||
          (only == "failures" && (fate == Fate::kFailed || fate == Fate::kRejected))) {
        kept.push_back(candidate);
      }
    }
    input.candidates = kept;
  }
  std::fputs(RenderReport(input).c_str(), stdout);
  return 0;
}
