#include <catch2/catch.hpp>

#include "services/gateway/dialects/dialects.h"
#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using testing::Get;
using testing::Post;

constexpr char kKernel[] = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n";

struct KernelgymWorld : testing::World {
  KernelgymWorld() : api(MakeKernelgym(context)) {}
  json Ok(const HttpRequest& request) {
    const HttpReply reply = api->Handle(request);
    INFO(reply.body);
    REQUIRE(reply.status == 200);
    return reply.body;
  }
  std::unique_ptr<Dialect> api;
};

json KernelgymTask(const std::string& id, const std::string& kernel = kKernel) {
  // As Dr.Kernel's client sends it.
  return {{"task_id", id},
          {"reference_code", testing::kTaskSource},
          {"kernel_code", kernel},
          {"backend", "triton"},
          {"num_correct_trials", 5},
          {"num_perf_trials", 100},
          {"timeout", 300},
          {"priority", "normal"},
          {"entry_point", "Model"},
          {"is_valid", nullptr},
          {"verbose_errors", true},
          {"enable_profiling", true},
          {"detect_decoy_kernel", true},
          {"reference_backend", nullptr}};
}

TEST_CASE("kernelgym: a task is submitted, polled and fetched", "[gateway][kernelgym]") {
  KernelgymWorld world;
  const json first = world.Ok(Post("/evaluate", KernelgymTask("t/1")));
  CHECK(first["status"] == "processing");
  CHECK(first["task_id"] == "t/1");
  REQUIRE(world.evaluator.submissions.size() == 1);
  const Submission& submission = *world.evaluator.submissions[0];
  CHECK(submission.candidate.kind == CandidateKind::kPython);
  REQUIRE(submission.problem_files.size() == 1);
  CHECK(submission.problem_files[0].content == testing::kTaskSource);
  CHECK(world.Ok(Get("/status/t%2F1")) == json{{"task_id", "t/1"}, {"status", "processing"}});
  CHECK(world.api->Handle(Get("/results/t%2F1")).status == 404);
  world.evaluator.Answer(testing::OkVerdict());
  CHECK(world.Ok(Get("/status/t%2F1"))["status"] == "completed");
  const json result = world.Ok(Get("/results/t%2F1"));
  CHECK(result["compiled"] == true);
  CHECK(result["correctness"] == true);
  CHECK(result["decoy_kernel"] == false);
  CHECK(result["kernel_runtime"].get<double>() == Approx(5));
  CHECK(result["reference_runtime"].get<double>() == Approx(10));
  CHECK(result["speedup"] == 2.0);
  CHECK(result["metadata"]["gpu_name"] == "NVIDIA H200");
  CHECK(result["error_message"] == nullptr);
  CHECK(result["processing_time"] == 2.0);
  // A retry of the submission joins.
  CHECK(world.Ok(Post("/evaluate", KernelgymTask("t/1"))) == result);
  CHECK(world.evaluator.request_ids.size() == 1);
}

TEST_CASE("kernelgym: failures of a kernel are completed tasks", "[gateway][kernelgym]") {
  KernelgymWorld world;
  world.Ok(Post("/evaluate", KernelgymTask("a")));
  world.evaluator.Answer(testing::NotCompiled("no colon"));
  const json broken = world.Ok(Get("/results/a"));
  CHECK(broken["status"] == "completed");
  CHECK(broken["compiled"] == false);
  CHECK(broken["correctness"] == false);
  CHECK(broken["speedup"] == nullptr);
  CHECK(broken["error_message"] == "no colon");
  world.Ok(Post("/evaluate", KernelgymTask("b")));
  world.evaluator.Answer(testing::Failed(WrongResult(), "wrong at 0"));
  const json wrong = world.Ok(Get("/results/b"));
  CHECK(wrong["compiled"] == true);
  CHECK(wrong["correctness"] == false);
  CHECK(wrong["decoy_kernel"] == false);
  CHECK(wrong["metadata"]["outcome"] == "wrong_result");
  world.Ok(Post("/evaluate", KernelgymTask("c")));
  world.evaluator.Answer(testing::Failed(Exploit(), "cached output"));
  CHECK(world.Ok(Get("/results/c"))["decoy_kernel"] == true);
}

