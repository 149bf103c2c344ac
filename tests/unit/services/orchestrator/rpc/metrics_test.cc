#include "services/orchestrator/rpc/metrics.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/services/orchestrator/world.h"

namespace kernelcast::orchestrator {
namespace {

using Catch::Matchers::Contains;
using testing::Command;
using testing::World;

constexpr int64_t kSecondNs = 1'000'000'000;

EngineOverview::SearchFigures SearchOf(const std::string& problem, const std::string& target,
                                       double best) {
  EngineOverview::SearchFigures figures;
  figures.search_id = absl::StrCat(problem, "-", target);
  figures.problem_name = problem;
  figures.target = target;
  figures.best.value = best;
  return figures;
}

TEST_CASE("Queues are exposed by what they wait for and return to empty",
          "[orchestrator][metrics]") {
  MetricsRegistry registry;
  OrchestratorMetrics metrics(&registry);
  const std::string depth = "kernelcast_orchestrator_queue_depth{gpu_model=\"other\",stage=";
  CHECK_THAT(registry.Text(), Contains(depth + "\"decide\"} 0"));
  EngineOverview overview;
  overview.now_ns = 100 * kSecondNs;
  // Two targets without a known model share their series.
  overview.queues = {{"abacus", Stage::kMeasure, 2, 97 * kSecondNs},
                     {"quipu", Stage::kMeasure, 3, 90 * kSecondNs},
                     {"cpu", Stage::kCompile, 1, 101 * kSecondNs}};
  metrics.OnOverview(overview);
  const std::string text = registry.Text();
  CHECK_THAT(text, Contains(depth + "\"measure\"} 5"));
  CHECK_THAT(text,
             Contains("queue_oldest_age_seconds{gpu_model=\"other\",stage=\"measure\"} 10\n"));
  // A clock set back makes nothing negative.
  CHECK_THAT(text, Contains("queue_oldest_age_seconds{gpu_model=\"cpu\",stage=\"compile\"} 0\n"));
  overview.queues.clear();
  metrics.OnOverview(overview);
  CHECK_THAT(registry.Text(), Contains(depth + "\"measure\"} 0"));
  CHECK_THAT(registry.Text(),
             Contains("queue_oldest_age_seconds{gpu_model=\"other\",stage=\"measure\"} 0\n"));
}

TEST_CASE("Work on cuda counts for its device model", "[orchestrator][metrics]") {
  MetricsRegistry registry;
  OrchestratorMetrics metrics(&registry);
  Evaluation evaluation;
  evaluation.candidate.target = "cuda";
  Decision decision;
  decision.reason = DecisionReason::kPromising;
  for (const char* model : {"", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA H100"}) {
    evaluation.device_model = model;
    metrics.OnDecided(evaluation, decision);
  }
  EngineOverview overview;
  overview.queues = {{"cuda", Stage::kMeasure, 2, 0, "NVIDIA H200"},
                     {"cuda", Stage::kMeasure, 5, 0, "NVIDIA L40S"}};
  metrics.OnOverview(overview);
  const std::string text = registry.Text();
  const std::string decisions = "orchestrator_decisions_total{decision=\"measure\",gpu_model=";
  CHECK_THAT(text, Contains(decisions + "\"cuda\",reason=\"promising\"} 1\n"));
  CHECK_THAT(text, Contains(decisions + "\"a100\",reason=\"promising\"} 1\n"));
  CHECK_THAT(text, Contains(decisions + "\"h100\",reason=\"promising\"} 2\n"));
  CHECK_THAT(text, Contains("queue_depth{gpu_model=\"h200\",stage=\"measure\"} 2\n"));
  CHECK_THAT(text, Contains("queue_depth{gpu_model=\"l40s\",stage=\"measure\"} 5\n"));
}

TEST_CASE("Candidates pruned because the budget is spent are not rejections",
          "[orchestrator][metrics]") {
  MetricsRegistry registry;
  OrchestratorMetrics metrics(&registry);
  Evaluation evaluation;
  evaluation.candidate.target = "cpu";
  Decision decision;
  decision.reason = DecisionReason::kBudget;
  for (const auto kind : {DecisionKind::kPrune, DecisionKind::kPrune, DecisionKind::kReject}) {
    decision.kind = kind;
    metrics.OnDecided(evaluation, decision);
  }
  const std::string text = registry.Text();
  const std::string decisions = "orchestrator_decisions_total{decision=";
  CHECK_THAT(text, Contains(decisions + "\"prune\",gpu_model=\"cpu\",reason=\"budget\"} 2\n"));
  CHECK_THAT(text, Contains(decisions + "\"reject\",gpu_model=\"cpu\",reason=\"budget\"} 1\n"));
}

TEST_CASE("Workers and forecasters are exposed by state and their events are counted",
          "[orchestrator][metrics]") {
  MetricsRegistry registry;
  AllPeerFigures peers;
  OrchestratorMetrics metrics(&registry, [&peers] { return peers; });
  const std::string prefix = "kernelcast_orchestrator_";
  for (const char* kind : {"worker", "forecaster"}) {
    CHECK_THAT(registry.Text(), Contains(prefix + kind + "_ejections_total 0\n"));
    CHECK_THAT(registry.Text(),
               Contains(prefix + kind + "_calls_repeated_total{reason=\"handed_back\"} 0\n"));
  }
  peers.workers = {4, 3, 1, 5, {{"lost", 6}, {"failed", 0}, {"handed_back", 2}, {"refused", 1}}};
  peers.forecasters = {2, 1, 1, 7, {{"lost", 0}, {"failed", 9}}};
  metrics.OnOverview({});
  peers.workers.ready = 0;
  peers.workers.repeated_calls["lost"] = 8;
  metrics.OnOverview({});
  const std::string text = registry.Text();
  CHECK_THAT(text, Contains(prefix + "workers{state=\"ready\"} 0\n"));
  CHECK_THAT(text, Contains(prefix + "workers{state=\"away\"} 3\n"));
  CHECK_THAT(text, Contains(prefix + "workers{state=\"ejected\"} 1\n"));
  CHECK_THAT(text, Contains(prefix + "forecasters{state=\"ready\"} 2\n"));
  CHECK_THAT(text, Contains(prefix + "forecasters{state=\"away\"} 1\n"));
  CHECK_THAT(text, Contains(prefix + "forecasters{state=\"ejected\"} 1\n"));
  CHECK_THAT(text, Contains(prefix + "worker_ejections_total 5\n"));
  CHECK_THAT(text, Contains(prefix + "forecaster_ejections_total 7\n"));
  CHECK_THAT(text, Contains(prefix + "worker_calls_repeated_total{reason=\"lost\"} 8\n"));
  CHECK_THAT(text, Contains(prefix + "worker_calls_repeated_total{reason=\"handed_back\"} 2\n"));
  CHECK_THAT(text, Contains(prefix + "forecaster_calls_repeated_total{reason=\"failed\"} 9\n"));
}

TEST_CASE("The risks of running searches are pooled by their pruned counts",
          "[orchestrator][metrics]") {
  MetricsRegistry registry;
  OrchestratorMetrics metrics(&registry);
  EngineOverview overview;
  overview.searches = {SearchOf("a", "cpu", 1), SearchOf("b", "cpu", 1), SearchOf("c", "cpu", 1)};
  overview.searches[0].risk = {{0.05, 0.05, false}, {0.02, 0.01, 0.05, 300, 50}, 0.1, true, 4};
  overview.searches[1].risk = {{0.02, 0.05, false}, {0.10, 0.06, 0.20, 100, 40}, 0.02, true, 0};
  // An ended search no longer counts.
  overview.searches[2].risk = {{0.01, 0.05, false}, {0.90, 0.80, 1.00, 900, 40}, 0.4, true, 0};
  overview.searches[2].ended_ns = 1;
  metrics.OnOverview(overview);
  std::string text = registry.Text();
  const std::string prefix = "kernelcast_orchestrator_";
  CHECK_THAT(text, Contains(prefix + "selective_risk_ratio{gpu_model=\"cpu\"} 0.04\n"));
  CHECK_THAT(text, Contains(prefix + "selective_risk_low_ratio{gpu_model=\"cpu\"} 0.06\n"));
  CHECK_THAT(text, Contains(prefix + "selective_risk_limit_ratio{gpu_model=\"cpu\"} 0.02\n"));
  CHECK_THAT(text, Contains(prefix + "prune_threshold_ratio{gpu_model=\"cpu\"} 0.1\n"));
  // Alarms before the first poll are not counted; later ones are.
  CHECK_THAT(text, Contains(prefix + "risk_alarms_total{gpu_model=\"cpu\"} 0\n"));
  overview.searches.resize(2);
  overview.searches[0].risk.alarms = 6;
  metrics.OnOverview(overview);
  overview.searches[0].ended_ns = 1;
  overview.searches[0].risk.alarms = 7;
  metrics.OnOverview(overview);
  CHECK_THAT(registry.Text(), Contains(prefix + "risk_alarms_total{gpu_model=\"cpu\"} 3\n"));
  metrics.OnOverview({});
  text = registry.Text();
  CHECK_THAT(text, Contains(prefix + "selective_risk_ratio{gpu_model=\"cpu\"} 0\n"));
  CHECK_THAT(text, Contains(prefix + "selective_risk_limit_ratio{gpu_model=\"cpu\"} 0.05\n"));
}

TEST_CASE("A problem's best is that of its running searches", "[orchestrator][metrics]") {
  MetricsRegistry registry;
  OrchestratorMetrics metrics(&registry);
  EngineOverview overview;
  overview.searches = {SearchOf("softmax", "cpu", 3), SearchOf("softmax", "cpu", 2),
                       SearchOf("softmax", "cpu", 9), SearchOf("softmax", "h100", 1.5)};
  overview.searches[2].ended_ns = 1;
  metrics.OnOverview(overview);
  const std::string best = "kernelcast_orchestrator_best_speedup_ratio{gpu_model=";
  CHECK_THAT(registry.Text(), Contains(best + "\"cpu\",problem=\"softmax\"} 3\n"));
  CHECK_THAT(registry.Text(), Contains(best + "\"h100\",problem=\"softmax\"} 1.5\n"));
  overview.searches = {SearchOf("softmax", "cpu", 4)};
  overview.searches[0].ended_ns = 1;
  metrics.OnOverview(overview);
  metrics.OnOverview({});
  CHECK_THAT(registry.Text(), Contains(best + "\"cpu\",problem=\"softmax\"} 4\n"));
}

TEST_CASE("Problems are evicted, but not while they are searched", "[orchestrator][metrics]") {
  MetricsRegistry registry;
  OrchestratorMetrics metrics(&registry);
  EngineOverview overview;
  for (size_t i = 0; i < OrchestratorMetrics::kMaxProblems + 2; ++i) {
    overview.searches.push_back(SearchOf(absl::StrCat("p", i), "cpu", 1.0 + i));
  }
  metrics.OnOverview(overview);
  const std::string best = "kernelcast_orchestrator_best_speedup_ratio{gpu_model=\"cpu\",problem=";
  const auto series = [&] {
    const std::string text = registry.Text();
    size_t count = 0;
    for (size_t at = text.find(best); at != std::string::npos; at = text.find(best, at + 1)) {
      ++count;
    }
    return count;
  };
  CHECK(series() == OrchestratorMetrics::kMaxProblems + 1);
  CHECK_THAT(registry.Text(), Contains(best + "\"other\"} 34\n"));
  // All but the first are still searched: the new one takes its place and no other is evicted.
  overview.searches.resize(OrchestratorMetrics::kMaxProblems);
  overview.searches.erase(overview.searches.begin());
  metrics.OnOverview(overview);
  overview.searches.push_back(SearchOf("newcomer", "cpu", 7));
  metrics.OnOverview(overview);
  metrics.OnOverview(overview);
  const std::string text = registry.Text();
  CHECK_THAT(text, Contains(best + "\"newcomer\"} 7\n"));
  CHECK_THAT(text, Contains(best + "\"p1\"} 2\n"));
  CHECK_THAT(text, Contains(best + "\"p31\"} 32\n"));
  CHECK_THAT(text, !Contains(best + "\"p0\"}"));
  CHECK(series() <= OrchestratorMetrics::kMaxProblems + 1);
}

// Keeps the overviews of an engine.
class Overviews final : public EngineObserver {
 public:
  void OnDecided(const Evaluation&, const Decision&) override {}
  void OnSettled(const Evaluation&, const EvaluationSettled&) override {}
  void OnGenerated(const GenerationSettled&) override {}
  void OnAdvised(const GenerationAdvised&) override {}
  void OnFigures(const EngineFigures&) override {}
  void OnOverview(const EngineOverview& overview) override {
    const std::lock_guard lock(mutex_);
    seen_.push_back(overview);
    changed_.notify_all();
  }
  // Returns the first overview that satisfies the condition.
  template <class Condition>
  EngineOverview Await(Condition condition) {
    std::unique_lock lock(mutex_);
    size_t next = 0;
    EngineOverview found;
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(30), [&] {
      for (; next < seen_.size(); ++next) {
        if (!condition(seen_[next])) continue;
        found = seen_[next];
        return true;
      }
      return false;
    }));
    return found;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<EngineOverview> seen_;
};

// The value of a series whose labels are sorted by name.
double ValueOf(const std::string& text, const std::string& series) {
  const size_t at = text.find(series + " ");
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + series.size() + 1));
}

