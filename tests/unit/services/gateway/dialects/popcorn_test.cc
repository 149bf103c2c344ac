#include <catch2/catch.hpp>
#include <cmath>

#include "services/gateway/dialects/dialects.h"
#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using testing::Get;

struct PopcornWorld : testing::World {
  PopcornWorld() : api(MakePopcorn(context)) {}

  HttpReply Upload(const std::string& target, const std::string& file_name,
                   const std::string& source, const std::string& caller = "me") {
    HttpRequest request = Get(target, caller);
    request.method = "POST";
    request.content_type = "multipart/form-data; boundary=b";
    request.body = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + file_name +
                   "\"\r\n\r\n" + source + "\r\n--b--\r\n";
    return api->Handle(request);
  }
  json Details(const json& id, const std::string& caller = "me") {
    const HttpReply reply = api->Handle(Get("/user/submissions/" + id.dump(), caller));
    INFO(reply.body);
    REQUIRE(reply.status == 200);
    return reply.body;
  }
  std::unique_ptr<Dialect> api;
};

TEST_CASE("popcorn: problems are leaderboards with their GPUs", "[gateway][popcorn]") {
  PopcornWorld world;
  const json boards = world.api->Handle(Get("/leaderboards")).body;
  REQUIRE(boards.size() == 2);
  CHECK(boards[0]["name"] == "small");
  CHECK(boards[0]["description"] == "A small problem");
  CHECK(boards[0]["task"] == json{{"lang", "cu"}});
  CHECK(boards[1]["task"] == json{{"lang", "py"}});
  CHECK(world.api->Handle(Get("/gpus/small")).body == json({"h200", "b200"}));
  CHECK(world.api->Handle(Get("/gpus/relu")).body == json::array({"cpu"}));
  CHECK(world.api->Handle(Get("/gpus/none")).body ==
        json{{"detail", "Leaderboard none does not exist."}});
  CHECK(world.api->Handle(Get("/runner_queue/h200")).body ==
        json{{"runner", "Kernelcast"}, {"gpu", "h200"}, {"queued_jobs", 0}});
}

TEST_CASE("popcorn: a submission to a leaderboard is polled until it has a score",
          "[gateway][popcorn]") {
  PopcornWorld world;
  const HttpReply reply = world.Upload("/submission/small/B200/leaderboard", "a.cu", "int x;\n");
  REQUIRE(reply.status == 202);
  CHECK(reply.body["status"] == "accepted");
  CHECK(reply.body["runner_queue"]["queued_jobs"] == 1);
  const json id = reply.body["details"]["id"];
  REQUIRE(id.is_number_integer());
  CHECK(id.get<int64_t>() < (int64_t{1} << 52));
  CHECK(world.evaluator.submissions[0]->device_model == "b200");
  json details = world.Details(id);
  CHECK(details["done"] == false);
  CHECK(details["job"]["status"] == "running");
  CHECK(details["runs"].empty());
  world.evaluator.Answer(testing::OkVerdict());
  details = world.Details(id);
  CHECK(details["done"] == true);
  CHECK(details["id"] == id);
  CHECK(details["job"] ==
        json{{"status", "succeeded"}, {"error", nullptr}, {"last_heartbeat", nullptr}});
  CHECK(details["leaderboard_name"] == "small");
  CHECK(details["file_name"] == "a.cu");
  CHECK(details["code"] == "int x;\n");
  REQUIRE(details["runs"].size() == 3);
  CHECK(details["runs"][0]["mode"] == "test");
  CHECK(details["runs"][0]["passed"] == true);
  CHECK(details["runs"][0]["score"] == nullptr);
  CHECK(details["runs"][1]["mode"] == "benchmark");
  CHECK(details["runs"][1]["result"]["benchmark-count"] == "2");
  CHECK(details["runs"][1]["result"]["benchmark.1.spec"] == "n: 2048");
  CHECK(details["runs"][1]["result"]["benchmark.1.mean"] == "4e+06");
  const json& scored = details["runs"][2];
  CHECK(scored["mode"] == "leaderboard");
  CHECK(scored["score"].get<double>() == Approx(2e-3));  // the geometric mean of 1 and 4 ms
  CHECK(scored["runner"] == "b200");
  CHECK(scored["start_time"] == "1970-01-01T00:00:01.000Z");
}

