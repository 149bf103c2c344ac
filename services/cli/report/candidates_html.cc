#include "services/cli/report/candidates_html.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cli/core/text.h"
#include "services/cli/report/charts.h"
#include "services/cli/report/html_parts.h"

namespace kernelcast::cli {
namespace {

// Cell for a candidate that has no speedup.
std::string FateCell(const ReportCandidate& candidate) {
  const std::string phrase = FailurePhrase(candidate);
  switch (FateOf(candidate)) {
    case Fate::kOk: return "";
    case Fate::kFailed: return absl::StrCat("<span class=bad>", Html(phrase), "</span>");
    case Fate::kUnstable: return absl::StrCat("<span class=muted>", Html(phrase), "</span>");
    case Fate::kPruned: return "<span class=muted>not measured</span>";
    case Fate::kRejected:
      return absl::StrCat("<span class=muted>", Html(phrase.empty() ? candidate.rejection : phrase),
                          "</span>");
  }
  return "";
}

std::string DecisionCell(const ReportInput& input, const ReportRow& row) {
  const ReportCandidate& candidate = input.candidates[row.standing];
  if (!candidate.decision.has_value()) return "";
  const Decision& decision = *candidate.decision;
  const std::string_view route = Name(RouteOf(candidate));
  std::string html = Chip(absl::StrCat("route ", std::string(route)), ReasonWord(decision.reason));
  if (candidate.forecast.has_value() && decision.kind != DecisionKind::kReject) {
    absl::StrAppend(&html, " <small>win ", FormatShare(decision.win_probability), "</small>");
  }
  bool pruned_before = false;
  for (const size_t i : row.others) {
    pruned_before = pruned_before || FateOf(input.candidates[i]) == Fate::kPruned;
  }
  if (pruned_before && FateOf(candidate) != Fate::kPruned) {
    html += " <small>pruned at first</small>";
  }
  return html;
}

std::string TableRow(const ReportInput& input, const ReportRow& row, bool folded, bool with_final) {
  const ReportCandidate& candidate = input.candidates[row.standing];
  std::string html = absl::StrCat(
      "<tr data-i=", row.standing, folded ? " class=fold" : "", "><td class=n>", row.standing + 1,
      "</td><td class=who><button type=button class=open aria-expanded=false>",
      Html(NameOf(candidate.candidate)), "</button> <small>", Html(TunablesOf(candidate.candidate)),
      "</small></td><td class=forecast>");
  if (candidate.forecast.has_value()) {
    absl::StrAppend(&html, BinHistogram(*candidate.forecast), "<small>",
                    candidate.forecast->basis == ForecastBasis::kPriorOnly
                        ? "unknown"
                        : Times(std::exp2(candidate.forecast->expected_log2_speedup)),
                    "</small>");
  }
  absl::StrAppend(&html, "</td><td>", DecisionCell(input, row), "</td>");
  if (with_final) {
    absl::StrAppend(&html, "<td class=figure data-label=final>",
                    row.final.has_value() ? SpeedupHtml(*row.final) : "", "</td>");
  }
  absl::StrAppend(&html, "<td class=figure data-label=screening>",
                  row.screening.has_value() ? SpeedupHtml(*row.screening) : FateCell(candidate),
                  "</td><td class=\"n device\">");
  if (const double seconds = DeviceSecondsOf(candidate); seconds > 0) {
    html += FormatTimeNs(seconds * 1e9);
  }
  return html + "</td></tr>";
}

}  // namespace

std::string CandidatesHtml(const ReportInput& input, const ReportAnalysis& analysis) {
  if (input.candidates.empty()) {
    return Section("candidates", "Candidates", "", Empty("No evaluation has been settled."));
  }
  const ReportCounts& counts = analysis.counts;
  const auto filter = [](std::string_view key, uint64_t count) {
    if (count == 0) return std::string();
    return absl::StrCat("<button type=button data-filter=", std::string(key), ">", Html(key),
                        " <b>", FormatCount(count), "</b></button>");
  };
  std::string body =
      "<div class=tools><input type=search id=find placeholder=\"Filter: name, "
      "tunable, id, failure…\" aria-label=\"Filter candidates\">";
  absl::StrAppend(&body, "<div class=filters>", filter("all", analysis.rows.size()),
                  filter("measured", counts.measured), filter("faster", counts.faster));
  for (const auto& [route, count] :
       {std::pair(Route::kSelected, counts.selected), std::pair(Route::kPromoted, counts.promoted),
        std::pair(Route::kDeferred, counts.deferred), std::pair(Route::kAudited, counts.audited),
        std::pair(Route::kBootstrap, counts.bootstrap)}) {
    body += filter(Name(route), count);
  }
  absl::StrAppend(&body, filter("pruned", counts.pruned), filter("failed", counts.failures),
                  filter("rejected", counts.rejected), "</div></div>");
  bool with_final = false;
  for (const ReportRow& row : analysis.rows) with_final = with_final || row.final.has_value();
  absl::StrAppend(
      &body,
      "<noscript><style>.fold{display:table-row!important}</style><p class=note>Sorting, filtering "
      "and the details of a candidate need the page's own script.</p></noscript><div "
      "class=scroll><table id=list class=list><thead><tr><th class=n><button type=button "
      "data-sort=sequence>#</button><th><button type=button "
      "data-sort=name>candidate</button><th><button type=button "
      "data-sort=forecast>forecast</button><th><button type=button "
      "data-sort=decision>decision</button>",
      with_final ? "<th><button type=button data-sort=final>final</button>" : "",
      "<th><button type=button data-sort=screening>screening</button><th class=n><button "
      "type=button data-sort=device>device time</button></tr></thead><tbody>");
  // Without a speedup to show, the failures are what there is.
  const bool any_speedup = std::ranges::any_of(
      analysis.rows, [](const ReportRow& row) { return row.speedup() != nullptr; });
  size_t shown = 0;
  size_t folded = 0;
  for (const ReportRow& row : analysis.rows) {
    const bool fold = shown >= kUnfoldedRows || (any_speedup && row.speedup() == nullptr);
    ++(fold ? folded : shown);
    body += TableRow(input, row, fold, with_final);
  }
  body += "</tbody></table></div><p class=note id=shown></p>";
  if (folded > 0) {
    absl::StrAppend(&body, "<button type=button id=more class=more hidden>Show ",
                    FormatCount(folded), " more: slower, failed, pruned and rejected ones",
                    "</button><p class=\"note printonly\">The first ", shown, " of ",
                    FormatCount(analysis.rows.size()),
                    " candidates; the page itself holds all.</p>");
  }
  return Section("candidates", "All candidates",
                 "Best first: by the final measurement where there is one, else by the screening. "
                 "The bars are the forecast over the bins of speedup, slow to fast, and P(failure) "
                 "in red. Open a row for its decision, facts, timings and source.",
                 body);
}

}  // namespace kernelcast::cli
