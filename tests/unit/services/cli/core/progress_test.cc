#include "services/cli/core/progress.h"

#include <catch2/catch.hpp>

namespace kernelcast::cli {
namespace {

SearchProgress Running() {
  SearchProgress progress;
  progress.problem = "row_softmax";
  progress.target = "cpu";
  progress.device = "AMD EPYC";
  progress.phase = SearchProgress::Phase::kRunning;
  progress.elapsed_seconds = 30;
  progress.max_measurements = 80;
  progress.considered = 123;
  progress.measured = 20;
  progress.pruned = 100;
  progress.best = Ratio{3.42, 3.38, 3.46, 0.95};
  progress.best_name = "vector_poly";
  progress.best_history = {1.1, 2.0, 3.42};
  progress.device_seconds_spent = 10;
  progress.device_seconds_avoided = 50;
  return progress;
}

TEST_CASE("The time left follows the tightest limit") {
  SearchProgress progress = Running();
  CHECK(BudgetUsed(progress) == Approx(0.25));
  CHECK(EtaSeconds(progress) == Approx(90));
  progress.max_wall_seconds = 40;
  CHECK(BudgetUsed(progress) == Approx(0.75));
  CHECK(EtaSeconds(progress) == Approx(10));
  progress.elapsed_seconds = 500;
  CHECK(BudgetUsed(progress) == Approx(1));
  progress.phase = SearchProgress::Phase::kFinishing;
  CHECK(EtaSeconds(progress) < 0);
  CHECK(EtaSeconds(SearchProgress()) < 0);
}

TEST_CASE("The block tells every figure and fits any terminal") {
  const SearchProgress progress = Running();
  std::string all;
  for (const std::string& line : RenderProgressBlock(progress, Style(false), 100, 0)) {
    all += line + "\n";
  }
  for (const char* text : {"row_softmax", "considered 123", "measured 20", "pruned 100", "3.42x",
                           "[3.38, 3.46]", "20 / 80 measurements", "01:30", "50.0 s", "(83%)"}) {
    CHECK_THAT(all, Catch::Contains(text));
  }
  for (const int width : {20, 30, 50, 80, 200}) {
    for (const bool colour : {false, true}) {
      for (const std::string& line : RenderProgressBlock(progress, Style(colour), width, 7)) {
        CHECK(DisplayWidth(line) <= width);
        CHECK(line.find('\n') == std::string::npos);
      }
    }
  }
}

TEST_CASE("A lost connection takes the place of the newest event") {
  SearchProgress progress = Running();
  progress.latest = "something happened";
  progress.connection = "connection lost: gone";
  const auto lines = RenderProgressBlock(progress, Style(false), 100, 0);
  CHECK(lines.back() == "connection lost: gone");
}

TEST_CASE("A log line holds the counts and the best") {
  const std::string line = RenderProgressLine(Running());
  CHECK_THAT(line, Catch::Contains("considered 123, measured 20, pruned 100"));
  CHECK_THAT(line, Catch::Contains("best 3.42x"));
}

TEST_CASE("A candidate that is pruned first and measured later counts once") {
  StandingTracker standing;
  standing.Pruned("a");
  standing.Pruned("b");
  standing.Rejected("c");
  CHECK(standing.pruned() == 2);
  CHECK(standing.avoided_seconds() == 0);
  standing.Measured("a", 2);
  standing.Measured("d", 4);
  CHECK(standing.pruned() == 1);
  CHECK(standing.avoided_seconds() == Approx(3));
  standing.Rejected("a");  // a duplicate
  standing.Pruned("c");
  CHECK(standing.pruned() == 2);
  CHECK(standing.rejected() == 0);
}

}  // namespace
}  // namespace kernelcast::cli
