#include "services/orchestrator/status/status_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "common/base/version.h"
#include "common/domain/decision.h"

namespace kernelcast::orchestrator {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int kBarWidth = 110;

// Routes that are drawn, in drawing order.
constexpr std::array kDrawn = {Route::kSelected,   Route::kPromoted,  Route::kDeferred,
                               Route::kAudited,    Route::kBootstrap, Route::kRequested,
                               Route::kUnforecast, Route::kReused,    Route::kPruned,
                               Route::kRejected,   Route::kDuplicate};
using Routes = std::map<Route, uint64_t>;

uint64_t Total(const Routes& routes) {
  uint64_t total = 0;
  for (const auto& [route, count] : routes) total += count;
  return total;
}

uint64_t CountOf(const Routes& routes, Route route) {
  const auto found = routes.find(route);
  return found == routes.end() ? 0 : found->second;
}

Routes RoutesOf(const std::map<DecisionReason, uint64_t>& decisions) {
  Routes routes;
  for (const auto& [reason, count] : decisions) routes[RouteOf(reason)] += count;
  return routes;
}

Routes RoutesOf(const SearchCounts& counts) {
  return {{Route::kSelected, counts.selected},     {Route::kPromoted, counts.promoted},
          {Route::kDeferred, counts.deferred},     {Route::kAudited, counts.audited},
          {Route::kBootstrap, counts.bootstrap},   {Route::kRequested, counts.requested},
          {Route::kUnforecast, counts.unforecast}, {Route::kPruned, counts.pruned},
          {Route::kRejected, counts.rejected}};
}

absl::string_view NameOf(Route route) {
  const std::string_view name = Name(route);
  return {name.data(), name.size()};
}

std::string Percent(double share) { return absl::StrFormat("%.1f%%", 100 * share); }

std::string Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? "–" : Percent(static_cast<double>(part) / static_cast<double>(whole));
}

std::string Duration(int64_t ns) {
  const int64_t seconds = std::max<int64_t>(ns, 0) / kSecondNs;
  if (seconds < 60) return absl::StrCat(seconds, " s");
  if (seconds < 3600) return absl::StrCat(seconds / 60, " min ", seconds % 60, " s");
  if (seconds < 86400) return absl::StrCat(seconds / 3600, " h ", seconds % 3600 / 60, " min");
  return absl::StrCat(seconds / 86400, " d ", seconds % 86400 / 3600, " h");
}

const char* NameOf(Stage stage) {
  switch (stage) {
    case Stage::kCompile: return "compile";
    case Stage::kForecast: return "forecast";
    case Stage::kDecide: return "decide";
    case Stage::kMeasure: return "measure";
  }
  return "";
}

const char* NameOf(SearchStatus status) {
  switch (status) {
    case SearchStatus::kRunning: return "running";
    case SearchStatus::kFinishing: return "confirming";
    case SearchStatus::kDone: return "done";
    case SearchStatus::kFailed: return "failed";
  }
  return "";
}

std::string Bar(const Routes& routes) {
  const uint64_t total = Total(routes);
  if (total == 0) return "";
  std::string label;
  std::string parts;
  uint64_t before = 0;
  for (const Route route : kDrawn) {
    const uint64_t count = CountOf(routes, route);
    if (count == 0) continue;
    const auto at = [total](uint64_t part) {
      return kBarWidth * static_cast<double>(part) / static_cast<double>(total);
    };
    absl::StrAppend(&parts, absl::StrFormat("<rect class=\"%s\" x=\"%.2f\" y=\"0\" width=\"%.2f\" "
                                            "height=\"12\"/>",
                                            NameOf(route), at(before), at(count)));
    absl::StrAppend(&label, label.empty() ? "" : ", ", count, " ", NameOf(route));
    before += count;
  }
  return absl::StrCat("<svg role=\"img\" width=\"", kBarWidth, "\" height=\"12\"><title>", label,
                      "</title>", parts, "</svg>");
}

