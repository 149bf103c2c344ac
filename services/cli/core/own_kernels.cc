#include "services/cli/core/own_kernels.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kernelcast::cli {
namespace {

// These modules contain no kernels. `task`, `utils` and `reference` are files of GPU MODE's tasks.
constexpr std::string_view kModules[] = {
    "__future__", "abc",       "collections", "contextlib", "copy",  "dataclasses",
    "enum",       "functools", "itertools",   "math",       "numpy", "operator",
    "os",         "random",    "reference",   "sys",        "task",  "time",
    "torch",      "typing",    "utils",       "warnings"};
// A source with one of these names may load or compile code.
constexpr std::string_view kMakesCode[] = {
    "cpp_extension", "load_inline",     "torch.compile", "_inductor", "_dynamo",
    "jiterator",     "_compile_kernel", "load_library",  "torch.jit", "torch.classes",
    "__import__",    "importlib",       "exec(",         "eval(",     "sys.modules"};

bool HoldsNoKernels(absl::string_view module) {
  const absl::string_view first =
      *absl::StrSplit(absl::StripAsciiWhitespace(module), absl::ByAnyChar(". \t")).begin();
  return std::ranges::any_of(kModules, [&](std::string_view known) {
    return first == absl::string_view(known.data(), known.size());
  });
}

// Returns whether a line imports nothing that may contain kernels.
bool ImportsNoKernels(absl::string_view line) {
  line = absl::StripAsciiWhitespace(line);
  if (absl::ConsumePrefix(&line, "from ")) return HoldsNoKernels(line);
  if (!absl::ConsumePrefix(&line, "import ")) {
    // Several statements in a line are rare.
    return !absl::StrContains(line, "; import ") && !absl::StrContains(line, ": import ") &&
           !absl::StrContains(line, "; from ") && !absl::StrContains(line, ": from ");
  }
  const std::vector<absl::string_view> modules = absl::StrSplit(line, ',');
  return std::ranges::all_of(modules, HoldsNoKernels);
}

}  // namespace

bool OnlyCallsPyTorch(const Candidate& candidate) {
  if (candidate.kind != CandidateKind::kPython) return false;
  const absl::string_view text = candidate.source;
  if (!absl::StrContains(text, "torch")) return false;
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) return false;
  for (const std::string_view name : kMakesCode) {
    if (candidate.source.find(name) != std::string::npos) return false;
  }
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  return std::ranges::all_of(lines, ImportsNoKernels);
}

}  // namespace kernelcast::cli
