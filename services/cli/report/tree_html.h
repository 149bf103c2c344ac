#ifndef KERNELCAST_SERVICES_CLI_REPORT_TREE_HTML_H_
#define KERNELCAST_SERVICES_CLI_REPORT_TREE_HTML_H_

#include <cstddef>
#include <string>

#include "services/cli/core/search_tree.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

TreeEntry::Fate TreeFate(Fate fate);

// The tree of a report's candidates, without confirmations. Labels are names and the first digits
// of ids.
SearchTree TreeOf(const ReportInput& input, const ReportAnalysis& analysis, size_t most_shown);

// The section of the page that shows which candidate was made from which. Folded children can be
// opened; of very many, the fastest are listed. Returns "" if no candidate was made from another.
std::string TreeHtml(const ReportInput& input, const ReportAnalysis& analysis);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_TREE_HTML_H_