// A table built row by row. Cells are HTML.
class Table {
 public:
  struct Column {
    const char* title;
    const char* kind = "";  // "number" or "text"
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {
    html_ = "<div class=\"scroll\"><table><thead><tr>";
    for (const Column& column : columns_) {
      absl::StrAppend(&html_, "<th class=\"", column.kind, "\">", column.title, "</th>");
    }
    html_ += "</tr></thead><tbody>\n";
  }
  void Row(const std::vector<std::string>& cells) {
    html_ += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i) {
      absl::StrAppend(&html_, "<td class=\"", columns_[i].kind, "\">", cells[i], "</td>");
    }
    html_ += "</tr>\n";
  }
  std::string End() { return html_ + "</tbody></table></div>\n"; }

 private:
  std::vector<Column> columns_;
  std::string html_;
};

std::string Gibibytes(uint64_t bytes) {
  return absl::StrFormat("%.1f GiB", std::ldexp(static_cast<double>(bytes), -30));
}

std::string Tile(const std::string& title, const std::string& value, const std::string& note = "") {
  return absl::StrCat("<div class=\"tile\"><span class=\"faint\">", title, "</span><b>", value,
                      "</b><span class=\"faint\">", note, "</span></div>\n");
}

std::string BestCell(const Ratio& best) {
  if (best.value <= 0) return "–";
  return absl::StrFormat("<b>%.2fx</b> <span class=\"faint\">[%.2f, %.2f]</span>", best.value,
                         best.low, best.high);
}

std::string RiskCell(const RiskReport& risk) {
  const SelectiveRisk& selective = risk.selective_risk;
  if (selective.labels == 0) return "–";
  // With only a few audits the estimate alone would mislead.
  if (selective.low <= 0 && selective.high >= 1) {
    return absl::StrCat("<span class=\"faint\">not known yet, of ", Percent(risk.options.alpha),
                        "</span>");
  }
  const bool above = selective.low > risk.options.alpha;
  return absl::StrCat("<span class=\"", above ? "bad" : "", "\">", Percent(selective.estimate),
                      "</span> <span class=\"faint\">[", Percent(selective.low), ", ",
                      Percent(selective.high), "] of ", Percent(risk.options.alpha), "</span>");
}

std::string Searches(const std::vector<EngineOverview::SearchFigures>& searches, int64_t now_ns) {
  Table table({{"Search"},
               {"Status", "text"},
               {"Best"},
               {"Decided", "number"},
               {"Routes"},
               {"Defer rate", "number"},
               {"Pruned", "number"},
               {"Measured", "number"},
               {"Selective risk"},
               {"Device time", "number"},
               {"Age", "number"}});
  for (const EngineOverview::SearchFigures& search : searches) {
    const SearchCounts& counts = search.counts;
    const std::string id = EscapedForPage(search.search_id);
    std::string status = absl::StrCat(
        "<span class=\"", search.status == SearchStatus::kFailed ? "bad" : "", "\">",
        NameOf(search.status), "</span> <span class=\"faint\">", EscapedForPage(search.end_reason),
        "<br>", EscapedForPage(search.policy), "</span>");
    table.Row(
        {absl::StrCat("<span class=\"id\" title=\"", id, "\">", id,
                      "</span><br><span class=\"faint\">", EscapedForPage(search.problem_name),
                      ", ", EscapedForPage(search.target), "</span>"),
         status, BestCell(search.best), absl::StrCat(counts.decided()), Bar(RoutesOf(counts)),
         Share(counts.deferred, counts.decided()), Share(counts.pruned, counts.decided()),
         absl::StrCat(counts.measured), RiskCell(search.risk),
         absl::StrCat(Duration(counts.device_time_spent_ns), "<br><span class=\"faint\">",
                      Duration(counts.device_time_avoided_ns), " avoided</span>"),
         Duration(now_ns - (search.ended_ns == 0 ? search.started_ns : search.ended_ns))});
  }
  return table.End();
}