TEST_CASE("popcorn: the score counts the weights of shapes", "[gateway][popcorn]") {
  PopcornWorld world;
  const json id =
      world.Upload("/submission/small/B200/leaderboard", "a.cu", "int x;\n").body["details"]["id"];
  Verdict verdict = testing::OkVerdict();
  auto& ok = std::get<MeasuredOk>(verdict.measurement->outcome);
  ok.shapes[0].weight = 0.25;
  ok.shapes[1].weight = 0.75;
  world.evaluator.Answer(std::move(verdict));
  // 1 ms and 4 ms: 4^0.75 ms.
  CHECK(world.Details(id)["runs"][2]["score"].get<double>() == Approx(1e-3 * std::exp2(1.5)));
}

TEST_CASE("popcorn: each mode has its runs", "[gateway][popcorn]") {
  PopcornWorld world;
  const std::pair<const char*, size_t> modes[] = {{"test", 1}, {"benchmark", 2}};
  for (const auto& [mode, runs] : modes) {
    const HttpReply reply =
        world.Upload(std::string("/submission/small/h200/") + mode, "a.cu", "int x;\n");
    CHECK(world.evaluator.submissions.back()->checks_only == (std::string(mode) == "test"));
    world.evaluator.Answer(testing::OkVerdict());
    CHECK(world.Details(reply.body["details"]["id"])["runs"].size() == runs);
  }
}

TEST_CASE("popcorn: a test is answered from a check", "[gateway][popcorn]") {
  PopcornWorld world;
  const auto answer = [&](MeasureOutcome outcome, const std::string& source) {
    const json id =
        world.Upload("/submission/small/h200/test", "a.cu", source).body["details"]["id"];
    world.evaluator.Answer(testing::Failed(std::move(outcome), "as it is"));
    return world.Details(id);
  };
  const json passed = answer(Passed{.correctness_cases = 5}, "int x;\n");
  CHECK(passed["job"]["status"] == "succeeded");
  REQUIRE(passed["runs"].size() == 1);
  CHECK(passed["runs"][0]["mode"] == "test");
  CHECK(passed["runs"][0]["passed"] == true);
  CHECK(passed["runs"][0]["score"] == nullptr);
  const json failed = answer(WrongResult{}, "int y;\n");
  CHECK(failed["job"]["status"] == "failed");
  CHECK(failed["job"]["error"] == "as it is");
  CHECK(failed["runs"][0]["passed"] == false);
}

TEST_CASE("popcorn: the same file again is the same submission", "[gateway][popcorn]") {
  PopcornWorld world;
  const json first = world.Upload("/submission/small/h200/test", "a.cu", "int x;\n").body;
  CHECK(world.Upload("/submission/small/h200/test", "a.cu", "int x;\n").body == first);
  CHECK(world.evaluator.request_ids.size() == 1);
  CHECK(world.Upload("/submission/small/h200/test", "a.cu", "int x;\n", "you").body != first);
}

TEST_CASE("popcorn: the error of a failed candidate is that of the job", "[gateway][popcorn]") {
  PopcornWorld world;
  const std::pair<Verdict, const char*> cases[] = {
      {testing::NotCompiled("no ;"), "failed"},
      {testing::Failed(WrongResult(), "wrong at 0"), "failed"},
      {testing::Failed(Timeout(), "too slow"), "timed_out"},
      {testing::Failed(Exploit(), "cached output"), "hacked"}};
  int number = 0;
  for (const auto& [verdict, status] : cases) {
    const std::string source = "int x" + std::to_string(++number) + ";\n";
    const json id =
        world.Upload("/submission/small/h200/test", "a.cu", source).body["details"]["id"];
    world.evaluator.Answer(verdict);
    const json details = world.Details(id);
    CHECK(details["done"] == true);
    CHECK(details["job"]["status"] == status);
    CHECK_FALSE(details["job"]["error"].get<std::string>().empty());
    CHECK(details["runs"][0]["passed"] == false);
    CHECK(details["runs"][0]["score"] == nullptr);
    // popcorn-cli lists the runners of runs, and no errors.
    const std::string error = details["job"]["error"].get<std::string>();
    CHECK(details["runs"][0]["runner"] == "h200 (" + error.substr(0, error.find('\n')) + ")");
  }
  // popcorn-cli lists the GPUs of runs.
  for (const json& listed : world.api->Handle(Get("/user/submissions", "me")).body) {
    CHECK(listed["runs"] == json::array());
  }
}

