#include "services/orchestrator/core/model_source.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/services/orchestrator/event_history.h"

namespace kernelcast::orchestrator {
namespace {

using testing::EventHistory;
using testing::ToyKernel;

struct ModelSearch {
  explicit ModelSearch(GeneratorLimits limits = {}, bool with_space = false) {
    problem =
        with_space ? history.PutProblem() : history.PutProblem(testing::ProblemFilesWithoutSpace());
    SearchSpec spec = history.Spec(problem, GeneratorKind::kLlm);
    spec.generator_limits = limits;
    history.StartSearch(spec);
    history.DescribeReference(problem);
    inputs.capacity = {4, 1};
    inputs.has_writer = true;
  }
  std::optional<SourceAction> Next() {
    inputs.now_ns = history.now_ns() + later_ns;
    return ModelSource().Next(history.state(), history.search(), inputs);
  }
  template <class Action>
  std::optional<Action> NextAs() {
    const std::optional<SourceAction> next = Next();
    if (!next || !std::holds_alternative<Action>(*next)) return std::nullopt;
    return std::get<Action>(*next);
  }
  // Requests what the source requests. Returns the number.
  uint64_t Request() {
    const auto request = NextAs<RequestKernel>();
    REQUIRE(request);
    history.Add(GenerationRequested{"s1", request->number, request->parent_candidate_id});
    return request->number;
  }
  void Answer(uint64_t number, GenerationOutcome outcome, const std::string& detail = "",
              GenerationUsage usage = {}) {
    GenerationSettled settled;
    settled.search_id = "s1";
    settled.number = number;
    settled.outcome = outcome;
    settled.detail = detail;
    settled.usage = usage;
    history.Add(settled);
  }

