#include "common/domain/candidate_kind.h"

#include <algorithm>

namespace kernelcast {
namespace {

template <class Fits>
std::optional<CandidateKind> FirstKind(Fits fits) {
  const auto found = std::ranges::find_if(kCandidateKinds, fits);
  if (found == kCandidateKinds.end()) return std::nullopt;
  return found->kind;
}

}  // namespace

std::optional<CandidateKind> FindKind(std::string_view name) {
  return FirstKind([name](const KindInfo& info) { return info.name == name; });
}

CandidateKind KindOfSource(bool is_python, bool has_launches) {
  return FirstKind([&](const KindInfo& info) {
           return info.is_python == is_python && info.has_launches() == has_launches;
         })
      .value_or(CandidateKind::kUnspecified);
}

std::optional<CandidateKind> KindOfFile(std::string_view file) {
  const auto has_extension = [file](const KindInfo& info) {
    return std::ranges::any_of(info.extensions, [file](std::string_view extension) {
      return !extension.empty() && file.ends_with(extension);
    });
  };
  const std::optional<CandidateKind> without_launches =
      FirstKind([&](const KindInfo& info) { return !info.has_launches() && has_extension(info); });
  return without_launches ? without_launches : FirstKind(has_extension);
}

CandidateKind GuessKind(std::string_view source) {
  const auto is_marked = [source](const KindInfo& info) {
    return !info.mark.empty() && source.find(info.mark) != std::string_view::npos;
  };
  // First, because a source in Python may contain CUDA as text.
  const std::optional<CandidateKind> python =
      FirstKind([&](const KindInfo& info) { return info.is_python && is_marked(info); });
  if (python) return *python;
  return FirstKind(is_marked).value_or(KindOfSource(/*is_python=*/false, /*has_launches=*/false));
}

std::vector<std::string> KindNames(bool (*fits)(const KindInfo& info)) {
  std::vector<std::string> names;
  for (const KindInfo& info : kCandidateKinds) {
    if (fits == nullptr || fits(info)) names.emplace_back(info.name);
  }
  return names;
}

std::vector<std::string> SourceExtensions() {
  std::vector<std::string> extensions;
  for (const KindInfo& info : kCandidateKinds) {
    for (const std::string_view extension : info.extensions) {
      if (!extension.empty() && std::ranges::count(extensions, extension) == 0) {
        extensions.emplace_back(extension);
      }
    }
  }
  return extensions;
}

}  // namespace kernelcast
