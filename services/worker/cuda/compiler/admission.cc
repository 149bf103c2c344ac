#include "services/worker/cuda/compiler/admission.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kMaxRegisters = "-maxrregcount=N";
constexpr std::string_view kMacro = "-DNAME=VALUE";

constexpr std::string_view kAllowedFlags[] = {
    "-std=c++17",
    "-std=c++20",
    "--use_fast_math",
    "-ftz=true",
    "-ftz=false",
    "-prec-div=true",
    "-prec-div=false",
    "-prec-sqrt=true",
    "-prec-sqrt=false",
    "-fmad=true",
    "-fmad=false",
    "--extra-device-vectorization",
    "--restrict",
    "--device-as-default-execution-space",
    "--device-int128",
    "-Xptxas=-O1",
    "-Xptxas=-O2",
    "-Xptxas=-O3",
    "-Xptxas=-dlcm=ca",
    "-Xptxas=-dlcm=cg",
    "-Xptxas=-dlcm=cs",
    "-Xptxas=-dscm=wb",
    "-Xptxas=-dscm=cg",
    "-Xptxas=-dscm=cs",
    "-Xptxas=--allow-expensive-optimizations=true",
    "-Xptxas=--allow-expensive-optimizations=false",
    kMaxRegisters,
    kMacro,
};
constexpr size_t kMaxMacroBytes = 256;
constexpr int kMinRegisters = 16;
constexpr int kMaxRegistersValue = 255;

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsIdentifierPart(char c) {
  return IsNameStart(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool IsRegisterFlag(std::string_view flag) {
  const std::string_view prefix = kMaxRegisters.substr(0, kMaxRegisters.size() - 1);
  if (flag.substr(0, prefix.size()) != prefix) {
    return false;
  }
  const std::string_view number = flag.substr(prefix.size());
  if (number.empty() || number.size() > 3 ||
      !std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return false;
  }
  int value = 0;
  for (const char c : number) {
    value = value * 10 + (c - '0');
  }
  return value >= kMinRegisters && value <= kMaxRegistersValue;
}

// -DNAME or -DNAME=VALUE. Names that start with two underscores or "_X" are reserved for the
// compiler. A value is one line of printable ASCII that neither names a file nor starts a
// directive.
bool IsMacroFlag(std::string_view flag) {
  if (flag.substr(0, 2) != "-D" || flag.size() > kMaxMacroBytes) {
    return false;
  }
  const std::string_view definition = flag.substr(2);
  const std::string_view name = definition.substr(0, definition.find('='));
  if (name.empty() || !IsNameStart(name[0]) ||
      !std::all_of(name.begin(), name.end(), IsIdentifierPart) ||
      name.find("__") != std::string_view::npos ||
      (name[0] == '_' && name.size() > 1 && std::isupper(static_cast<unsigned char>(name[1])))) {
    return false;
  }
  const std::string_view value = definition.substr(std::min(definition.size(), name.size()));
  return std::all_of(value.begin(), value.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '#' && c != '\\' && c != '"' && c != '`';
  });
}

}  // namespace

std::span<const std::string_view> AllowedCudaFlags() { return kAllowedFlags; }

std::optional<std::string> CheckCudaFlags(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    const bool listed = flag != kMaxRegisters &&
                        std::find(std::begin(kAllowedFlags), std::end(kAllowedFlags), flag) !=
                            std::end(kAllowedFlags);
    if (listed || IsRegisterFlag(flag) || IsMacroFlag(flag)) {
      continue;
    }
    std::string allowed;
    for (const std::string_view name : kAllowedFlags) {
      absl::StrAppend(&allowed, " ", std::string(name));
    }
    return absl::StrCat("flag '", flag.substr(0, 200), "' is not one of", allowed, ", with N from ",
                        kMinRegisters, " to ", kMaxRegistersValue);
  }
  return std::nullopt;
}

std::optional<std::string> CheckPtx(std::string_view ptx) {
  for (const std::string_view word : {".include", ".incbin", ".file"}) {
    if (ptx.find(word) != std::string_view::npos) {
      return absl::StrCat("the PTX contains '", std::string(word), "', which is not allowed");
    }
  }
  return std::nullopt;
}

}  // namespace kernelcast::worker
