#include "services/orchestrator/core/external_source.h"

#include <catch2/catch.hpp>
#include <string>

#include "services/orchestrator/core/search_budget.h"
#include "tests/unit/services/orchestrator/event_history.h"

namespace kernelcast::orchestrator {
namespace {

using testing::EventHistory;

TEST_CASE("An external search proposes nothing and needs neither space nor model nor limit") {
  EventHistory history;
  const std::string problem = history.PutProblem(testing::ProblemFilesWithoutSpace());
  SearchSpec spec = history.Spec(problem, GeneratorKind::kExternal);
  spec.budget = {};
  const ExternalSource source;
  CHECK(source.Check(spec, *history.state().FindProblem(problem), false).ok());
  CHECK_FALSE(source.ProposesByItself());
  history.StartSearch(spec);
  CHECK_FALSE(source.Next(history.state(), history.search(), {}));
  CHECK(source.ExpectedDecisions(history.search()) == 0);
}

TEST_CASE("An external search expects as many decisions as it may consider") {
  EventHistory history;
  SearchSpec spec = history.Spec(history.PutProblem(), GeneratorKind::kExternal);
  spec.budget.max_candidates = 30;
  history.StartSearch(spec);
  CHECK(ExternalSource().ExpectedDecisions(history.search()) == 30);
}

TEST_CASE("An external search continues without measurements, but not without candidates or time") {
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
  history.StartSearch(history.Spec(problem), "s2");
  for (const char* limit : {"max_measurements", "max_device_time"}) {
    CHECK(GoesOnAfter(history.search(), limit));
    CHECK_FALSE(GoesOnAfter(history.search("s2"), limit));
  }
  for (const char* limit : {"max_candidates", "max_wall_time"}) {
    CHECK_FALSE(GoesOnAfter(history.search(), limit));
  }
}

TEST_CASE("Each kind of search has its source") {
  CHECK_FALSE(SourceFor(GeneratorKind::kExternal).ProposesByItself());
  CHECK(SourceFor(GeneratorKind::kTemplate).ProposesByItself());
  CHECK(SourceFor(GeneratorKind::kLlm).ProposesByItself());
}

}  // namespace
}  // namespace kernelcast::orchestrator
