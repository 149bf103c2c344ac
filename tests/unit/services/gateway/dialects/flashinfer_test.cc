#include <catch2/catch.hpp>

#include "services/gateway/dialects/dialects.h"
#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using nlohmann::json;
using testing::Get;
using testing::Post;

struct FlashinferWorld : testing::World {
  FlashinferWorld() : api(MakeFlashinfer(context)) {}
  json Ok(const HttpRequest& request) {
    const HttpReply reply = api->Handle(request);
    INFO(reply.body);
    REQUIRE(reply.status == 200);
    return reply.body;
  }
  std::unique_ptr<Dialect> api;
};

json SolutionFor(const std::string& definition, const std::string& language,
                 const std::string& entry, const std::string& source) {
  return {{"solution",
           {{"name", "mine"},
            {"definition", definition},
            {"author", "me"},
            {"spec",
             {{"language", language},
              {"target_hardware", {"cuda"}},
              {"entry_point", "main::" + entry},
              {"dependencies", json::array()},
              {"destination_passing_style", true},
              {"binding", nullptr}}},
            {"sources", {{{"path", "main"}, {"content", source}}}},
            {"description", nullptr}}}};
}

json Native(const std::string& source = "int x;\n") {
  return SolutionFor("small", "cpp", "kernelcast_run", source);
}

TEST_CASE("flashinfer: problems are definitions, and bench shapes their workloads",
          "[gateway][flashinfer]") {
  FlashinferWorld world;
  CHECK(world.Ok(Get("/definitions")) ==
        json::array({{{"name", "small"}, {"description", "A small problem"}},
                     {{"name", "relu"}, {"description", "relu"}}}));
  const json definition = world.Ok(Get("/definitions/small"));
  CHECK(definition["axes"] == json{{"n", {{"type", "var"}}}});
  CHECK(definition["reference"] ==
        "# // reference\n# \ndef run():\n"
        "    raise NotImplementedError(\"the reference is native code\")\n");
  CHECK_THAT(world.Ok(Get("/definitions/relu"))["reference"].get<std::string>(),
             EndsWith("def run(*inputs):\n    return Model(*get_init_inputs())(*inputs)\n"));
  const json workloads = world.Ok(Get("/definitions/small/workloads"));
  REQUIRE(workloads.size() == 2);
  CHECK(workloads[1]["axes"] == json{{"n", 2048}});
  CHECK(world.Ok(Get("/workloads/" + workloads[1]["uuid"].get<std::string>())) == workloads[1]);
  const HttpReply missing = world.api->Handle(Get("/definitions/none"));
  CHECK(missing.status == 404);
  CHECK(missing.body == json{{"detail", "Definition not found: none"}});
}

TEST_CASE("flashinfer: a solution that passes has a trace for each workload",
          "[gateway][flashinfer]") {
  FlashinferWorld world;
  const json accepted = world.Ok(Post("/evaluate", Native()));
  const std::string id = accepted["task_id"];
  CHECK_THAT(accepted["normalized_solution_name"].get<std::string>(), Contains("mine_"));
  REQUIRE(world.evaluator.submissions.size() == 1);
  CHECK(world.evaluator.submissions[0]->device_model == "h200");
  json task = world.Ok(Get("/tasks/" + id));
  CHECK(task["status"] == "running");
  CHECK(task["traces"] == nullptr);
  world.evaluator.Answer(testing::OkVerdict());
  task = world.Ok(Get("/tasks/" + id + "?timeout=5"));
  CHECK(task["status"] == "completed");
  CHECK(task["definition"] == "small");
  CHECK(task["solution"] == accepted["normalized_solution_name"]);
  REQUIRE(task["traces"].size() == 2);
  const json& evaluation = task["traces"][1]["evaluation"];
  CHECK(evaluation["status"] == "PASSED");
  CHECK(evaluation["environment"]["hardware"] == "NVIDIA H200");
  CHECK(evaluation["timestamp"] == "1970-01-01T00:00:03.000Z");
  CHECK(evaluation["performance"] ==
        json{{"latency_ms", 4.0}, {"reference_latency_ms", 8.0}, {"speedup_factor", 2.0}});
  CHECK(evaluation["correctness"] == json{{"extra", {{"cases", 12}}}});
  CHECK(world.Ok(Post("/tasks/batch", {{"task_ids", {id, id}}})) == json::array({task, task}));
}

TEST_CASE("flashinfer: the same solution again is the same task", "[gateway][flashinfer]") {
  FlashinferWorld world;
  CHECK(world.Ok(Post("/evaluate", Native())) == world.Ok(Post("/evaluate", Native())));
  CHECK(world.Ok(Post("/evaluate", Native())) != world.Ok(Post("/evaluate", Native("int y;\n"))));
  CHECK(world.evaluator.request_ids.size() == 2);
}

