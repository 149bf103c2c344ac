#include "services/cli/report/tree_html.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli {
namespace {

using Catch::Matchers::Contains;

ReportCandidate Child(ReportCandidate candidate, const std::string& parent) {
  candidate.candidate.parent_candidate_id = parent;
  candidate.candidate.name = candidate.candidate.candidate_id;
  return candidate;
}

std::string Rendered(const ReportInput& input) { return TreeHtml(input, Analyze(input)); }

TEST_CASE("The report shows who came from whom and how it ended", "[cli][report][tree]") {
  ReportInput input;
  input.candidates = {Child(MeasuredCandidate("a", 1.5), ""),
                      Child(MeasuredCandidate("b", 2.5), "a"), Child(PrunedCandidate("c<i>"), "a")};
  const std::string html = Rendered(input);
  CHECK_THAT(html, Contains("<summary>a a 1.50x</summary><ul><li><b>b b 2.50x</b>") &&
                       Contains("c&lt;i&gt; c&lt;i&gt; pruned"));
  CHECK_THAT(html, !Contains("c<i>"));
}

TEST_CASE("Without derived candidates there is no tree", "[cli][report][tree]") {
  ReportInput input;
  CHECK(Rendered(input).empty());
  input.candidates = {Child(MeasuredCandidate("a", 1.5), "k_reference"),
                      Child(PrunedCandidate("b"), "k_reference")};
  CHECK(Rendered(input).empty());
}

TEST_CASE("A large tree folds and stays small", "[cli][report][tree]") {
  ReportInput input;
  input.candidates = {Child(MeasuredCandidate("a", 1.5), ""),
                      Child(MeasuredCandidate("b", 2.5), "a")};
  for (int i = 0; i < 5000; ++i) {
    input.candidates.push_back(
        Child(PrunedCandidate("p" + std::to_string(i)), i % 2 == 0 ? "a" : "b"));
  }
  const std::string html = Rendered(input);
  CHECK_THAT(html, Contains("<b>b b 2.50x</b>") && Contains("pruned</summary>") &&
                       Contains(" more</ul></details>"));
  CHECK(html.size() < 100'000);
}

TEST_CASE("A deep tree does not nest without end", "[cli][report][tree]") {
  ReportInput input;
  for (int i = 0; i < 300; ++i) {
    input.candidates.push_back(Child(MeasuredCandidate("k" + std::to_string(i), 1 + 0.01 * i),
                                     i == 0 ? "" : "k" + std::to_string(i - 1)));
  }
  const std::string html = Rendered(input);
  size_t nested = 0;
  size_t most = 0;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    if (html.compare(at, 4, "<ul>") == 0) most = std::max(most, ++nested);
    if (html.compare(at, 5, "</ul>") == 0) --nested;
  }
  CHECK(nested == 0);
  CHECK(most < 60);
  CHECK_THAT(html, Contains("<b>k299 k299 3.99x</b>"));
}

}  // namespace
}  // namespace kernelcast::cli
