#include "common/convert/default_target.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast {
namespace {

Problem WithTargets(const std::vector<std::string>& targets, bool is_task) {
  Problem problem;
  for (const std::string& target : targets) problem.targets[target];
  if (is_task) problem.task.emplace();
  return problem;
}

v1::WorkerDescription GpuWorker(const std::string& model, v1::CandidateKind kind,
                                bool can_measure = true) {
  v1::WorkerDescription worker;
  v1::TargetDescription& cpu = *worker.add_targets();
  cpu.set_target("cpu");
  cpu.set_can_measure(true);
  cpu.add_candidate_kinds(v1::CANDIDATE_KIND_PYTHON);
  v1::TargetDescription& cuda = *worker.add_targets();
  cuda.set_target("cuda");
  cuda.set_can_measure(can_measure);
  cuda.add_candidate_kinds(kind);
  cuda.mutable_device()->set_model(model);
  return worker;
}

v1::PutProblemReply Reply(const Problem& problem,
                          const std::vector<v1::WorkerDescription>& workers) {
  v1::PutProblemReply reply;
  SetDefaultTarget(problem, workers, reply);
  return reply;
}

TEST_CASE("The default target is cpu, or the first one of a problem without it") {
  const auto judges = GpuWorker("A", v1::CANDIDATE_KIND_PYTHON);
  CHECK(Reply(WithTargets({"cpu", "cuda"}, false), {judges}).default_target() == "cpu");
  CHECK(Reply(WithTargets({"cuda"}, false), {}).default_target() == "cuda");
  CHECK(Reply(WithTargets({"cuda", "other"}, false), {}).default_target() == "cuda");
  CHECK(Reply(WithTargets({"cuda"}, false), {judges}).task_gpus().empty());
}

TEST_CASE("A task has the default target cuda where a worker judges tasks on a GPU") {
  const auto judges = GpuWorker("A", v1::CANDIDATE_KIND_PYTHON);
  const auto without_torch = GpuWorker("B", v1::CANDIDATE_KIND_DEVICE_CUDA);
  const auto without_gpu = GpuWorker("C", v1::CANDIDATE_KIND_PYTHON, /*can_measure=*/false);
  const Problem task = WithTargets({"cpu", "cuda"}, true);
  CHECK(Reply(task, {}).default_target() == "cpu");
  CHECK(Reply(task, {without_torch, without_gpu}).default_target() == "cpu");
  CHECK(Reply(task, {without_torch}).task_gpus().empty());
  const v1::PutProblemReply reply =
      Reply(task, {without_torch, judges, GpuWorker("D", v1::CANDIDATE_KIND_PYTHON), judges});
  CHECK(reply.default_target() == "cuda");
  CHECK(std::vector<std::string>(reply.task_gpus().begin(), reply.task_gpus().end()) ==
        std::vector<std::string>{"A", "D"});
  CHECK(Reply(WithTargets({"cpu"}, true), {judges}).default_target() == "cpu");
}

}  // namespace
}  // namespace kernelcast
