#include "services/orchestrator/status/status_page.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/domain/route_palette.h"

namespace kernelcast::orchestrator {
namespace {

using Catch::Matchers::Contains;

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr char kHostile[] = "<script>alert('1')</script>\"&\xFF";
constexpr char kHarmless[] =
    "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;\xEF\xBF\xBD";

EngineOverview::SearchFigures SomeSearch() {
  EngineOverview::SearchFigures search;
  search.search_id = "s-1";
  search.problem_name = "row_softmax";
  search.target = "cpu";
  search.policy = "threshold";
  search.started_ns = 10 * kSecondNs;
  search.counts.deferred = 20;
  search.counts.promoted = 10;
  search.counts.audited = 4;
  search.counts.pruned = 150;
  search.counts.rejected = 6;
  search.counts.selected = 10;
  search.counts.measured = 44;
  search.counts.device_time_spent_ns = 61 * kSecondNs;
  search.best = {1.75, 1.74, 1.76, 0.95};
  search.risk.selective_risk = {0.02, 0.005, 0.06, 150, 30};
  return search;
}

StatusPeers SomePeers() {
  StatusPeers peers;
  peers.forecasters = {{"f:1", true, false, false, "", "", {}}};
  peers.workers = {{"w:1", true, false, false, "", "worker-1", {"cuda on NVIDIA H200"}},
                   {"w:2", false, false, false, "connection refused", "", {}},
                   {"w:3", true, true, false, "", "", {}}};
  return peers;
}

// Tags open and close in order, the only thing an HTML parser could reject here.
bool TagsMatch(const std::string& html) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find(' '));
    if (name == "!doctype" || name == "meta" || name == "link" || name == "br") continue;
    if (tag.back() == '/') continue;
    if (name[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

TEST_CASE("A page shows a search's state, its candidates' routes and its workers",
          "[orchestrator][status]") {
  StatusView view;
  view.overview_ns = 130 * kSecondNs;
  view.figures.running_searches = 1;
  view.figures.live_evaluations = 17;
  view.running = {SomeSearch()};
  view.queues = {{"cpu", Stage::kMeasure, 3, 100 * kSecondNs}};
  view.candidates["cpu"] = 100;
  view.decisions["cpu"] = {{DecisionReason::kLowConfidence, 25},
                           {DecisionReason::kUnpromising, 60},
                           {DecisionReason::kCompileError, 15}};
  const std::string html = RenderStatusPage(view, SomePeers(), 131 * kSecondNs);
  CHECK(TagsMatch(html));
  for (const char* part : {
           "Defer rate</span><b>25.0%</b>",
           "Pruned</span><b>60.0%</b>",
           "<b>17</b>",
           "s-1",
           "row_softmax",
           "<b>1.75x</b> <span class=\"faint\">[1.74, 1.76]</span>",
           "10.0%",  // the search's defer rate
           "75.0%",  // and its prune rate
           "2.0%</span> <span class=\"faint\">[0.5%, 6.0%] of 5.0%",
           "10 selected, 10 promoted, 20 deferred, 4 audited, 150 pruned, 6 rejected",
           "<td class=\"number\">1 min 1 s<br><span class=\"faint\">0 s avoided</span></td>",
           "<td class=\"number\">2 min 1 s</td>",
           "low_confidence&nbsp;25",
           "<td class=\"\">measure</td><td class=\"number\">3</td>",
           "<td class=\"number\">31 s</td>",
           "cuda on NVIDIA H200",
           "connection refused",
           "draining",
           "ready of 3",
       }) {
    CHECK_THAT(html, Contains(part));
  }
  CHECK_THAT(html, !Contains("class=\"bad\">2.0%"));
}

TEST_CASE("The page links to a history page", "[orchestrator][status]") {
  CHECK_THAT(RenderStatusPage({}, {}, 0, std::nullopt, false, "http://127.0.0.1:1/history?a&b"),
             Contains("<a href=\"http://127.0.0.1:1/history?a&amp;b\">"));
  CHECK_THAT(RenderStatusPage({}, {}, 0), !Contains("istory"));
}

TEST_CASE("An unknown risk is not shown", "[orchestrator][status]") {
  StatusView view;
  view.running = {SomeSearch()};
  view.running[0].risk.selective_risk = {1, 0, 1, 150, 2};
  CHECK_THAT(RenderStatusPage(view, {}, 0), Contains("not known yet, of 5.0%"));
  view.running[0].risk.selective_risk.labels = 0;
  CHECK_THAT(RenderStatusPage(view, {}, 0), !Contains("of 5.0%"));
}

TEST_CASE("A disk that is nearly full is a warning", "[orchestrator][status]") {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  const auto page = [](const LogDisk& disk) { return RenderStatusPage({}, {}, 0, disk); };
  const std::string full = page({100 * kGib, 9 * kGib});
  CHECK_THAT(full, Contains("nearly full: 9.0 GiB of 100.0 GiB are free"));
  CHECK_THAT(full, Contains("<span class=\"bad\">9.0 GiB</span>"));
  CHECK(TagsMatch(full));
  CHECK_THAT(page({100 * kGib, 11 * kGib}), !Contains("nearly full"));
  CHECK_THAT(page({100 * kGib, 11 * kGib}), Contains("11.0 GiB"));
  // A small share of a large disk.
  CHECK_THAT(page({1000 * kGib, 30 * kGib}), !Contains("nearly full"));
  CHECK_THAT(page({1000 * kGib, 19 * kGib}), Contains("nearly full"));
  CHECK_THAT(RenderStatusPage({}, {}, 0), !Contains("GiB"));
}

TEST_CASE("A disk that the log fills within a day is a warning", "[orchestrator][status]") {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  const auto page = [](int64_t full_in_s) {
    return RenderStatusPage({}, {}, 0, LogDisk{100 * kGib, 20 * kGib, full_in_s * kSecondNs});
  };
  const std::string soon = page(23 * 3600);
  CHECK_THAT(soon, Contains("At the pace of the last hour, the log fills it in 23 h 0 min."));
  CHECK(TagsMatch(soon));
  const std::string later = page(35 * 3600);
  CHECK_THAT(later, Contains("free of 100.0 GiB, for 1 d 11 h"));
  CHECK_THAT(later, !Contains("nearly full"));
}

TEST_CASE("The page says that it cannot see the disk of a database", "[orchestrator][status]") {
  CHECK_THAT(RenderStatusPage({}, {}, 0, std::nullopt, /*log_in_database=*/true),
             Contains("of the database: not visible from here"));
}

TEST_CASE("The growth of the log is its mean over the last hour", "[orchestrator][status]") {
  constexpr int64_t kMinuteNs = 60 * kSecondNs;
  LogGrowth growth;
  CHECK_FALSE(growth.BytesPerNs().has_value());
  growth.Add(0, 1000);
  growth.Add(LogGrowth::kShortestNs - 1, 9000);
  CHECK_FALSE(growth.BytesPerNs().has_value());
  growth.Add(LogGrowth::kShortestNs, 301'000);
  CHECK(growth.BytesPerNs().value() * kSecondNs == Approx(1000));
  // What is older than an hour no longer counts. Samples come every second.
  for (int64_t second = 301; second <= 2 * 3600; ++second) {
    growth.Add(second * kSecondNs, static_cast<uint64_t>(301'000 + (second - 300) * 50));
  }
  CHECK(growth.BytesPerNs().value() * kSecondNs == Approx(50));
  // A log that is not appended to, or became smaller, fills nothing.
  LogGrowth idle;
  idle.Add(0, 1000);
  idle.Add(20 * kMinuteNs, 1000);
  CHECK_FALSE(idle.BytesPerNs().has_value());
  idle.Add(40 * kMinuteNs, 500);
  CHECK_FALSE(idle.BytesPerNs().has_value());
}

TEST_CASE("The log's disk is that of its folder", "[orchestrator][status]") {
  const std::optional<LogDisk> disk = LogDiskWatch("/no-such-file.db").Look();
  REQUIRE(disk.has_value());
  CHECK(disk->total_bytes > 0);
  CHECK(disk->free_bytes <= disk->total_bytes);
  CHECK_FALSE(disk->full_in_ns.has_value());
  CHECK_FALSE(LogDiskWatch("/does/not/exist.db").Look().has_value());
}

TEST_CASE("Forbidden states are prominent", "[orchestrator][status]") {
  StatusView view;
  view.running = {SomeSearch()};
  view.running[0].risk.selective_risk.low = 0.06;
  view.ended = {SomeSearch()};
  view.ended[0].status = SearchStatus::kFailed;
  view.ended[0].ended_ns = 20 * kSecondNs;
  view.ended[0].end_reason = "the problem is gone";
  StatusPeers peers = SomePeers();
  for (StatusPeer& worker : peers.workers) worker.healthy = false;
  const std::string html = RenderStatusPage(view, peers, 80 * kSecondNs);
  CHECK_THAT(html, Contains("<span class=\"bad\">2.0%</span>"));
  CHECK_THAT(html, Contains("<span class=\"bad\">failed</span>"));
  CHECK_THAT(html, Contains("the problem is gone"));
  CHECK_THAT(html, Contains("<span class=\"bad\">0</span>"));
  CHECK_THAT(html, Contains("<td class=\"number\">1 min 0 s</td>"));
}

TEST_CASE("External text never becomes part of the page's markup", "[orchestrator][status]") {
  CHECK(EscapedForPage(kHostile) == kHarmless);
  CHECK(EscapedForPage(std::string_view("a\0b", 3)) ==
        "a\xEF\xBF\xBD"
        "b");
  StatusView view;
  EngineOverview::SearchFigures search = SomeSearch();
  search.search_id = search.problem_name = search.target = search.policy = search.end_reason =
      kHostile;
  view.running = view.ended = {search};
  view.queues = {{kHostile, Stage::kCompile, 1, 0}};
  view.decisions[kHostile][DecisionReason::kAudit] = 1;
  StatusPeers peers;
  peers.forecasters = {{kHostile, false, false, false, kHostile, kHostile, {kHostile}}};
  peers.workers = peers.forecasters;
  const std::string html = RenderStatusPage(view, peers, 0);
  CHECK(TagsMatch(html));
  CHECK_THAT(html, !Contains("<script"));
  CHECK_THAT(html, !Contains("alert('"));
  size_t count = 0;
  for (size_t at = html.find(kHarmless); at != std::string::npos;
       at = html.find(kHarmless, at + 1)) {
    ++count;
  }
  CHECK(count == 22);
}

TEST_CASE("A page needs no script, no inline style and nothing external",
          "[orchestrator][status]") {
  StatusView view;
  view.running = {SomeSearch()};
  const std::string html = RenderStatusPage(view, SomePeers(), 0);
  for (const char* part : {"<script", "style=", "<style", "http://", "https://", "//"}) {
    CHECK_THAT(html, !Contains(part));
  }
  // No tag has an event handler.
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    CHECK_THAT(html.substr(at, html.find('>', at) - at), !Contains(" on"));
  }
  CHECK_THAT(std::string(StatusStyle()), !Contains("url("));
  CHECK_THAT(std::string(StatusStyle()), !Contains("@import"));
}

TEST_CASE("Routes have the colours of reports", "[orchestrator][status]") {
  const std::string style = StatusStyle();
  for (const Route route : kRoutes) {
    INFO(Name(route));
    CHECK_THAT(style, Contains(absl::StrCat("--", std::string(Name(route)), ":",
                                            ColourOf(route).light, ";")));
  }
  // Route colours are defined only there.
  CHECK_THAT(style.substr(RoutePaletteCss().size()), !Contains(".deferred"));
}

TEST_CASE("A page has a bounded size", "[orchestrator][status]") {
  StatusView view;
  EngineOverview::SearchFigures search = SomeSearch();
  const std::string endless(2'000, '<');
  search.search_id = search.problem_name = search.target = search.policy = search.end_reason =
      endless;
  view.running.assign(StatusBoard::kMaxRunning, search);
  view.ended.assign(StatusBoard::kMaxEnded, search);
  view.queues.assign(1'000, {endless, Stage::kCompile, 1, 0});
  StatusPeers peers;
  peers.workers.assign(1'000, {endless, false, false, false, endless, endless, {}});
  const std::string html = RenderStatusPage(view, peers, 0);
  CHECK(html.size() < 3'000'000);
  CHECK_THAT(html, Contains("and 800 more workers"));
  CHECK(TagsMatch(html));
}

}  // namespace
}  // namespace kernelcast::orchestrator
