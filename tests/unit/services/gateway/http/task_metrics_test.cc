#include "services/gateway/http/task_metrics.h"

#include <catch2/catch.hpp>

#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("Tasks are counted by dialect and outcome", "[gateway][metrics]") {
  MetricsRegistry registry;
  TaskMetrics metrics(&registry, {"slime", "gepa"});
  Submission submission;
  submission.dialect = "slime";
  metrics.OnStarted(submission, 2);
  metrics.OnJoined(submission);
  CHECK_THAT(registry.Text(), Contains("kernelcast_gateway_tasks_pending 2"));
  metrics.OnFinished(submission, testing::OkVerdict(), 1);
  metrics.OnFinished(submission, testing::NotCompiled("no"), 0);
  metrics.OnFinished(submission, testing::NoVerdict("no"), 0);
  metrics.OnRepeat();
  const std::string text = registry.Text();
  const auto tasks = [](const std::string& outcome) {
    return "kernelcast_gateway_tasks_total{dialect=\"slime\",outcome=\"" + outcome + "\"} 1";
  };
  for (const char* outcome : {"ok", "compile_error", "no_verdict"}) {
    CHECK_THAT(text, Contains(tasks(outcome)));
  }
  CHECK_THAT(text, Contains("kernelcast_gateway_tasks_joined_total{dialect=\"slime\"} 1"));
  CHECK_THAT(text, Contains("kernelcast_gateway_tasks_pending 0"));
  CHECK_THAT(text, Contains("kernelcast_gateway_repeated_calls_total 1"));
}

}  // namespace
}  // namespace kernelcast::gateway
