#include "services/cli/core/search_tree.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {
namespace {

using Fate = TreeEntry::Fate;
using Parents = std::vector<size_t>;

// The nodes in an order in which parents precede their children. Breaks cycles, which only damaged
// records have, by making one of their nodes a child of the root.
std::vector<size_t> TopDown(Parents& parents) {
  std::vector<size_t> order = {0};
  std::vector<char> placed(parents.size(), 0);
  placed[0] = 1;
  for (size_t node = 1; node < parents.size(); ++node) {
    std::vector<size_t> path;
    std::vector<char>& seen = placed;
    size_t at = node;
    while (seen[at] == 0) {
      seen[at] = 2;
      path.push_back(at);
      at = parents[at];
    }
    if (seen[at] == 2) parents[path.back()] = 0;
    for (auto next = path.rbegin(); next != path.rend(); ++next) {
      seen[*next] = 1;
      order.push_back(*next);
    }
  }
  return order;
}

std::string_view Word(Fate fate) {
  switch (fate) {
    case Fate::kPruned: return "pruned";
    case Fate::kRejected: return "rejected";
    case Fate::kUnstable: return "unstable";
    case Fate::kFailed: return "failed";
    case Fate::kMeasured: return "measured";
  }
  return "";
}

}  // namespace

std::string NodeText(const SearchTree& tree, size_t node) {
  const TreeEntry& entry = tree.nodes[node].entry;
  if (node == 0) return entry.label;
  return absl::StrCat(
      entry.label, " ",
      entry.fate == Fate::kMeasured ? FormatSpeedup(entry.speedup) : std::string(Word(entry.fate)));
}

bool SearchTree::derived() const {
  return std::ranges::any_of(nodes, [](const Node& node) { return node.depth > 1; });
}

SearchTree MakeSearchTree(const std::vector<TreeEntry>& entries, size_t most_shown) {
  SearchTree tree;
  tree.nodes.emplace_back().entry.label = "reference";
  tree.nodes.front().shown = true;
  std::unordered_map<std::string, size_t> by_id;
  for (const TreeEntry& entry : entries) {
    const auto [known, added] = by_id.emplace(entry.candidate_id, tree.nodes.size());
    if (added) {
      tree.nodes.emplace_back().entry = entry;
    } else if (TreeEntry& old = tree.nodes[known->second].entry; entry.fate > old.fate) {
      old = entry;
    }
  }
  Parents parents(tree.nodes.size(), 0);
  for (size_t i = 1; i < tree.nodes.size(); ++i) {
    const auto parent = by_id.find(tree.nodes[i].entry.parent_id);
    if (parent != by_id.end()) parents[i] = parent->second;
  }
  const std::vector<size_t> order = TopDown(parents);
  for (const size_t i : order) {
    SearchTree::Node& node = tree.nodes[i];
    if (i == 0) continue;
    node.parent = parents[i];
    node.depth = tree.nodes[parents[i]].depth + 1;
    tree.nodes[parents[i]].children.push_back(i);
    if (node.entry.fate == Fate::kMeasured) node.fastest = node.entry.speedup;
  }
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    SearchTree::Node& node = tree.nodes[*i];
    std::ranges::sort(node.children);
    std::ranges::stable_sort(node.children, [&tree](size_t a, size_t b) {
      return tree.nodes[a].fastest > tree.nodes[b].fastest;
    });
    if (*i == 0) continue;
    SearchTree::Node& parent = tree.nodes[parents[*i]];
    parent.fastest = std::max(parent.fastest, node.fastest);
    parent.descendants += node.descendants + 1;
  }
  std::vector<size_t> fastest(tree.nodes.size() - 1);
  std::iota(fastest.begin(), fastest.end(), 1);
  std::ranges::stable_sort(fastest, [&tree](size_t a, size_t b) {
    return tree.nodes[a].entry.speedup > tree.nodes[b].entry.speedup;
  });
  if (!fastest.empty() && tree.nodes[fastest.front()].entry.fate == Fate::kMeasured) {
    tree.best = fastest.front();
  }
  size_t shown = 0;
  for (const size_t i : fastest) {
    std::vector<size_t> path;
    for (size_t at = i; !tree.nodes[at].shown; at = parents[at]) path.push_back(at);
    // The way to the best is always shown.
    if (shown > 0 && shown + path.size() > most_shown) continue;
    for (const size_t at : path) tree.nodes[at].shown = true;
    shown += path.size();
  }
  return tree;
}

std::string FoldedText(const SearchTree& tree, size_t node) {
  std::array<size_t, 5> counts = {};
  std::vector<size_t> open;
  for (const size_t child : tree.nodes[node].children) {
    if (!tree.nodes[child].shown) open.push_back(child);
  }
  while (!open.empty()) {
    const SearchTree::Node& folded = tree.nodes[open.back()];
    open.pop_back();
    ++counts[static_cast<size_t>(folded.entry.fate)];
    open.insert(open.end(), folded.children.begin(), folded.children.end());
  }
  std::string text;
  for (const Fate fate :
       {Fate::kMeasured, Fate::kPruned, Fate::kFailed, Fate::kRejected, Fate::kUnstable}) {
    const size_t count = counts[static_cast<size_t>(fate)];
    if (count == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", FormatCount(count), " ",
                    std::string(Word(fate)));
  }
  return text;
}

std::vector<std::string> TreeLines(const SearchTree& tree, size_t max_lines, const Style& style,
                                   int width) {
  std::set<size_t> way;
  for (size_t at = tree.best; at != 0; at = tree.nodes[at].parent) way.insert(at);
  const auto fit = [width](const std::string& text) {
    return width > 0 ? Truncate(text, width) : text;
  };
  std::vector<std::string> lines = {fit(NodeText(tree, 0))};
  struct Open {
    size_t node = 0;
    size_t next = 0;  // of its shown children
    std::string indent;
  };
  std::vector<Open> open = {{0, 0, ""}};
  while (!open.empty()) {
    if (lines.size() >= max_lines) {
      lines.push_back("…");
      break;
    }
    Open& top = open.back();
    const SearchTree::Node& node = tree.nodes[top.node];
    std::vector<size_t> shown;
    for (const size_t child : node.children) {
      if (tree.nodes[child].shown) shown.push_back(child);
    }
    const std::string folded = FoldedText(tree, top.node);
    if (top.next >= shown.size()) {
      if (!folded.empty()) lines.push_back(fit(absl::StrCat(top.indent, "└ ", folded)));
      open.pop_back();
      continue;
    }
    const size_t child = shown[top.next++];
    const bool last = top.next == shown.size() && folded.empty();
    const std::string line = fit(absl::StrCat(top.indent, last ? "└ " : "├ ", NodeText(tree, child),
                                              child == tree.best ? "  best" : ""));
    lines.push_back(way.contains(child) ? style.Bold(line) : line);
    open.push_back({child, 0, top.indent + (last ? "  " : "│ ")});
  }
  return lines;
}

std::string LineageText(const SearchTree& tree, size_t most) {
  if (tree.best == 0) return "";
  std::string text;
  size_t at = tree.best;
  for (size_t steps = 0; steps < most; ++steps) {
    text = absl::StrCat(NodeText(tree, at), text.empty() ? "" : " > ", text);
    if (at == 0) return text;
    at = tree.nodes[at].parent;
  }
  return absl::StrCat("… > ", text);
}

}  // namespace kernelcast::cli
