#ifndef KERNELCAST_SERVICES_CLI_CORE_SEARCH_IDS_H_
#define KERNELCAST_SERVICES_CLI_CORE_SEARCH_IDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::cli {

// The search that was started last.
inline constexpr std::string_view kLatestSearch = "latest";

struct KnownSearch {
  std::string id;  // may be ID@MODEL, for a search on several device models
  int64_t started_ns = 0;
};

// Returns the id that `given` stands for: kLatestSearch, an id, or the beginning of a single id.
// Several searches ID@MODEL count as one with the id ID. NOT_FOUND: there is none.
// INVALID_ARGUMENT: it is the beginning of several ids, which the message lists.
[[nodiscard]] absl::StatusOr<std::string> ChooseSearchId(const std::string& given,
                                                         const std::vector<KnownSearch>& known);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_SEARCH_IDS_H_
