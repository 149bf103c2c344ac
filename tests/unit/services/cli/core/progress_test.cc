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
  progress.seconds_left = 90;
  progress.max_measurements = 80;
  progress.considered = 123;
  progress.measured = 20;
  progress.pruned = 100;
  progress.best = Ratio{3.42, 3.38, 3.46, 0.95};
  progress.best_name = "vector_poly";
  progress.improvements = {{1.1, 1, 0}, {2.0, 4, 0}, {3.42, 9, 0}};
  progress.device_seconds_spent = 10;
  progress.device_seconds_avoided = 50;
  return progress;
}

TEST_CASE("The remaining time follows the rate of budget use") {
  SearchProgress progress = Running();
  Pace pace;
  CHECK(pace.Update(SearchProgress()) < 0);
  CHECK(pace.Update(progress) < 0);  // one point gives no rate
  progress.measured = 40;
  progress.elapsed_seconds = 50;
  CHECK(pace.Update(progress) == Approx(40));
  progress.max_wall_seconds = 60;
  CHECK(pace.Update(progress) == Approx(10));
  progress.elapsed_seconds = 500;
  CHECK(pace.Update(progress) == Approx(0));
  progress.phase = SearchProgress::Phase::kFinishing;
  CHECK(pace.Update(progress) < 0);
}

TEST_CASE("The remaining time does not grow while candidates compile and nothing is measured") {
  SearchProgress progress = Running();
  Pace pace;
  pace.Update(progress);
  progress.measured = 40;
  progress.elapsed_seconds = 50;
  double before = pace.Update(progress);
  for (; progress.elapsed_seconds < 90; progress.elapsed_seconds += 10) {
    const double left = pace.Update(progress);
    CHECK(left <= before);
    before = left;
  }
  // Overdue: no estimate rather than a wrong one.
  progress.elapsed_seconds = 200;
  CHECK(pace.Update(progress) < 0);
}

TEST_CASE("The block shows every figure and fits any terminal") {
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

// The line of the block that starts with this text.
std::string LineOf(const SearchProgress& progress, const std::string& start) {
  for (const std::string& line : RenderProgressBlock(progress, Style(false), 100, 0)) {
    if (line.starts_with(start)) return line;
  }
  return "";
}

TEST_CASE("The best so far is drawn against device time and tokens") {
  SearchProgress progress = Running();
  // 1x after a quarter of the device time and half of the tokens, 2x at three quarters of both, 4x
  // at the end.
  progress.improvements = {{1, 6, 120}, {2, 18, 180}, {4, 24, 240}};
  progress.device_seconds_spent = 24;
  progress.all_tokens = 240;
  CHECK_THAT(LineOf(progress, "device time"), Catch::EndsWith("     ▁▁▁▁▁▁▁▁▁▁▁▁▅▅▅▅▅▅█"));
  CHECK_THAT(LineOf(progress, "tokens 240"), Catch::EndsWith("           ▁▁▁▁▁▁▅▅▅▅▅▅█"));
  // One value is no curve, and a search without models has no tokens.
  progress.improvements.resize(1);
  progress.all_tokens = 0;
  CHECK_THAT(LineOf(progress, "device time"), !Catch::Contains("█"));
  CHECK(LineOf(progress, "tokens").empty());
}

TEST_CASE("The cost is shown where there are prices") {
  SearchProgress progress = Running();
  CHECK(LineOf(progress, "cost").empty());
  CHECK_THAT(RenderProgressLine(progress), !Catch::Contains("cost"));
  progress.prices.device_hour = 720;
  progress.token_cost = 0.5;
  CHECK(LineOf(progress, "cost") ==
        "cost 2.50: 2.00 devices, 0.50 tokens, about 10.00 avoided by pruning");
  CHECK_THAT(RenderProgressLine(progress), Catch::Contains(", cost 2.50"));
}

TEST_CASE("A lost connection replaces the newest event") {
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

TEST_CASE("Duplicate kernels are not counted as unusable") {
  SearchProgress progress = Running();
  progress.writes = true;
  progress.repeated = 3;
  progress.unusable = 2;
  CHECK_THAT(RenderProgressLine(progress), Catch::Contains("repeated 3, unusable 2"));
  std::string block;
  for (const std::string& line : RenderProgressBlock(progress, Style(false), 100, 0)) block += line;
  CHECK_THAT(block, Catch::Contains("repeated 3   unusable 2"));
}

}  // namespace
}  // namespace kernelcast::cli