  EventHistory history;
  std::string problem;
  SourceInputs inputs;
  int64_t later_ns = 0;
};

TEST_CASE("A model search needs a model and a limit") {
  EventHistory history;
  SearchSpec spec = history.Spec(history.PutProblem(), GeneratorKind::kLlm);
  const auto problem = history.state().FindProblem(spec.problem_id);
  const ModelSource source;
  CHECK(source.Check(spec, *problem, true).ok());
  CHECK(source.Check(spec, *problem, false).code() == absl::StatusCode::kFailedPrecondition);
  spec.budget = {};
  CHECK(source.Check(spec, *problem, true).code() == absl::StatusCode::kInvalidArgument);
  spec.generator_limits.max_tokens = 5;
  CHECK(source.Check(spec, *problem, true).ok());
}

TEST_CASE("Several kernels are requested at once, derived from the reference at first") {
  ModelSearch search;
  for (uint64_t number = 1; number <= kDefaultGenerationsInFlight; ++number) {
    const auto request = search.NextAs<RequestKernel>();
    REQUIRE(request);
    CHECK(request->number == number);
    CHECK(request->parent_candidate_id == search.history.search().archive->reference_id());
    search.Request();
  }
  CHECK_FALSE(search.Next());
}

TEST_CASE("Candidates in flight leave less room for requests") {
  ModelSearch search;
  search.inputs.capacity = {2, 1};  // 4 in flight
  for (int i = 1; i <= 3; ++i) {
    Candidate kernel = ToyKernel(absl::StrCat("int k", i, ";\n"), 8, 4);
    kernel.problem_id = search.problem;
    kernel.target = "cpu";
    kernel.candidate_id = CandidateId(kernel);
    search.history.Propose(absl::StrCat("s1/", i), kernel);
  }
  CHECK(search.Request() == 1);
  CHECK_FALSE(search.Next());
}

TEST_CASE("Requests end with their limits") {
  GeneratorLimits limits;
  std::string reason;
  SECTION("the number of requests") {
    limits.max_requests = 2;
    reason = "budget: generator_requests";
  }
  SECTION("tokens") {
    limits.max_tokens = 200;
    reason = "budget: generator_tokens";
  }
  // The space is no substitute for a spent limit.
  ModelSearch search(limits, /*with_space=*/true);
  search.Request();
  search.Answer(1, GenerationOutcome::kUnusable, "prose", {100, 0, 50, false, 0});
  search.Request();
  CHECK_FALSE(search.Next());
  search.Answer(2, GenerationOutcome::kUnusable, "prose", {100, 0, 50, false, 0});
  CHECK(search.NextAs<FinishSearch>()->reason == reason);
}

TEST_CASE("Unanswered requests count against no limit") {
  ModelSearch search({.max_requests = 1});
  search.Request();
  search.Answer(1, GenerationOutcome::kUnanswered, "unreachable");
  search.later_ns = EventHistory::kSecondNs;
  CHECK(search.NextAs<RequestKernel>());
}

TEST_CASE("After an outage one request is made at a time, with growing delays") {
  ModelSearch search;
  const uint64_t first = search.Request();
  const uint64_t second = search.Request();
  search.Answer(first, GenerationOutcome::kUnanswered, "unreachable");
  search.later_ns = EventHistory::kSecondNs;
  // The other one is still in flight.
  CHECK_FALSE(search.Next());
  search.Answer(second, GenerationOutcome::kUnanswered, "unreachable");
  CHECK(search.history.search().generation->outages == 1);
  search.later_ns = 499'000'000;
  CHECK_FALSE(search.Next());
  search.later_ns = 500'000'000;
  const uint64_t third = search.Request();
  CHECK_FALSE(search.Next());
  search.Answer(third, GenerationOutcome::kUnanswered, "unreachable");
  search.later_ns = 999'000'000;
  CHECK_FALSE(search.Next());
  search.later_ns = 1'000'000'000;
  CHECK(search.NextAs<RequestKernel>());
}

TEST_CASE("A model that stays away ends a search without a space") {
  ModelSearch search;
  search.Request();
  search.Answer(1, GenerationOutcome::kUnanswered, "unreachable");
  search.later_ns = absl::ToInt64Nanoseconds(search.inputs.generation_patience);
  CHECK(search.NextAs<FinishSearch>()->reason == "the model is unavailable: unreachable");
}

TEST_CASE("During a longer outage the search uses the space") {
  ModelSearch search({}, /*with_space=*/true);
  for (int outage = 1; outage <= 2; ++outage) {
    search.later_ns = 2 * EventHistory::kSecondNs;
    const uint64_t number = search.Request();
    search.Answer(number, GenerationOutcome::kUnanswered, "unreachable");
    search.later_ns = 0;
    CHECK(search.NextAs<ProposeCandidate>().has_value() == (outage == 2));
  }
  // An answer ends the outage.
  search.later_ns = 2 * EventHistory::kSecondNs;
  const uint64_t number = search.Request();
  search.Answer(number, GenerationOutcome::kUnusable, "prose");
  CHECK(search.NextAs<RequestKernel>());
}

TEST_CASE("Useless answers end the requests, and the search if it has no space") {
  const bool with_space = GENERATE(false, true);
  ModelSearch search({}, with_space);
  for (uint64_t i = 0; i < ModelSource::kMaxUselessAnswers; ++i) {
    search.Answer(search.Request(), GenerationOutcome::kUnusable, "prose");
  }
  if (with_space) {
    CHECK(search.NextAs<ProposeCandidate>());
  } else {
    CHECK(search.NextAs<FinishSearch>()->reason ==
          "the last 24 answers of the model were unusable: prose");
  }
}

TEST_CASE("Without a model a search continues with its space or ends") {
  const bool with_space = GENERATE(false, true);
  ModelSearch search({}, with_space);
  search.Request();
  search.inputs.has_writer = false;
  if (with_space) {
    CHECK(search.NextAs<ProposeCandidate>());
  } else {
    CHECK(search.NextAs<FinishSearch>()->reason ==
          "this orchestrator was started without a language model");
  }
}

TEST_CASE("A model search expects as many decisions as its limits allow") {
  CHECK(ModelSource().ExpectedDecisions(ModelSearch().history.search()) == 0);
  CHECK(ModelSource().ExpectedDecisions(ModelSearch({.max_requests = 5}).history.search()) == 5);
}

}  // namespace
}  // namespace kernelcast::orchestrator
