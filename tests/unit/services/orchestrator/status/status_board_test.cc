#include "services/orchestrator/status/status_board.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace kernelcast::orchestrator {
namespace {

EngineOverview::SearchFigures SearchOf(const std::string& id, int64_t started_ns,
                                       int64_t ended_ns = 0) {
  EngineOverview::SearchFigures figures;
  figures.search_id = id;
  figures.started_ns = started_ns;
  figures.ended_ns = ended_ns;
  return figures;
}

TEST_CASE("Running searches come from the last poll and ended ones stay",
          "[orchestrator][status]") {
  StatusBoard board;
  EngineOverview overview;
  overview.now_ns = 100;
  overview.searches = {SearchOf("a", 1), SearchOf("b", 3), SearchOf("c", 2, 90)};
  board.OnOverview(overview);
  StatusView view = board.View();
  CHECK(view.overview_ns == 100);
  REQUIRE(view.running.size() == 2);
  CHECK(view.running[0].search_id == "b");
  REQUIRE(view.ended.size() == 1);
  // "c" is reported once more, and "a" has ended since.
  overview.searches = {SearchOf("a", 1, 120), SearchOf("b", 3), SearchOf("c", 2, 90)};
  board.OnOverview(overview);
  overview.searches = {SearchOf("b", 3)};
  board.OnOverview(overview);
  view = board.View();
  REQUIRE(view.running.size() == 1);
  REQUIRE(view.ended.size() == 2);
  CHECK(view.ended[0].search_id == "a");
  CHECK(view.ended[1].search_id == "c");
}

TEST_CASE("A board stays small whatever happens", "[orchestrator][status]") {
  StatusBoard board;
  EngineOverview overview;
  for (int i = 0; i < 1000; ++i) {
    overview.searches.push_back(SearchOf(absl::StrCat("r", i), i));
    overview.searches.push_back(SearchOf(absl::StrCat("e", i), i, 1000 + i));
  }
  board.OnOverview(overview);
  board.OnOverview(overview);
  Evaluation evaluation;
  Decision decision;
  decision.reason = DecisionReason::kPromising;
  for (int i = 0; i < 100; ++i) {
    evaluation.candidate.target = absl::StrCat("t", i);
    board.OnDecided(evaluation, decision);
  }
  const StatusView view = board.View();
  CHECK(view.running.size() == StatusBoard::kMaxRunning);
  CHECK(view.running.front().search_id == "r999");
  CHECK(view.running_left_out == 900);
  CHECK(view.ended.size() == StatusBoard::kMaxEnded);
  CHECK(view.ended.front().search_id == "e999");
  CHECK(view.decisions.size() == StatusBoard::kMaxTargets + 1);
  CHECK(view.decisions.at("other").at(DecisionReason::kPromising) == 84);
}

}  // namespace
}  // namespace kernelcast::orchestrator
