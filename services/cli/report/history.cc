#include "services/cli/report/history.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"
#include "services/cli/core/text.h"
#include "services/cli/report/assets.h"
#include "services/cli/report/gate_text.h"
#include "services/cli/report/html_parts.h"
#include "services/cli/report/search_json.h"

namespace kernelcast::cli {
namespace {

constexpr int64_t kNsPerMillisecond = 1'000'000;

// Percent-encoded for the query of a URL.
std::string UrlEncoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (plain) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += '%';
    encoded += kDigits[byte >> 4];
    encoded += kDigits[byte & 15];
  }
  return encoded;
}

std::string StateChip(std::string_view state) {
  const bool runs = state == "running" || state == "finishing";
  return Chip(runs ? "good" : state == "done" ? "" : "warn", state);
}

// A cell that is sorted by another value than its text.
std::string SortedCell(const std::string& value, const std::string& html) {
  return absl::StrCat("<td class=n data-v=\"", value, "\">", html, "</td>");
}

std::string HistoryRowHtml(const HistoryRow& row) {
  const std::string kind(Name(row.kind));
  const char* const path =
      row.kind == HistoryKind::kSearch ? kHistorySearchPath : kHistorySuitePath;
  std::string started = FormatUtc(row.started_ns);
  std::string html = absl::StrCat(
      "<tr data-key=\"", Html(KeyOf(row.kind, row.id)), "\" data-kind=", kind, " data-state=\"",
      Html(row.state), "\"><td><input type=checkbox aria-label=\"compare ", Html(row.id),
      "\"></td><td class=name><a href=\"", path, "?id=", UrlEncoded(row.id), "\">",
      Html(row.name.empty() ? "-" : row.name), "</a> <small>", Html(row.note), "</small></td><td>",
      kind, "</td><td>", Html(row.target), " <small>", Html(row.device_model), "</small></td>");
  html += SortedCell(absl::StrCat(row.started_ns / kNsPerMillisecond), Html(started));
  absl::StrAppend(&html, "<td>", StateChip(row.state), " <small>", Html(row.reason),
                  "</small></td>");
  html += SortedCell(absl::StrCat(row.candidates), FormatCount(row.candidates));
  html += SortedCell(absl::StrCat(row.measured), FormatCount(row.measured));
  std::string best = row.best ? SpeedupHtml(*row.best) : "";
  if (row.mean.tasks > 1) {
    absl::StrAppend(&best, "<br><small>mean ",
                    Html(FormatSpeedup(Ratio{
                        .value = row.mean.value, .low = row.mean.low, .high = row.mean.high})),
                    " of ", FormatCount(row.mean.tasks), " tasks</small>");
  }
  html += SortedCell(row.best ? FormatFixed(row.best->value, 6) : "0", best);
  return html + "</tr>\n";
}

std::string FilterButtons(const char* what, const std::map<std::string, size_t>& counts) {
  std::string html = absl::StrCat("<div class=filters data-filters=", what, ">");
  for (const auto& [value, count] : counts) {
    absl::StrAppend(&html, "<button type=button data-value=\"", Html(value), "\">", Html(value),
                    " <b>", FormatCount(count), "</b></button>");
  }
  return html + "</div>";
}

}  // namespace

std::string_view Name(HistoryKind kind) {
  return kind == HistoryKind::kSearch ? "search" : "suite";
}

std::string KeyOf(HistoryKind kind, std::string_view id) {
  return absl::StrCat(std::string(Name(kind)), ":", std::string(id));
}

std::optional<Ratio> BestSpeedupOf(const v1::Search& search) {
  const v1::Incumbent& best =
      search.has_confirmed_best() ? search.confirmed_best() : search.incumbent();
  if (!best.measurement().has_ok() || NothingCarriesOver(search)) return std::nullopt;
  return FromProto(best.measurement().ok().speedup());
}

HistoryRow HistoryRowOf(const v1::Search& search) {
  HistoryRow row;
  row.kind = HistoryKind::kSearch;
  row.id = search.search_id();
  row.name = search.problem_name();
  row.note = search.search_id();
  row.target = search.spec().target();
  row.device_model = search.device_model();
  row.started_ns = ToNanoseconds(search.started_at());
  row.state = StatusName(search.status());
  row.reason = search.has_waiting() ? absl::StrCat("waits: ", search.waiting().reason())
                                    : search.end_reason();
  row.candidates = search.counts().considered();
  row.measured = search.counts().measured();
  row.best = BestSpeedupOf(search);
  return row;
}

