#include "services/cli/core/search_tree.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::cli {
namespace {

using Fate = TreeEntry::Fate;
using Lines = std::vector<std::string>;

TreeEntry Measured(const std::string& id, const std::string& parent, double speedup) {
  return {id, parent, id, Fate::kMeasured, speedup};
}
TreeEntry Ended(const std::string& id, const std::string& parent, Fate fate) {
  return {id, parent, id, fate, 0};
}

TEST_CASE("A tree shows who came from whom, the fastest descendants first", "[cli][tree]") {
  const SearchTree tree = MakeSearchTree(
      {Measured("a", "k_reference", 1.2), Measured("b", "k_reference", 1.1),
       Measured("c", "b", 2.5), Ended("d", "b", Fate::kPruned), Ended("e", "c", Fate::kFailed)},
      10);
  CHECK(TreeLines(tree, 100) == Lines{"reference",          //
                                      "├ b 1.10x",          //
                                      "│ ├ c 2.50x  best",  //
                                      "│ │ └ e failed",     //
                                      "│ └ d pruned",       //
                                      "└ a 1.20x"});
  CHECK(LineageText(tree, 5) == "reference > b 1.10x > c 2.50x");
  CHECK(tree.derived());
  CHECK(tree.nodes[0].descendants == 5);
}

TEST_CASE("Long trees fold, except the way to the best", "[cli][tree]") {
  std::vector<TreeEntry> entries = {Measured("a", "", 1.1), Measured("b", "a", 1.5),
                                    Measured("c", "b", 3)};
  for (int i = 0; i < 100; ++i) {
    entries.push_back(Ended("p" + std::to_string(i), "a", Fate::kPruned));
    entries.push_back(Measured("m" + std::to_string(i), "p" + std::to_string(i), 0.5));
  }
  const SearchTree tree = MakeSearchTree(entries, 2);
  CHECK(TreeLines(tree, 100) == Lines{"reference",            //
                                      "└ a 1.10x",            //
                                      "  ├ b 1.50x",          //
                                      "  │ └ c 3.00x  best",  //
                                      "  └ 100 measured, 100 pruned"});
}

TEST_CASE("Of several evaluations of a candidate the strongest stands", "[cli][tree]") {
  const SearchTree tree = MakeSearchTree(
      {Ended("a", "", Fate::kPruned), Measured("a", "", 2), Ended("a", "", Fate::kRejected)}, 10);
  CHECK(TreeLines(tree, 100) == Lines{"reference", "└ a 2.00x  best"});
  CHECK_FALSE(tree.derived());
}

TEST_CASE("Damaged records give a tree", "[cli][tree]") {
  const SearchTree tree =
      MakeSearchTree({Measured("a", "b", 1), Measured("b", "a", 2), Measured("c", "c", 3)}, 10);
  CHECK(tree.nodes[0].descendants == 3);
  CHECK(TreeLines(tree, 100).size() == 4);
  CHECK(TreeLines(MakeSearchTree({}, 10), 100) == Lines{"reference"});
}

TEST_CASE("A very deep tree takes little time", "[cli][tree]") {
  std::vector<TreeEntry> entries;
  for (int i = 0; i < 20'000; ++i) {
    entries.push_back(Measured("k" + std::to_string(i), "k" + std::to_string(i - 1), 1 + i * 1e-4));
  }
  const SearchTree tree = MakeSearchTree(entries, 50);
  CHECK(tree.nodes[0].descendants == 20'000);
  CHECK(tree.nodes[tree.best].depth == 20'000);
  CHECK(TreeLines(tree, 5).size() == 6);
  CHECK(LineageText(tree, 2) == "… > k19998 3.00x > k19999 3.00x");
}

TEST_CASE("The way to the best is in bold, and lines fit the terminal") {
  const SearchTree tree = MakeSearchTree({{"a", "", "first", TreeEntry::Fate::kMeasured, 1.5},
                                          {"b", "a", "second", TreeEntry::Fate::kMeasured, 2},
                                          {"c", "a", "third", TreeEntry::Fate::kMeasured, 1.2}},
                                         10);
  const Style style(true);
  CHECK(TreeLines(tree, 10, style) ==
        std::vector<std::string>{"reference", style.Bold("└ first 1.50x"),
                                 style.Bold("  ├ second 2.00x  best"), "  └ third 1.20x"});
  for (const std::string& line : TreeLines(tree, 10, style, 12)) CHECK(DisplayWidth(line) <= 12);
}

}  // namespace
}  // namespace kernelcast::cli