TEST_CASE("flashinfer: an edited problem has other tasks", "[gateway][flashinfer]") {
  FlashinferWorld world;
  const json before = world.Ok(Post("/evaluate", Native()));
  // The gateway starts again with another problem of this name.
  std::vector<Served> edited = testing::World::DefaultServed();
  edited[0].problem.problem_id = "p_00000000000000000000000000000002";
  const Catalogue catalogue(edited, Site());
  DialectContext context = world.context;
  context.catalogue = &catalogue;
  const HttpReply after = MakeFlashinfer(context)->Handle(Post("/evaluate", Native()));
  CHECK(after.status == 200);
  CHECK(after.body["task_id"] != before["task_id"]);
}

TEST_CASE("flashinfer: a solution may ask for some workloads", "[gateway][flashinfer]") {
  FlashinferWorld world;
  const json workloads = world.Ok(Get("/definitions/small/workloads"));
  json some = Native();
  some["workload_uuids"] = {workloads[0]["uuid"]};
  json none = Native();
  none["workload_uuids"] = {"nonexistent"};
  const std::string some_id = world.Ok(Post("/evaluate", some))["task_id"];
  const std::string none_id = world.Ok(Post("/evaluate", none))["task_id"];
  // It is not evaluated.
  REQUIRE(world.evaluator.submissions.size() == 1);
  world.evaluator.Answer(testing::OkVerdict());
  const json task = world.Ok(Get("/tasks/" + some_id));
  REQUIRE(task["traces"].size() == 1);
  CHECK(task["traces"][0]["workload"] == workloads[0]);
  const json failed = world.Ok(Get("/tasks/" + none_id));
  CHECK(failed["status"] == "failed");
  CHECK(failed["error"] == "No workloads found for definition: small");
  CHECK(world.Ok(Post("/tasks/batch", {{"task_ids", {none_id, some_id}}, {"timeout", 5}})) ==
        json::array({failed, task}));
  CHECK(world.api->Handle(Get("/tasks/failed_")).status == 404);
}

TEST_CASE("flashinfer: failures have the status of their kind", "[gateway][flashinfer]") {
  FlashinferWorld world;
  WrongResult wrong;
  wrong.got = 1;
  wrong.expected = 2;
  wrong.mismatches = 3;
  wrong.elements = 4;
  WrongResult shape;
  shape.cause = WrongResult::Cause::kShape;
  WrongResult dtype;
  dtype.cause = WrongResult::Cause::kDtype;
  const std::pair<Verdict, const char*> cases[] = {
      {testing::NotCompiled("no ;"), "COMPILE_ERROR"},
      {testing::Failed(wrong, "wrong at 0"), "INCORRECT_NUMERICAL"},
      {testing::Failed(shape, "output Y is float32 [1]"), "INCORRECT_SHAPE"},
      {testing::Failed(dtype, "output Y is float16 [2]"), "INCORRECT_DTYPE"},
      {testing::Failed(Crash(), "signal 11"), "RUNTIME_ERROR"},
      {testing::Failed(Exploit(), "wrote out of bounds"), "RUNTIME_ERROR"},
      {testing::Failed(Timeout(), "timed out"), "TIMEOUT"}};
  int number = 0;
  for (const auto& [verdict, status] : cases) {
    const std::string source = "int x" + std::to_string(++number) + ";\n";
    const std::string id = world.Ok(Post("/evaluate", Native(source)))["task_id"];
    world.evaluator.Answer(verdict);
    const json task = world.Ok(Get("/tasks/" + id));
    CHECK(task["status"] == "completed");
    const json& evaluation = task["traces"][0]["evaluation"];
    CHECK(evaluation["status"] == status);
    CHECK(evaluation["performance"] == nullptr);
    CHECK((evaluation["correctness"] != nullptr) ==
          (evaluation["status"] == "INCORRECT_NUMERICAL"));
    CHECK_FALSE(evaluation["log"].get<std::string>().empty());
  }
}

TEST_CASE("flashinfer: a task without a verdict has failed", "[gateway][flashinfer]") {
  FlashinferWorld world;
  const std::string id = world.Ok(Post("/evaluate", Native()))["task_id"];
  for (int i = 0; i < 3; ++i) world.evaluator.Answer(testing::NoVerdict("no worker"));
  const json task = world.Ok(Get("/tasks/" + id));
  CHECK(task["status"] == "failed");
  CHECK(task["error"] == "no verdict: no worker");
  CHECK(task["traces"] == nullptr);
}

