#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "services/gateway/dialects/dialects.h"
#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;
using testing::Get;
using testing::Post;

std::vector<Served> WithBudget() {
  std::vector<Served> served = {testing::ServedAs("small", testing::SmallProblem())};
  served[0].max_evaluations = 2;
  return served;
}

struct GepaWorld : testing::World {
  GepaWorld() : World(WithBudget()), api(MakeGepa(context)) {}
  HttpReply Evaluate(const json& candidate, const char* call = "evaluate") {
    return api->Handle(
        Post(std::string("/small/") + call, {{"candidate", candidate}, {"example_id", nullptr}}));
  }
  std::unique_ptr<Dialect> api;
};

TEST_CASE("gepa: the score is the speedup", "[gateway][gepa]") {
  GepaWorld world;
  CHECK(world.Evaluate("int x;\n").status == 503);
  world.evaluator.Answer(testing::OkVerdict());
  const HttpReply reply = world.Evaluate("int x;\n");
  REQUIRE(reply.status == 200);
  CHECK(reply.body["score"] == 2.0);
  CHECK(reply.body["info"] == json{{"correct", true},
                                   {"feedback", "2.00x"},
                                   {"speedup", 2.0},
                                   {"speedup_low", 1.9},
                                   {"speedup_high", 2.1}});
  CHECK(reply.body["budget"] ==
        json{{"exhausted", false}, {"used", 1}, {"max_evals", 2}, {"remaining_evals", 1}});
  // One component, by another call: the same candidate.
  const HttpReply all = world.Evaluate({{"source", "int x;\n"}}, "evaluate_examples");
  CHECK(all.body["average_score"] == 2.0);
  CHECK(all.body["scores"] == json{{"_single", 2.0}});
  CHECK(all.body["num_evaluated"] == 1);
  CHECK(all.body["budget"]["used"] == 1);
  CHECK(world.evaluator.request_ids.size() == 1);
}

TEST_CASE("gepa: a failure scores 0 and says why", "[gateway][gepa]") {
  GepaWorld world;
  world.Evaluate("int x;\n");
  world.evaluator.Answer(testing::Failed(WrongResult(), "wrong at 0"));
  const HttpReply reply = world.Evaluate("int x;\n");
  CHECK(reply.body["score"] == 0.0);
  CHECK(reply.body["info"] == json{{"correct", false}, {"feedback", "wrong at 0"}});
}

TEST_CASE("gepa: a spent budget is status 429, except for known candidates", "[gateway][gepa]") {
  GepaWorld world;
  for (const char* source : {"int a;\n", "int b;\n"}) {
    world.Evaluate(source);
    world.evaluator.Answer(testing::OkVerdict());
  }
  const HttpReply refused = world.Evaluate("int c;\n");
  CHECK(refused.status == 429);
  CHECK(refused.body["error"] == "Budget exhausted");
  CHECK(refused.body["budget"]["exhausted"] == true);
  CHECK(world.Evaluate("int a;\n").status == 200);
  const json status = world.api->Handle(Get("/small/status")).body;
  CHECK(status["task"] == "small");
  CHECK(status["best_score"] == 2.0);
  CHECK(status["total_evals"] == 2);
}

TEST_CASE("gepa: clients at the same time keep to the budget", "[gateway][gepa]") {
  GepaWorld world;
  world.Evaluate("int a;\n");
  std::promise<void> counted;
  std::thread other;
  int status = 0;
  // While the last task of the budget is put, another client asks and reads the count.
  world.archive.on_put = [&] {
    world.archive.on_count = [&] { counted.set_value(); };
    other = std::thread([&] { status = world.Evaluate("int c;\n").status; });
    counted.get_future().wait();
  };
  CHECK(world.Evaluate("int b;\n").status == 503);  // still being measured
  other.join();
  CHECK(status == 429);
  CHECK(world.evaluator.request_ids.size() == 2);
}

TEST_CASE("gepa: an overload is not a spent budget", "[gateway][gepa]") {
  GepaWorld world;
  const HttpReply reply = world.api->Refuse(absl::ResourceExhaustedError("1000 tasks are pending"));
  CHECK(reply.status == 503);
  CHECK(reply.retry_after_s > 0);
}

TEST_CASE("gepa: the task names objective and seed", "[gateway][gepa]") {
  GepaWorld world;
  const json task = world.api->Handle(Get("/small/task")).body;
  CHECK(task["seed_candidate"] == "// reference\n");
  CHECK(task["has_dataset"] == false);
  CHECK(task["objective"] == "Make this kernel faster: A small problem");
}

TEST_CASE("gepa: what is not supported is refused with a reason", "[gateway][gepa]") {
  GepaWorld world;
  CHECK(world.Evaluate({{"a", "x"}, {"b", "y"}}).status == 400);
  CHECK(world.Evaluate(5).body["error"] == "candidate: expected a string");
  CHECK(world.Evaluate("").status == 400);
  CHECK(world.api->Handle(Get("/none/status")).status == 404);
  CHECK(world.api->Handle(Get("/status")).status == 404);
  CHECK(world.api->Handle(Get("/small/evaluate")).status == 404);
  CHECK(world.evaluator.request_ids.empty());
}

}  // namespace
}  // namespace kernelcast::gateway