TEST_CASE("popcorn: a submission without a verdict has a run that says why", "[gateway][popcorn]") {
  PopcornWorld world;
  const json id =
      world.Upload("/submission/small/h200/leaderboard", "a.cu", "int x;\n").body["details"]["id"];
  for (int attempt = 0; attempt < 3; ++attempt) {
    world.evaluator.Answer(testing::NoVerdict("the machine was too noisy"));
  }
  const json details = world.Details(id);
  CHECK(details["done"] == true);
  CHECK(details["job"]["status"] == "failed");
  REQUIRE(details["runs"].size() == 1);
  CHECK(details["runs"][0]["passed"] == false);
  CHECK(details["runs"][0]["runner"] == "h200 (no verdict: the machine was too noisy)");
}

TEST_CASE("popcorn: callers see their own submissions, latest first", "[gateway][popcorn]") {
  PopcornWorld world;
  const json a = world.Upload("/submission/small/h200/test", "a.cu", "int a;\n").body;
  const json b = world.Upload("/submission/small/h200/leaderboard", "b.cu", "int b;\n").body;
  world.Upload("/submission/small/h200/test", "c.cu", "int c;\n", "you");
  world.evaluator.Answer(testing::OkVerdict());
  world.evaluator.Answer(testing::OkVerdict());
  const json mine = world.api->Handle(Get("/user/submissions?limit=10", "me")).body;
  REQUIRE(mine.size() == 2);
  CHECK(mine[0]["file_name"] == "b.cu");
  CHECK(mine[0]["runs"][2]["gpu_type"] == "h200");
  CHECK(mine[0]["runs"][2]["score"].get<double>() == Approx(2e-3));
  CHECK(mine[1]["id"] == a["details"]["id"]);
  CHECK(world.api->Handle(Get("/user/submissions?leaderboard=relu", "me")).body == json::array());
  CHECK(world.api->Handle(Get("/user/submissions?limit=1&offset=1", "me")).body[0] == mine[1]);
  CHECK(world.api->Handle(Get("/user/submissions?limit=101", "me")).status == 400);
  const HttpReply other =
      world.api->Handle(Get("/user/submissions/" + a["details"]["id"].dump(), "you"));
  CHECK(other.status == 403);
  CHECK(world.api->Handle(Get("/user/submissions/123", "me")).status == 404);
}

TEST_CASE("popcorn: what is not supported is refused with a reason", "[gateway][popcorn]") {
  PopcornWorld world;
  const auto detail = [](const HttpReply& reply) {
    return reply.body["detail"].get<std::string>();
  };
  CHECK_THAT(detail(world.Upload("/submission/none/h200/test", "a.cu", "x")),
             Contains("not exist"));
  CHECK_THAT(detail(world.Upload("/submission/small/t4/test", "a.cu", "x")),
             Contains("h200, b200"));
  CHECK_THAT(detail(world.Upload("/submission/small/h200/secret", "a.cu", "x")), Contains("mode"));
  CHECK_THAT(detail(world.Upload("/submission/small/h200/test", "a.txt", "x")), Contains(".cuh"));
  CHECK_THAT(detail(world.Upload("/submission/small/h200/test", "a.py", "x")),
             Contains("launches"));
  CHECK_THAT(detail(world.Upload("/submission/relu/cpu/test", "a.cu", "x")), Contains("ModelNew"));
  const HttpReply profile = world.Upload("/small/h200/profile", "a.cu", "x");
  CHECK(profile.status == 501);
  CHECK_THAT(detail(profile), Contains("test, benchmark and leaderboard"));
  CHECK(world.api->Handle(Get("/auth/init")).status == 501);
  CHECK(world.evaluator.request_ids.empty());
}

}  // namespace
}  // namespace kernelcast::gateway
