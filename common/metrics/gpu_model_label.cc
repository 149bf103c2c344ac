#include "common/metrics/gpu_model_label.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace kernelcast {
namespace {

constexpr std::string_view kCuda = "cuda";

// `name` if it is in kGpuModelLabels, otherwise "".
std::string_view Known(std::string_view name) {
  const auto found = std::find(kGpuModelLabels.begin(), kGpuModelLabels.end(), name);
  return found == kGpuModelLabels.end() ? std::string_view() : *found;
}

}  // namespace

std::string_view GpuModelLabel(std::string_view target, std::string_view device) {
  if (target != kCuda) {
    const std::string_view known = Known(target);
    return known.empty() ? kGpuModelLabels.back() : known;
  }
  // The first word that is a known model: "NVIDIA A100-SXM4-80GB" has it between separators.
  std::string word;
  for (size_t i = 0; i <= device.size(); ++i) {
    const auto letter = i < device.size() ? static_cast<unsigned char>(device[i]) : '\0';
    if (std::isalnum(letter) != 0) {
      word.push_back(static_cast<char>(std::tolower(letter)));
      continue;
    }
    const std::string_view known = Known(word);
    if (!known.empty() && known != "cpu" && known != "other") return known;
    word.clear();
  }
  return kCuda;
}

}  // namespace kernelcast
