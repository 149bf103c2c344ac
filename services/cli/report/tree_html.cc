#include "services/cli/report/tree_html.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/core/text.h"
#include "services/cli/report/html_parts.h"

namespace kernelcast::cli {
namespace {

constexpr size_t kMostShown = 80;
// Browsers limit how deeply elements nest. Deeper descendants are listed side by side.
constexpr size_t kMaxNesting = 40;
// Folded candidates that are listed, of a node and of the whole page.
constexpr size_t kMaxListed = 50;
constexpr size_t kMaxListedInAll = 2000;

class Writer {
 public:
  explicit Writer(const SearchTree& tree) : tree_(tree) {}

  std::string Page() {
    List(0, 0);
    return std::move(html_);
  }

 private:
  void Label(size_t node) {
    const std::string text = Html(NodeText(tree_, node));
    if (node == tree_.best) {
      absl::StrAppend(&html_, "<b>", text, "</b> ", Chip("good", "best"));
    } else {
      html_ += text;
    }
  }

  void Folded(size_t node) {
    const std::string folded = FoldedText(tree_, node);
    if (folded.empty()) return;
    absl::StrAppend(&html_, "<li class=folded><details><summary>", Html(folded), "</summary><ul>");
    size_t listed = 0;
    size_t left = 0;
    for (const size_t child : tree_.nodes[node].children) {
      if (tree_.nodes[child].shown) continue;
      if (listed == kMaxListed || listed_ == kMaxListedInAll) {
        left += 1;
        continue;
      }
      ++listed;
      ++listed_;
      html_ += "<li>";
      Label(child);
      if (const size_t below = tree_.nodes[child].descendants; below > 0) {
        absl::StrAppend(&html_, " and ", FormatCount(below), " made from it");
      }
    }
    if (left > 0) absl::StrAppend(&html_, "<li>", FormatCount(left), " more");
    html_ += "</ul></details>";
  }

  // The children of a node, and all that is shown below them.
  void List(size_t node, size_t nesting) {
    html_ += "<ul>";
    std::vector<size_t> open = {node};
    while (!open.empty()) {
      const size_t parent = open.back();
      open.pop_back();
      std::vector<size_t> deeper;
      for (const size_t child : tree_.nodes[parent].children) {
        if (!tree_.nodes[child].shown) continue;
        const bool leaf = tree_.nodes[child].children.empty();
        html_ += "<li>";
        if (!leaf && nesting < kMaxNesting) {
          html_ += "<details open><summary>";
          Label(child);
          html_ += "</summary>";
          List(child, nesting + 1);
          html_ += "</details>";
        } else {
          Label(child);
          if (!leaf) deeper.push_back(child);
        }
      }
      Folded(parent);
      open.insert(open.end(), deeper.rbegin(), deeper.rend());
    }
    html_ += "</ul>";
  }

  const SearchTree& tree_;
  std::string html_;
  size_t listed_ = 0;
};

}  // namespace

TreeEntry::Fate TreeFate(Fate fate) {
  switch (fate) {
    case Fate::kOk: return TreeEntry::Fate::kMeasured;
    case Fate::kFailed: return TreeEntry::Fate::kFailed;
    case Fate::kUnstable: return TreeEntry::Fate::kUnstable;
    case Fate::kPruned: return TreeEntry::Fate::kPruned;
    case Fate::kRejected: return TreeEntry::Fate::kRejected;
  }
  return TreeEntry::Fate::kRejected;
}

SearchTree TreeOf(const ReportInput& input, const ReportAnalysis& analysis, size_t most_shown) {
  std::vector<TreeEntry> entries;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    if (analysis.is_confirmation[i]) continue;
    const ReportCandidate& candidate = input.candidates[i];
    TreeEntry& entry = entries.emplace_back();
    entry.candidate_id = candidate.candidate.candidate_id;
    entry.parent_id = candidate.candidate.parent_candidate_id;
    entry.label =
        absl::StrCat(OneLine(NameOf(candidate.candidate)), " ", entry.candidate_id.substr(0, 10));
    entry.fate = TreeFate(FateOf(candidate));
    if (const Ratio* speedup = SpeedupOf(candidate)) entry.speedup = speedup->value;
  }
  return MakeSearchTree(entries, most_shown);
}

std::string TreeHtml(const ReportInput& input, const ReportAnalysis& analysis) {
  const SearchTree tree = TreeOf(input, analysis, kMostShown);
  if (!tree.derived()) return "";
  return Section(
      "tree", "Who came from whom",
      "Candidates below the one that they were made from, the fastest descendants first. "
      "Speedups are screening measurements over the reference.",
      absl::StrCat("<div class=tree><p>reference</p>", Writer(tree).Page(), "</div>"));
}

}  // namespace kernelcast::cli
