#include "services/worker/cpu/admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kAllowedFlags[] = {
    "-O1",
    "-O2",
    "-O3",
    "-ffast-math",
    "-fassociative-math",
    "-ffinite-math-only",
    "-ffp-contract=fast",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fno-tree-vectorize",
    "-fno-unroll-loops",
    "-fopenmp-simd",
    "-freciprocal-math",
    "-funroll-loops",
    "-mprefer-vector-width=128",
    "-mprefer-vector-width=256",
    "-mprefer-vector-width=512",
};

}  // namespace

std::span<const std::string_view> AllowedCpuFlags() { return kAllowedFlags; }

std::optional<std::string> CheckFlags(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    if (std::find(std::begin(kAllowedFlags), std::end(kAllowedFlags), flag) ==
        std::end(kAllowedFlags)) {
      std::string allowed;
      for (const std::string_view name : kAllowedFlags) {
        absl::StrAppend(&allowed, " ", std::string(name));
      }
      return absl::StrCat("flag '", flag.substr(0, 200), "' is not one of", allowed);
    }
  }
  return std::nullopt;
}

}  // namespace kernelcast::worker