TEST_CASE("flashinfer: what is not supported is refused with a reason", "[gateway][flashinfer]") {
  FlashinferWorld world;
  json two = Native();
  two["solution"]["sources"].push_back({{"path", "b"}, {"content", "int y;\n"}});
  json dependent = Native();
  dependent["solution"]["spec"]["dependencies"] = {"cutlass"};
  const std::pair<json, const char*> cases[] = {
      {SolutionFor("none", "cpp", "kernelcast_run", "int x;"), "Definition not found: none"},
      {SolutionFor("small", "tilelang", "kernelcast_run", "x"), "'tilelang' is not supported"},
      {SolutionFor("small", "triton", "kernelcast_run", "x = 1"), "launches"},
      {SolutionFor("relu", "cuda", "ModelNew", "int x;"), "defines ModelNew"},
      {SolutionFor("relu", "python", "run", "x = 1"), "define ModelNew"},
      {two, "one source"},
      {dependent, "dependencies"},
      {json{{"solution", {{"name", "x"}}}}, "spec: is missing"},
      {json::object(), "solution: is missing"}};
  for (const auto& [body, expected] : cases) {
    const HttpReply reply = world.api->Handle(Post("/evaluate", body));
    CHECK(reply.status == 400);
    CHECK_THAT(reply.body["detail"].get<std::string>(), Contains(expected));
  }
  CHECK(world.evaluator.request_ids.empty());
  CHECK(world.api->Handle(Get("/tasks/none")).body == json{{"detail", "Task not found: none"}});
  CHECK(world.api->Handle(Get("/tasks/none?timeout=x")).status == 400);
  CHECK(world.api->Handle(Post("/shutdown", json::object())).status == 403);
  CHECK(world.api->Handle(Get("/nothing")).status == 404);
  const HttpReply profile = world.api->Handle(Post("/profile", Native()));
  CHECK(profile.status == 501);
  CHECK_THAT(profile.body["detail"].get<std::string>(), Contains("profiles are not served"));
}

TEST_CASE("flashinfer: a definition is served as it is, with its workloads",
          "[gateway][flashinfer]") {
  std::vector<Served> served = testing::World::DefaultServed();
  const json definition = {{"name", "scale"},
                           {"axes", {{"rows", {{"type", "var"}}}}},
                           {"inputs", {{"x", {{"shape", {"rows"}}, {"dtype", "float32"}}}}},
                           {"outputs", {{"y", {{"shape", {"rows"}}, {"dtype", "float32"}}}}},
                           {"reference", "def run(x):\n    return x * 2\n"}};
  const json workload = {
      {"axes", {{"rows", 8}}}, {"inputs", {{"x", {{"type", "random"}}}}}, {"uuid", "w-8"}};
  served[1].name = "scale";
  served[1].problem =
      ParseProblem({{"scale.json", definition.dump()}, {"scale.jsonl", workload.dump() + "\n"}})
          .value();
  FlashinferWorld world;
  const Catalogue catalogue(served, Site());
  DialectContext context = world.context;
  context.catalogue = &catalogue;
  const auto api = MakeFlashinfer(context);
  CHECK(api->Handle(Get("/definitions/scale")).body == definition);
  CHECK(api->Handle(Get("/definitions/scale/workloads")).body == json::array({workload}));
  CHECK(api->Handle(Get("/workloads/w-8")).body == workload);

  // Several sources, and an entry point of any name.
  json solution = SolutionFor("scale", "python", "kernel", "from helper import twice as kernel\n");
  solution["solution"]["sources"].push_back({{"path", "helper.py"}, {"content", "twice = None\n"}});
  const HttpReply accepted = api->Handle(Post("/evaluate", solution));
  INFO(accepted.body);
  REQUIRE(accepted.status == 200);
  REQUIRE(world.evaluator.submissions.size() == 1);
  const json source = json::parse(world.evaluator.submissions[0]->candidate.source);
  CHECK(source["spec"]["entry_point"] == "main::kernel");
  CHECK(source["spec"]["destination_passing_style"] == true);
  CHECK(source["sources"] == solution["solution"]["sources"]);
  CHECK_FALSE(source.contains("name"));
}

TEST_CASE("flashinfer: the endpoints are described", "[gateway][flashinfer]") {
  FlashinferWorld world;
  const json paths = world.Ok(Get("/openapi.json"))["paths"];
  for (const json& endpoint : world.Ok(Get("/"))["endpoints"]) {
    INFO(endpoint);
    std::string method = endpoint["method"];
    std::transform(method.begin(), method.end(), method.begin(), ::tolower);
    CHECK(paths[endpoint["path"].get<std::string>()].contains(method));
  }
  const HttpReply docs = world.api->Handle(Get("/docs"));
  CHECK(docs.status == 200);
  CHECK_THAT(docs.page, Contains("/tasks/{task_id}"));
}

TEST_CASE("flashinfer: health names the devices", "[gateway][flashinfer]") {
  FlashinferWorld world;
  const json health = world.Ok(Get("/health"));
  CHECK(health["status"] == "ok");
  CHECK(health["queue_size"] == 0);
  CHECK(health["workers"].size() == 3);
  CHECK(health["workers"][0] == json{{"device", "b200"}, {"healthy", true}});
}

}  // namespace
}  // namespace kernelcast::gateway
