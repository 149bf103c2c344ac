#include "common/prompt/unified_diff.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast {
namespace {

using Catch::Matchers::Contains;

std::string Numbered(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

TEST_CASE("A changed line is shown with three lines of context", "[prompt][diff]") {
  const std::string before = Numbered(0, 10);
  std::string after = before;
  after.replace(after.find("line 5"), 6, "line five");
  const UnifiedDiff diff = MakeUnifiedDiff(before, after, 1000);
  CHECK(diff.text ==
        "@@ -3,7 +3,7 @@\n line 2\n line 3\n line 4\n-line 5\n+line five\n line 6\n line 7\n"
        " line 8\n");
  CHECK(diff.removed == 1);
  CHECK(diff.added == 1);
  CHECK(diff.cut_lines == 0);
}

TEST_CASE("Insertions and deletions name the line before them", "[prompt][diff]") {
  CHECK(MakeUnifiedDiff("", "a\nb\n", 1000).text == "@@ -0,0 +1,2 @@\n+a\n+b\n");
  CHECK(MakeUnifiedDiff("a\n", "", 1000).text == "@@ -1 +0,0 @@\n-a\n");
  CHECK(MakeUnifiedDiff("a\nb\n", "a\nx\nb\n", 1000).text == "@@ -1,2 +1,3 @@\n a\n+x\n b\n");
}

TEST_CASE("Changes that are far apart are separate hunks", "[prompt][diff]") {
  const std::string before = Numbered(0, 30);
  std::string after = "first\n" + before;
  after.erase(after.find("line 25\n"), 8);
  const UnifiedDiff diff = MakeUnifiedDiff(before, after, 1000);
  CHECK(
      diff.text ==
      "@@ -1,3 +1,4 @@\n+first\n line 0\n line 1\n line 2\n"
      "@@ -23,7 +24,6 @@\n line 22\n line 23\n line 24\n-line 25\n line 26\n line 27\n line 28\n");
  // Six unchanged lines between changes are shown within one hunk.
  std::string near = before;
  near.replace(near.find("line 5\n"), 6, "five");
  near.replace(near.find("line 12\n"), 7, "twelve");
  const std::string text = MakeUnifiedDiff(before, near, 1000).text;
  CHECK(text.find("@@", 5) == text.rfind("@@"));
}

TEST_CASE("Texts with the same lines have no difference", "[prompt][diff]") {
  CHECK(MakeUnifiedDiff("a\nb\n", "a  \r\nb", 1000).text.empty());
  CHECK(MakeUnifiedDiff("", "", 1000).text.empty());
}

TEST_CASE("A long difference is cut after a whole line", "[prompt][diff]") {
  const UnifiedDiff diff = MakeUnifiedDiff("", Numbered(0, 100), 50);
  CHECK(diff.text == "@@ -0,0 +1,100 @@\n+line 0\n+line 1\n+line 2\n+line 3\n");
  CHECK(diff.added == 100);
  CHECK(diff.cut_lines == 96);
}

TEST_CASE("Very different texts are replaced as a whole", "[prompt][diff]") {
  const UnifiedDiff diff = MakeUnifiedDiff("same\n" + Numbered(0, 900) + "end\n",
                                           "same\n" + Numbered(1000, 1900) + "end\n", 1 << 20);
  CHECK(diff.removed == 900);
  CHECK(diff.added == 900);
  CHECK_THAT(diff.text, Contains("@@ -1,902 +1,902 @@\n same\n-line 0\n"));
}

}  // namespace
}  // namespace kernelcast