TEST_CASE("Decisions are counted as in the log, every combination from the start",
          "[orchestrator][metrics]") {
  MetricsRegistry registry;
  OrchestratorMetrics metrics(&registry);
  const auto series = [](DecisionKind kind, DecisionReason reason) {
    return absl::StrCat("kernelcast_orchestrator_decisions_total{decision=\"",
                        std::string(Name(kind)), "\",gpu_model=\"cpu\",reason=\"",
                        std::string(Name(reason)), "\"}");
  };
  for (const DecisionReason reason : kAllDecisionReasons) {
    CHECK(ValueOf(registry.Text(), series(KindOf(reason), reason)) == 0);
  }
  CHECK(ValueOf(registry.Text(), series(DecisionKind::kPrune, DecisionReason::kBudget)) == 0);

  World world;
  world.observer = &metrics;
  world.Start();
  const std::string problem = world.PutToy();
  REQUIRE(world.StartSearch("s1", testing::TemplateSearch(problem, 16)).ok());
  const SearchSnapshot search = world.WaitForEnd("s1");
  REQUIRE(world.StartSearch("s2", testing::ExternalSearch(problem, 16)).ok());
  for (const char* id : {"a", "b"}) {
    REQUIRE(world.Evaluate(Command(id, world.ToyCandidate(problem), EvaluateMode::kMeasure, "s2"))
                .ok());
  }
  world.engine->Stop();
  std::map<std::pair<DecisionKind, DecisionReason>, double> decided;
  for (const EvaluationDecided& event : world.store->All<EvaluationDecided>()) {
    if (event.request_id.find("/confirm/") != std::string::npos) continue;
    ++decided[{event.decision.kind, event.decision.reason}];
  }
  CHECK(decided[{DecisionKind::kMeasure, DecisionReason::kReused}] == 1);
  const std::string text = registry.Text();
  for (const DecisionReason reason : kAllDecisionReasons) {
    INFO(std::string(Name(reason)));
    CHECK(ValueOf(text, series(KindOf(reason), reason)) == decided[{KindOf(reason), reason}]);
  }
  // Each candidate counts once, whatever the number of decisions: those of the first search, and
  // one.
  CHECK(ValueOf(text, "kernelcast_orchestrator_candidates_decided_total{gpu_model=\"cpu\"}") ==
        static_cast<double>(search.counts.considered + 1));
}

