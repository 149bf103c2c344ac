#ifndef KERNELCAST_SERVICES_CLI_CORE_SEARCH_TREE_H_
#define KERNELCAST_SERVICES_CLI_CORE_SEARCH_TREE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "services/cli/core/text.h"

namespace kernelcast::cli {

// Which candidates of a search were made from which, and how each ended.

// A candidate's state after one evaluation.
struct TreeEntry {
  // In ascending rank: what stands if a candidate has several evaluations.
  enum class Fate { kPruned, kRejected, kUnstable, kFailed, kMeasured };

  std::string candidate_id;
  std::string parent_id;
  std::string label;
  Fate fate = Fate::kPruned;
  double speedup = 0;  // of kMeasured
};

struct SearchTree {
  struct Node {
    TreeEntry entry;  // the root is the reference: only a label
    size_t parent = 0;
    std::vector<size_t> children;  // those with the fastest descendants first
    double fastest = 0;            // of the node and its descendants; 0: none was measured
    size_t descendants = 0;
    size_t depth = 0;
    bool shown = false;  // not folded
  };

  // The root, then the candidates in the order of their first evaluations.
  std::vector<Node> nodes;
  // The fastest measured candidate; 0: none.
  size_t best = 0;

  // Whether a candidate was made from another, so that there is something to see.
  bool derived() const;
};

// Candidates whose parent is the reference, empty or not among the entries are children of the
// root. A measured speedup stands above a failure, and so on by Fate; of equal ones the first.
// Unfolds up to `most_shown` candidates: the fastest ones with their ancestors.
SearchTree MakeSearchTree(const std::vector<TreeEntry>& entries, size_t most_shown);

// "3 measured, 12 pruned, 1 failed" of the folded children of a node and all below them. Empty:
// none is folded.
std::string FoldedText(const SearchTree& tree, size_t node);

// "c 2.50x", "d pruned".
std::string NodeText(const SearchTree& tree, size_t node);

// The unfolded part as lines for a terminal, with one line for the folded children of each node and
// the way to the best in bold. Cut after `max_lines`, with a line that says so. `width` 0: no
// limit.
std::vector<std::string> TreeLines(const SearchTree& tree, size_t max_lines,
                                   const Style& style = Style(false), int width = 0);

// "reference > b 1.10x > c 2.50x": the way to the best, of which the last `most` steps are shown.
// Empty if nothing was measured.
std::string LineageText(const SearchTree& tree, size_t most);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_SEARCH_TREE_H_