TEST_CASE("kernelgym: a task without a verdict has failed, and may be sent again",
          "[gateway][kernelgym]") {
  KernelgymWorld world;
  world.Ok(Post("/evaluate", KernelgymTask("a")));
  for (int i = 0; i < 3; ++i) world.evaluator.Answer(testing::NoVerdict("no worker"));
  const json status = world.Ok(Get("/status/a"));
  CHECK(status["status"] == "failed");
  CHECK(status["error_message"] == "no verdict: no worker");
  CHECK(world.Ok(Post("/evaluate", KernelgymTask("a")))["status"] == "processing");
}

TEST_CASE("kernelgym: a batch has a result for each of its tasks", "[gateway][kernelgym]") {
  KernelgymWorld world;
  json bad = KernelgymTask("bad");
  bad["entry_point"] = "Other";
  const json batch = {{"batch_id", "b1"}, {"tasks", {KernelgymTask("a"), bad, KernelgymTask("c")}}};
  json reply = world.Ok(Post("/evaluate/batch", batch));
  CHECK(reply["batch_status"] == "processing");
  world.evaluator.Answer(testing::OkVerdict());
  world.evaluator.Answer(testing::NotCompiled("no"));
  reply = world.Ok(Post("/evaluate/batch", batch));
  CHECK(reply["batch_id"] == "b1");
  CHECK(reply["total_tasks"] == 3);
  CHECK(reply["completed_tasks"] == 2);
  CHECK(reply["failed_tasks"] == 1);
  CHECK(reply["batch_status"] == "completed");
  CHECK(reply["results"][0]["speedup"] == 2.0);
  CHECK_THAT(reply["results"][1]["error_message"].get<std::string>(), Contains("entry_point"));
  CHECK(reply["results"][2]["compiled"] == false);
}

TEST_CASE("kernelgym: what is not supported is refused with a reason", "[gateway][kernelgym]") {
  KernelgymWorld world;
  const auto with = [](const char* field, const json& value) {
    json task = KernelgymTask("a");
    task[field] = value;
    return task;
  };
  const std::pair<json, const char*> cases[] = {
      {with("task_id", ""), "task_id"},
      {with("task_id", std::string(101, 'a')), "task_id"},
      {with("kernel_code", "short"), "kernel_code"},
      {with("reference_code", "print('no task at all')"), "reference.py: does not define"},
      {with("reference_code", nullptr), "reference_code: is missing"},
      {with("backend", "sycl"), "backend"},
      {with("workflow", "kernel_simple"), "workflow"},
      {with("toolkit", 1), "toolkit: expected a string"},
      {with("entry_point", "Net"), "entry_point"},
      {with("force_refresh", true), "force_refresh"}};
  for (const auto& [body, expected] : cases) {
    const HttpReply reply = world.api->Handle(Post("/evaluate", body));
    CHECK(reply.status == 400);
    CHECK(reply.body["error"] == "RequestValidationError");
    CHECK(reply.body["error_code"] == "VALIDATION_ERROR");
    CHECK_THAT(reply.body["message"].get<std::string>(), Contains(expected));
  }
  CHECK(world.evaluator.request_ids.empty());
  CHECK(world.api->Handle(Get("/status/none")).body == json{{"detail", "Task none not found"}});
  HttpRequest cancel = Get("/tasks/none");
  cancel.method = "DELETE";
  CHECK(world.api->Handle(cancel).status == 404);
  world.Ok(Post("/evaluate", KernelgymTask("a")));
  const json other = with("kernel_code", std::string(kKernel) + "# another\n");
  CHECK(world.api->Handle(Post("/evaluate", other)).status == 409);
}

TEST_CASE("kernelgym: health tells what has been done", "[gateway][kernelgym]") {
  KernelgymWorld world;
  world.Ok(Post("/evaluate", KernelgymTask("a")));
  world.Ok(Post("/evaluate", KernelgymTask("b")));
  world.evaluator.Answer(testing::OkVerdict());
  world.clock.Advance(5'000'000'000);
  const json health = world.Ok(Get("/health"));
  CHECK(health["status"] == "healthy");
  CHECK(health["active_tasks"] == 1);
  CHECK(health["total_processed"] == 1);
  CHECK(health["uptime"] == 5.0);
  world.evaluator.is_healthy = false;
  CHECK(world.Ok(Get("/health"))["status"] == "unhealthy");
}

}  // namespace
}  // namespace kernelcast::gateway