std::string Peers(const StatusPeers& peers) {
  Table table(
      {{"Service"}, {"Address", "text"}, {"State", "text"}, {"Name", "text"}, {"Targets", "text"}});
  const auto add = [&table](const char* kind, const StatusPeer& peer) {
    std::string state = "<span class=\"good\">ready</span>";
    if (peer.left_out) state = "<span class=\"bad\">left out</span>";
    if (peer.draining) state = "draining";
    if (!peer.healthy) {
      state = absl::StrCat("<span class=\"bad\">away</span> <span class=\"faint\">",
                           EscapedForPage(peer.reason), "</span>");
    }
    std::vector<std::string> targets;
    for (const std::string& target : peer.targets) targets.push_back(EscapedForPage(target));
    table.Row({kind, EscapedForPage(peer.address), state, EscapedForPage(peer.name),
               absl::StrJoin(targets, "<br>")});
  };
  std::string more;
  const auto add_all = [&](const char* kind, const std::vector<StatusPeer>& all) {
    const size_t shown = std::min(all.size(), kMaxPeers);
    for (size_t i = 0; i < shown; ++i) add(kind, all[i]);
    if (shown < all.size()) {
      absl::StrAppend(&more, "<p class=\"faint\">and ", all.size() - shown, " more ", kind,
                      "s</p>\n");
    }
  };
  add_all("forecaster", peers.forecasters);
  add_all("worker", peers.workers);
  std::string html = table.End() + more;
  return html;
}

std::string Queues(const StatusView& view, int64_t now_ns) {
  if (view.queues.empty()) return "<p class=\"faint\">Nothing waits.</p>\n";
  Table table({{"Target"}, {"Waits for"}, {"Candidates", "number"}, {"Oldest", "number"}});
  const size_t shown = std::min(view.queues.size(), kMaxPeers);
  for (size_t i = 0; i < shown; ++i) {
    const EngineOverview::Queue& queue = view.queues[i];
    table.Row({EscapedForPage(queue.target), NameOf(queue.stage), absl::StrCat(queue.depth),
               Duration(now_ns - queue.oldest_accepted_ns)});
  }
  return table.End();
}

std::string DecisionsByTarget(const StatusView& view) {
  std::string html = "<p>";
  for (const Route route : kDrawn) {
    absl::StrAppend(&html, "<span class=\"key ", NameOf(route), "\"></span>", NameOf(route));
  }
  html += "</p>\n";
  Table table({{"Target"},
               {"Decisions", "number"},
               {"Routes"},
               {"Defer rate", "number"},
               {"Pruned", "number"},
               {"Reasons", "text"}});
  for (const auto& [target, decisions] : view.decisions) {
    const Routes routes = RoutesOf(decisions);
    const uint64_t total = Total(routes);
    const auto found = view.candidates.find(target);
    const uint64_t candidates = found == view.candidates.end() ? 0 : found->second;
    std::vector<std::string> reasons;
    for (const auto& [reason, count] : decisions) {
      const std::string_view name = Name(reason);
      reasons.push_back(absl::StrCat(AbslView(name), "&nbsp;", count));
    }
    table.Row({EscapedForPage(target), absl::StrCat(total), Bar(routes),
               Share(CountOf(routes, Route::kDeferred), candidates),
               Share(CountOf(routes, Route::kPruned), total), absl::StrJoin(reasons, ", ")});
  }
  return html + table.End();
}

}  // namespace

std::string EscapedForPage(std::string_view text) {
  std::string escaped;
  const std::string valid = SanitizeUtf8(TruncateUtf8(text, kMaxTextBytes));
  for (const char c : valid) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      case '\0': escaped += "\xEF\xBF\xBD"; break;
      default: escaped += c;
    }
  }
  if (text.size() > kMaxTextBytes) escaped += "…";
  return escaped;
}

