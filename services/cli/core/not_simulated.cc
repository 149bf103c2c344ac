#include "services/cli/core/not_simulated.h"

#include "absl/strings/str_cat.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {
namespace {

constexpr int kReasonWidth = 300;

}  // namespace

std::string WhyNotSimulated(const CompileFacts& facts) {
  for (const ShapeSimulation& simulation : facts.simulations) {
    for (const LaunchSimulation& launch : simulation.launches) {
      if (launch.not_covered.empty()) continue;
      const std::string why = Truncate(OneLine(launch.not_covered), kReasonWidth);
      return launch.kernel == kWholeCandidate ? why
                                              : absl::StrCat(OneLine(launch.kernel), ": ", why);
    }
  }
  return "";
}

std::string NotSimulatedList::Render(int width) const {
  std::string text;
  for (const auto& [why, names] : names_) {
    absl::StrAppend(
        &text, WrapText(absl::StrCat(CommaList(names), ": not simulated: ", why), width, 2), "\n");
  }
  return text;
}

}  // namespace kernelcast::cli
