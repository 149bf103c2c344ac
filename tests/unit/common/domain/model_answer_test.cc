#include "common/domain/model_answer.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast {
namespace {

ModelAnswer Unreadable(const std::string& fault, const std::string& detail) {
  return {ModelOutcome::kUnreadable, fault, detail, {10, 0, 5, 0.25}};
}

TEST_CASE("Model use counts each answer once and keeps the first example of each fault") {
  ModelUse use;
  CHECK(use.empty());
  use.Add({ModelOutcome::kNotAsked});
  CHECK(use.empty());
  use.Add({ModelOutcome::kUsed, "", "", {100, 50, 20, 1}});
  use.Add({ModelOutcome::kDeclined});
  use.Add(Unreadable("no_json", "I think so"));
  use.Add(Unreadable("no_json", "Perhaps"));
  use.Add(Unreadable("bad_sum", "{}"));
  use.Add({ModelOutcome::kUnanswered, "", "HTTP 503"});
  use.Add({ModelOutcome::kBudget});
  CHECK(use.asked == 6);
  CHECK(use.used == 1);
  CHECK(use.declined == 1);
  CHECK(use.unanswered == 1);
  CHECK(use.over_budget == 1);
  CHECK(use.last_error == "HTTP 503");
  REQUIRE(use.unreadable.size() == 2);
  CHECK(use.unreadable.at("no_json") == ModelUse::Unreadable{2, "I think so"});
  CHECK(use.token_usage == TokenUsage{130, 50, 35, 1.75});
}

TEST_CASE("Model use is bounded whatever models answer") {
  ModelUse use;
  for (int i = 0; i < 100; ++i) {
    use.Add(Unreadable("fault" + std::to_string(i), std::string(10'000, 'x')));
  }
  CHECK(use.unreadable.size() <= ModelUse::kMaxFaults + 1);
  CHECK(use.unreadable.at("other").count == 100 - ModelUse::kMaxFaults);
  for (const auto& [fault, answers] : use.unreadable) {
    CHECK(answers.example.size() <= kMaxModelDetailBytes);
  }
}

}  // namespace
}  // namespace kernelcast
