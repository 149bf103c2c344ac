#include <catch2/catch.hpp>

#include "services/gateway/dialects/dialects.h"
#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;
using testing::Post;

struct SlimeWorld : testing::World {
  SlimeWorld() : api(MakeSlime(context)) {}
  HttpReply Reward(const std::string& target, const std::string& response,
                   const json& label = nullptr) {
    return api->Handle(
        Post(target, {{"prompt", "Write a kernel."}, {"response", response}, {"label", label}}));
  }
  std::unique_ptr<Dialect> api;
};

TEST_CASE("slime: the reward is the speedup, once it is measured", "[gateway][slime]") {
  SlimeWorld world;
  const HttpReply waiting = world.Reward("/small", "Here:\n```cpp\nint x;\n```\n");
  CHECK(waiting.status == 503);
  CHECK(waiting.retry_after_s > 0);
  world.evaluator.Answer(testing::OkVerdict());
  const HttpReply reply = world.Reward("/small", "Here:\n```cpp\nint x;\n```\n");
  CHECK(reply.status == 200);
  CHECK(reply.body == 2.0);
  // By its label, and in other words.
  CHECK(world.Reward("/", "Again:\n```\nint x;\n```", "small").body == 2.0);
  CHECK(world.evaluator.request_ids.size() == 1);
}

TEST_CASE("slime: the source is the last fenced block, or the whole response", "[gateway][slime]") {
  SlimeWorld world;
  world.Reward("/small", "```\nfirst\n```\nbetter:\n```cpp\nsecond\n```\n");
  world.Reward("/small", "int plain;\n");
  world.Reward("/small", "```cpp\nint unfinished;\n");
  REQUIRE(world.evaluator.submissions.size() == 3);
  CHECK(world.evaluator.submissions[0]->candidate.source == "second\n");
  CHECK(world.evaluator.submissions[1]->candidate.source == "int plain;\n");
  CHECK(world.evaluator.submissions[2]->candidate.source == "```cpp\nint unfinished;\n");
}

TEST_CASE("slime: a candidate that fails has the reward 0", "[gateway][slime]") {
  SlimeWorld world;
  const Verdict verdicts[] = {testing::NotCompiled("no"), testing::Failed(WrongResult(), "wrong"),
                              testing::Failed(Exploit(), "cheats")};
  int number = 0;
  for (const Verdict& verdict : verdicts) {
    const std::string response = "int x" + std::to_string(++number) + ";\n";
    world.Reward("/small", response);
    world.evaluator.Answer(verdict);
    CHECK(world.Reward("/small", response).body == 0.0);
  }
  CHECK(world.Reward("/small", "").body == 0.0);
}

TEST_CASE("slime: without a verdict there is no reward", "[gateway][slime]") {
  SlimeWorld world;
  world.Reward("/small", "int x;\n");
  for (int i = 0; i < 3; ++i) world.evaluator.Answer(testing::NoVerdict("no worker"));
  CHECK(world.Reward("/small", "int x;\n").status == 503);
  CHECK(world.Reward("/none", "int x;\n").status == 404);
  CHECK(world.Reward("/", "int x;\n").status == 400);
  CHECK(world.api->Handle(Post("/small", {{"response", 5}})).status == 400);
  CHECK(world.api->Handle(testing::Get("/small")).status == 404);
}

}  // namespace
}  // namespace kernelcast::gateway