TEST_CASE("Device time avoided includes ended searches and running ones whose pruning is final",
          "[orchestrator][metrics]") {
  MetricsRegistry registry;
  OrchestratorMetrics metrics(&registry);
  const auto avoided = [&] {
    return ValueOf(registry.Text(),
                   "kernelcast_orchestrator_gpu_seconds_avoided_total{gpu_model=\"cpu\"}");
  };
  EngineOverview overview;
  overview.searches = {SearchOf("old", "cpu", 1)};
  overview.searches[0].counts.device_time_avoided_ns = 9 * kSecondNs;
  metrics.OnOverview(overview);
  // Time avoided before the process began is not counted.
  CHECK(avoided() == 0);
  overview.searches[0].counts.device_time_avoided_ns = 10 * kSecondNs;
  overview.searches.push_back(SearchOf("selects", "cpu", 1));
  overview.searches[1].selects = true;
  overview.searches[1].counts.device_time_avoided_ns = 50 * kSecondNs;
  metrics.OnOverview(overview);
  CHECK(avoided() == 1);
  overview.searches[1].ended_ns = 1;
  overview.searches[1].counts.device_time_avoided_ns = 30 * kSecondNs;
  metrics.OnOverview(overview);
  CHECK(avoided() == 31);
  overview.searches.pop_back();
  metrics.OnOverview(overview);
  CHECK(avoided() == 31);
}