HistoryRow HistoryRowOf(const SuiteInput& suite) {
  HistoryRow row;
  row.kind = HistoryKind::kSuite;
  row.name = suite.title;
  for (const SuiteTaskInfo& task : suite.tasks) row.candidates += task.candidates.size();
  std::set<std::string> targets;
  std::set<std::string> models;
  std::map<std::string, std::vector<JudgedSpeedup>> tasks;
  uint64_t judged = 0;
  for (const SuiteRow& one : suite.rows) {
    const SuiteVerdict verdict = VerdictOf(one);
    if (!IsOpen(verdict)) ++judged;
    if (!one.target.empty()) targets.insert(one.target);
    if (!one.device_model.empty()) models.insert(one.device_model);
    const Ratio* const speedup = SpeedupOf(one);
    if (speedup != nullptr) {
      tasks[one.task].push_back({IsCorrect(verdict), *speedup});
      if (!row.best || row.best->value < speedup->value) row.best = *speedup;
    }
    if (!one.judged) continue;
    row.measured += one.judged->measurement ? 1 : 0;
    const int64_t accepted_ns = one.judged->accepted_ns;
    if (accepted_ns > 0 && (row.started_ns == 0 || accepted_ns < row.started_ns)) {
      row.started_ns = accepted_ns;
    }
  }
  row.target = Join({targets.begin(), targets.end()}, ", ");
  row.device_model = Join({models.begin(), models.end()}, ", ");
  JudgedTasks speedups;
  for (auto& [name, of_task] : tasks) speedups.push_back(std::move(of_task));
  row.mean = MeanSpeedupOf(speedups);
  row.state = judged == row.candidates ? "done" : "incomplete";
  if (judged < row.candidates) {
    row.reason = absl::StrCat(FormatCount(row.candidates - judged), " not judged");
  }
  return row;
}

std::string HistoryLinks() {
  return absl::StrCat("<a href=\"", kHistoryPath, "\">all searches and suites</a>");
}

std::string HistoryCompareLink(std::string_view before, std::string_view after) {
  return absl::StrCat("<a href=\"", kHistoryComparePath, "?before=", UrlEncoded(before),
                      "&amp;after=", UrlEncoded(after), "\">the other way round</a>");
}

std::string HistoryHtml(std::vector<HistoryRow> rows, const std::vector<std::string>& notices,
                        const std::string& status_page) {
  std::ranges::stable_sort(rows, std::greater<>(), &HistoryRow::started_ns);
  std::map<std::string, size_t> kinds;
  std::map<std::string, size_t> states;
  std::string body;
  for (const HistoryRow& row : rows) {
    ++kinds[std::string(Name(row.kind))];
    ++states[row.state];
    body += HistoryRowHtml(row);
  }
  std::string page = PageStart("History · Kernelcast", "all searches and suites",
                               status_page.empty() ? ""
                                                   : absl::StrCat("<a href=\"", Html(status_page),
                                                                  "\">status of the services</a>"),
                               HistoryScript());
  page += "<section class=panel><h2>History</h2>";
  for (const std::string& notice : notices) {
    absl::StrAppend(&page, "<p class=\"note bad\">", Html(notice), "</p>");
  }
  if (rows.empty()) {
    page += Empty("No search and no suite yet.");
  } else {
    constexpr std::array kColumns = {"name",  "kind",       "target",   "started",
                                     "state", "candidates", "measured", "best speedup"};
    absl::StrAppend(
        &page,
        "<p class=note>A name opens the report, as of now. Choose two rows to compare them.</p>"
        "<div class=tools><input id=find type=search placeholder=\"filter by text\" "
        "aria-label=\"filter by text\">",
        FilterButtons("kind", kinds), FilterButtons("state", states),
        "<a id=compare aria-disabled=true>compare two</a> <small id=shown></small></div>"
        "<div class=scroll><table id=history class=\"plain history\"><thead><tr><th></th>");
    for (size_t i = 0; i < kColumns.size(); ++i) {
      absl::StrAppend(&page, i == 3 || i > 4 ? "<th class=n>" : "<th>", "<button type=button>",
                      kColumns[i], "</button></th>");
    }
    absl::StrAppend(&page, "</tr></thead><tbody>\n", body, "</tbody></table></div>");
  }
  absl::StrAppend(&page, "</section></main><script>", std::string(HistoryScript()),
                  "</script></body></html>\n");
  return page;
}

std::string HistoryFailureHtml(std::string_view message) {
  return absl::StrCat(PageStart("Kernelcast", "history", HistoryLinks()),
                      Section("failure", "This page cannot be shown", "",
                              absl::StrCat("<p class=about>", Html(message), "</p>")),
                      "</main></body></html>\n");
}

}  // namespace kernelcast::cli
