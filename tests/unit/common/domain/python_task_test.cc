#include "common/domain/python_task.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

namespace kernelcast {
namespace {

using Catch::Matchers::Contains;

constexpr char kTask[] =
    "import torch\n"
    "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    "def get_inputs():\n    return [torch.rand(4)]\n"
    "def get_init_inputs():\n    return []\n";

std::string Refusal(const std::string& path, const std::string& source) {
  const auto problem = ParseProblem({{path, source}});
  REQUIRE(absl::IsInvalidArgument(problem.status()));
  return std::string(problem.status().message());
}

std::string Without(const std::string& text) {
  std::string task = kTask;
  const size_t at = task.find(text);
  REQUIRE(at != std::string::npos);
  return task.replace(at, text.size(), "");
}

TEST_CASE("A KernelBench task is a problem with one shape", "[domain]") {
  const Problem problem = ParseProblem({{"19_ReLU.py", kTask}}).value();
  CHECK(problem.name == "19_relu");
  CHECK(problem.title == "19_ReLU");
  REQUIRE(problem.task.has_value());
  CHECK(Name(problem.task->format) == "kernelbench");
  CHECK(problem.task->source == kTask);
  CHECK(problem.inputs.empty());
  REQUIRE(problem.targets.size() == 2);
  CHECK(problem.targets.at("cuda").kind == CandidateKind::kPython);
  const ProblemTarget& target = problem.targets.at("cpu");
  CHECK(target.kind == CandidateKind::kPython);
  CHECK(target.bench_shapes.size() == 1);
  const Candidate reference = ReferenceCandidate(problem, "cpu").value();
  CHECK(reference.kind == CandidateKind::kPython);
  CHECK(ValidateCandidate(reference).ok());
  CHECK(problem.problem_id == ProblemId({{"19_ReLU.py", kTask}}));
  CHECK(problem.problem_id != ParseProblem({{"20_ReLU.py", kTask}})->problem_id);
}

TEST_CASE("A file that is no task is refused with what it lacks", "[domain]") {
  CHECK_THAT(Refusal("a.py", Without("class Model")),
             Contains("a.py: does not define class Model"));
  CHECK_THAT(Refusal("a.py", Without("def get_inputs")), Contains("get_inputs()"));
  CHECK_THAT(Refusal("a.py", Without("def get_init_inputs")), Contains("get_init_inputs()"));
  // Indented definitions are not the task's.
  CHECK_THAT(Refusal("a.py", "if True:\n  class Model(object): pass\n"), Contains("class Model"));
  CHECK_THAT(Refusal("b/a.py", kTask), Contains("b/a.py"));
  CHECK_THAT(Refusal("a.py", std::string(kTask) + '\0'), Contains("UTF-8"));
  CHECK_THAT(Refusal("a.py", kTask + std::string(kMaxSourceBytes, '#')), Contains("bytes"));
}

TEST_CASE("A task with a baseline is another problem", "[domain]") {
  const Problem eager = ParseProblem({{"a.py", kTask}}).value();
  CHECK_FALSE(eager.task->compiled_baseline);
  const Problem compiled = WithOptions(eager, {.baseline = "compile"}).value();
  CHECK(compiled.task->compiled_baseline);
  CHECK(compiled.task->source == kTask);
  CHECK(compiled.problem_id != eager.problem_id);
  // Its files say so, wherever they are sent.
  CHECK(compiled.problem_id == ProblemId(compiled.files));
  CHECK(ParseProblem(compiled.files)->task->compiled_baseline);
  CHECK(WithOptions(compiled, {.baseline = "compile"})->problem_id == compiled.problem_id);
  CHECK(WithOptions(compiled, {.baseline = "eager"})->problem_id == eager.problem_id);
  CHECK_FALSE(
      ParseProblem({{"a.py", kTask}, {"kernelcast.baseline", "eager\n"}})->task->compiled_baseline);
  const auto unknown = ParseProblem({{"a.py", kTask}, {"kernelcast.baseline", "jit"}});
  CHECK_THAT(std::string(unknown.status().message()), Contains("eager or compile"));
  Problem other;
  CHECK_THAT(std::string(WithOptions(other, {.baseline = "compile"}).status().message()),
             Contains("no PyTorch task"));
}

TEST_CASE("A task that is judged by its own rules alone is another problem", "[domain]") {
  const Problem all = ParseProblem({{"a.py", kTask}}).value();
  CHECK_FALSE(all.task->task_rules_only);
  const Problem own = WithOptions(all, {.rules = "task"}).value();
  CHECK(own.task->task_rules_only);
  CHECK_FALSE(own.task->compiled_baseline);
  CHECK(own.problem_id != all.problem_id);
  CHECK(ParseProblem(own.files)->task->task_rules_only);
  // Each option keeps the other.
  const Problem both = WithOptions(own, {.baseline = "compile"}).value();
  CHECK(both.task->task_rules_only);
  CHECK(both.task->compiled_baseline);
  CHECK(WithOptions(both, {.baseline = "eager", .rules = "kernelcast"})->problem_id ==
        all.problem_id);
  const auto unknown = ParseProblem({{"a.py", kTask}, {"kernelcast.rules", "none"}});
  CHECK_THAT(std::string(unknown.status().message()), Contains("kernelcast or task"));
}

TEST_CASE("Tolerances of tasks are those of their format", "[domain]") {
  const Tolerance wide = TaskTolerance(PythonTask(), PythonTask::Case(), DataType::kFloat32);
  CHECK(wide.atol == 1e-4);
  CHECK(wide.rtol == 1e-4);
  CHECK_FALSE(wide.scaled);
  CHECK(TaskTolerance(PythonTask(), PythonTask::Case(), DataType::kBfloat16).atol == 1e-2);
}

TEST_CASE("A task is read from its file", "[domain]") {
  const std::string folder = KERNELCAST_SOURCE_DIR "/examples/tasks/kernelbench/";
  const auto files = ReadProblemFolder(folder + "gated_silu.py");
  REQUIRE(files.ok());
  REQUIRE(files->size() == 1);
  CHECK(files->front().path == "gated_silu.py");
  CHECK(ParseProblem(*files)->name == "gated_silu");
  CHECK(absl::IsNotFound(ReadProblemFolder(folder + "none.py").status()));
}

TEST_CASE("A task may start with a byte order mark", "[domain]") {
  const std::string folder = KERNELCAST_SOURCE_DIR "/examples/tasks/kernelbench/";
  const auto plain = ReadProblemFolder(folder + "gated_silu.py");
  REQUIRE(plain.ok());
  std::string pattern = (std::filesystem::temp_directory_path() / "task_XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  const std::filesystem::path marked = std::filesystem::path(pattern) / "gated_silu.py";
  std::ofstream(marked, std::ios::binary) << "\xEF\xBB\xBF" << plain->front().content;
  const auto files = ReadProblemFolder(marked.string());
  std::filesystem::remove_all(pattern);
  REQUIRE(files.ok());
  CHECK(ProblemId(*files) == ProblemId(*plain));
}

}  // namespace
}  // namespace kernelcast
