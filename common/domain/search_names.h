#ifndef KERNELCAST_COMMON_DOMAIN_SEARCH_NAMES_H_
#define KERNELCAST_COMMON_DOMAIN_SEARCH_NAMES_H_

#include <span>
#include <string_view>

namespace kernelcast {

// The policies and strategies of a search that users can choose, from search_names.cmake. The first
// is the default.
std::span<const std::string_view> PolicyNames();
std::span<const std::string_view> StrategyNames();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_SEARCH_NAMES_H_