std::string RenderStatusPage(const StatusView& view, const StatusPeers& peers, int64_t now_ns,
                             const std::optional<LogDisk>& disk, bool log_in_database,
                             const std::string& history_page) {
  Routes routes;
  for (const auto& [target, decisions] : view.decisions) {
    for (const auto& [route, count] : RoutesOf(decisions)) routes[route] += count;
  }
  const uint64_t decided = Total(routes);
  uint64_t candidates = 0;
  for (const auto& [target, count] : view.candidates) candidates += count;
  const auto ready = std::count_if(peers.workers.begin(), peers.workers.end(),
                                   [](const StatusPeer& worker) { return worker.healthy; });

  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta http-equiv=\"refresh\" content=\"5\"><title>Kernelcast orchestrator</title>"
      "<link rel=\"stylesheet\" href=\"style.css\"></head><body>\n<h1>Kernelcast "
      "orchestrator</h1>\n"
      "<p class=\"faint\">version ",
      EscapedForPage(Version()), ", revision ", EscapedForPage(Revision()), ", ",
      view.overview_ns == 0
          ? std::string("starting")
          : absl::StrCat("as of ", Duration(now_ns - view.overview_ns), " ago, updated every 5 s"),
      "</p>\n");
  if (!history_page.empty()) {
    absl::StrAppend(&html, "<p><a href=\"", EscapedForPage(history_page),
                    "\">History of all searches and suites</a></p>\n");
  }
  if (disk && disk->low()) {
    absl::StrAppend(&html, "<p class=\"bad\">The disk with the event log is nearly full: ",
                    Gibibytes(disk->free_bytes), " of ", Gibibytes(disk->total_bytes),
                    " are free.");
    if (disk->full_in_ns) {
      absl::StrAppend(&html, " At the pace of the last hour, the log fills it in ",
                      Duration(*disk->full_in_ns), ".");
    }
    absl::StrAppend(&html, " When it is full, the orchestrator stops.</p>\n");
  }
  absl::StrAppend(&html, "<div class=\"tiles\">\n");
  absl::StrAppend(
      &html,
      Tile("Defer rate", Share(CountOf(routes, Route::kDeferred), candidates),
           "of candidates since start"),
      Tile("Pruned", Share(CountOf(routes, Route::kPruned), decided), "settled without a device"),
      Tile("Searches", absl::StrCat(view.figures.running_searches), "running"),
      Tile("Candidates", absl::StrCat(view.figures.live_evaluations), "in flight"),
      Tile("Workers",
           absl::StrCat("<span class=\"", ready == 0 ? "bad" : "", "\">", ready, "</span>"),
           absl::StrCat("ready of ", peers.workers.size())),
      Tile("Labels", absl::StrCat(view.figures.pending_labels), "not yet with the forecaster"),
      Tile("Events", absl::StrCat(view.figures.events), "in the log"));
  if (disk) {
    std::string note = absl::StrCat("free of ", Gibibytes(disk->total_bytes));
    if (disk->full_in_ns) absl::StrAppend(&note, ", for ", Duration(*disk->full_in_ns));
    absl::StrAppend(&html, Tile("Disk",
                                absl::StrCat("<span class=\"", disk->low() ? "bad" : "", "\">",
                                             Gibibytes(disk->free_bytes), "</span>"),
                                note));
  } else if (log_in_database) {
    absl::StrAppend(&html, Tile("Disk", "–", "of the database: not visible from here"));
  }
  absl::StrAppend(&html, "</div>\n");
  absl::StrAppend(&html, "<h2>Decisions since start</h2>\n", DecisionsByTarget(view));
  absl::StrAppend(
      &html, "<h2>Searches that run</h2>\n",
      view.running.empty() ? "<p class=\"faint\">None.</p>\n" : Searches(view.running, now_ns));
  if (view.running_left_out > 0) {
    absl::StrAppend(&html, "<p class=\"faint\">and ", view.running_left_out, " more</p>\n");
  }
  absl::StrAppend(
      &html, "<h2>Searches that ended last</h2>\n",
      view.ended.empty() ? "<p class=\"faint\">None.</p>\n" : Searches(view.ended, now_ns));
  absl::StrAppend(&html, "<h2>Queue</h2>\n", Queues(view, now_ns));
  absl::StrAppend(&html, "<h2>Services</h2>\n", Peers(peers), "</body></html>\n");
  return html;
}

}  // namespace kernelcast::orchestrator
