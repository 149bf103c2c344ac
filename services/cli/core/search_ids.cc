#include "services/cli/core/search_ids.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {
namespace {

constexpr size_t kMostListed = 8;

}  // namespace

absl::StatusOr<std::string> ChooseSearchId(const std::string& given,
                                           const std::vector<KnownSearch>& known) {
  if (given == kLatestSearch) {
    const auto latest = std::ranges::max_element(known, {}, &KnownSearch::started_ns);
    if (latest == known.end()) return absl::NotFoundError("there is no search yet");
    return latest->id.substr(0, latest->id.find('@'));
  }
  const bool names_model = given.find('@') != std::string::npos;
  std::set<std::string> matching;
  for (const KnownSearch& search : known) {
    if (search.id == given) return given;
    if (given.empty() || search.id.rfind(given, 0) != 0) continue;
    matching.insert(names_model ? search.id : search.id.substr(0, search.id.find('@')));
  }
  if (matching.empty()) {
    return absl::NotFoundError(absl::StrCat("no search has the id ", Quoted(given)));
  }
  if (matching.size() == 1) return *matching.begin();
  std::vector<std::string> listed;
  for (const std::string& id : matching) {
    if (listed.size() == kMostListed) break;
    listed.push_back(OneLine(id));
  }
  return absl::InvalidArgumentError(absl::StrCat(Quoted(given), " is the beginning of ",
                                                 matching.size(), " ids: ", CommaList(listed),
                                                 listed.size() < matching.size() ? ", ..." : ""));
}

}  // namespace kernelcast::cli
