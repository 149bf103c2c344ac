#include "services/orchestrator/core/merged_observer.h"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kernelcast::orchestrator {
namespace {

class Recorder final : public EngineObserver {
 public:
  void OnDecided(const Evaluation&, const Decision&) override { ++decided; }
  void OnSettled(const Evaluation&, const EvaluationSettled&) override { ++settled; }
  void OnGenerated(const GenerationSettled&) override { ++generated; }
  void OnAdvised(const GenerationAdvised&) override {}
  void OnFigures(const EngineFigures& now) override { figures = now; }
  void OnOverview(const EngineOverview& now) override {
    overview = now;
    for (const auto& search : now.searches) {
      if (search.ended_ns != 0) ++ends[search.search_id];
    }
  }

  int decided = 0, settled = 0, generated = 0;
  EngineFigures figures;
  EngineOverview overview;
  std::map<std::string, int> ends;
};

EngineOverview::SearchFigures SearchOf(const std::string& id, int64_t ended_ns = 0) {
  EngineOverview::SearchFigures search;
  search.search_id = id;
  search.ended_ns = ended_ns;
  return search;
}

TEST_CASE("Several engines look like one, and a removed one does not count") {
  Recorder recorder;
  MergedObserver merged(&recorder);
  auto first = merged.For(0);
  auto second = merged.For(1);
  first->OnFigures({.events = 10, .live_evaluations = 2, .running_searches = 1});
  second->OnFigures({.events = 5, .live_evaluations = 3, .pending_labels = 7});
  CHECK(recorder.figures.events == 15);
  CHECK(recorder.figures.live_evaluations == 5);
  CHECK(recorder.figures.running_searches == 1);
  CHECK(recorder.figures.pending_labels == 7);
  first->OnFigures({.events = 11, .live_evaluations = 1});
  CHECK(recorder.figures.events == 16);
  CHECK(recorder.figures.live_evaluations == 4);
  first->OnGenerated({});
  second->OnGenerated({});
  CHECK(recorder.generated == 2);
  first.reset();
  CHECK(recorder.figures.events == 5);
  CHECK(recorder.figures.live_evaluations == 3);
  // The same shard may return.
  auto again = merged.For(0);
  again->OnFigures({.events = 12});
  CHECK(recorder.figures.events == 17);
}

TEST_CASE("Overviews are merged and each end is reported once") {
  Recorder recorder;
  MergedObserver merged(&recorder);
  auto first = merged.For(0);
  auto second = merged.For(1);
  EngineOverview one, two;
  one.now_ns = 100;
  one.queues = {{"cpu", Stage::kMeasure, 3, 50}};
  one.searches = {SearchOf("a"), SearchOf("b", 90)};
  two.now_ns = 110;
  two.queues = {{"cpu", Stage::kMeasure, 2, 40}, {"h100", Stage::kCompile, 1, 60}};
  two.searches = {SearchOf("c")};
  first->OnOverview(one);
  second->OnOverview(two);
  CHECK(recorder.overview.now_ns == 110);
  REQUIRE(recorder.overview.queues.size() == 2);
  CHECK(recorder.overview.queues[0].depth == 5);
  CHECK(recorder.overview.queues[0].oldest_accepted_ns == 40);
  REQUIRE(recorder.overview.searches.size() == 2);
  CHECK(recorder.overview.searches[0].search_id == "c");
  CHECK(recorder.overview.searches[1].search_id == "a");
  one.searches = {SearchOf("a")};
  first->OnOverview(one);
  second->OnOverview(two);
  CHECK(recorder.ends == std::map<std::string, int>{{"b", 1}});
}

}  // namespace
}  // namespace kernelcast::orchestrator