TEST_CASE("Device time is split by purpose", "[orchestrator][metrics]") {
  MetricsRegistry registry;
  OrchestratorMetrics metrics(&registry);
  Evaluation evaluation;
  evaluation.candidate.target = "cpu";
  evaluation.decision = Decision{};
  Measurement measurement;
  measurement.device_time_ns = 5 * kSecondNs;
  measurement.preparation_time_ns = 3 * kSecondNs;
  measurement.outcome = MeasuredOk{};
  metrics.OnSettled(evaluation, {"r", measurement, false});
  evaluation.mode = EvaluateMode::kFinal;
  evaluation.generated = true;
  measurement.preparation_time_ns = 0;
  metrics.OnSettled(evaluation, {"c", measurement, false});
  // 7 s in unstable attempts, 2 s of them preparation, and then no worker was left.
  evaluation.mode = EvaluateMode::kMeasure;
  evaluation.unstable_time = {7 * kSecondNs, 2 * kSecondNs};
  metrics.OnSettled(evaluation,
                    {"u", Rejection{Rejection::Cause::kUnavailable, {}, "away"}, false});
  const std::string text = registry.Text();
  const std::string spent =
      "kernelcast_orchestrator_gpu_seconds_spent_total{gpu_model=\"cpu\",phase=";
  CHECK(ValueOf(text, spent + "\"screen\"}") == 7);
  CHECK(ValueOf(text, spent + "\"prepare\"}") == 5);
  CHECK(ValueOf(text, spent + "\"confirm\"}") == 5);
}

