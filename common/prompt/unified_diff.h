#ifndef KERNELCAST_COMMON_PROMPT_UNIFIED_DIFF_H_
#define KERNELCAST_COMMON_PROMPT_UNIFIED_DIFF_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kernelcast {

struct UnifiedDiff {
  // Hunks with three lines of context, "@@ -1,4 +1,5 @@" first, cut after a whole line. Empty if
  // the texts have the same lines.
  std::string text;
  size_t removed = 0;  // lines, also those that were cut
  size_t added = 0;
  size_t cut_lines = 0;  // lines of `text` that were cut
};

// The difference of two texts by lines, by the algorithm of Myers. `text` has at most `max_bytes`.
// Texts that differ in more than 400 lines are not compared in detail: their different middle parts
// count as removed and added as a whole. Trailing white space of lines does not count.
UnifiedDiff MakeUnifiedDiff(std::string_view before, std::string_view after, size_t max_bytes);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROMPT_UNIFIED_DIFF_H_