TEST_CASE("An engine reports its queues and the state of its searches", "[orchestrator][metrics]") {
  Overviews overviews;
  World world;
  world.observer = &overviews;
  world.workers.hold_measurements = true;
  world.Start();
  const std::string problem = world.PutToy();
  std::promise<void> done;
  world.engine->Evaluate(Command("r1", world.ToyCandidate(problem)),
                         [&done](const auto&) { done.set_value(); });
  const EngineOverview waiting = overviews.Await([](const EngineOverview& overview) {
    return overview.queues.size() == 1 && overview.queues[0].stage == Stage::kMeasure;
  });
  CHECK(waiting.queues[0].target == "cpu");
  CHECK(waiting.queues[0].depth == 1);
  CHECK(waiting.queues[0].oldest_accepted_ns > 0);
  CHECK(waiting.queues[0].oldest_accepted_ns <= waiting.now_ns);
  world.workers.hold_measurements = false;
  world.workers.Release();
  done.get_future().get();

  REQUIRE(world.StartSearch("s", testing::TemplateSearch(problem, 8)).ok());
  const SearchSnapshot ended = world.WaitForEnd("s");
  REQUIRE(ended.incumbent.has_value());
  const EngineOverview last = overviews.Await([](const EngineOverview& overview) {
    return !overview.searches.empty() && overview.searches[0].ended_ns != 0;
  });
  CHECK(last.searches[0].search_id == "s");
  CHECK(last.searches[0].problem_name == ended.problem_name);
  CHECK(last.searches[0].best.value > 1);
  CHECK(last.searches[0].risk.selective_risk.pruned == ended.risk.selective_risk.pruned);
  // It is reported once.
  overviews.Await([&](const EngineOverview& overview) {
    return overview.now_ns > last.now_ns && overview.searches.empty() && overview.queues.empty();
  });
}

}  // namespace
}  // namespace kernelcast::orchestrator
