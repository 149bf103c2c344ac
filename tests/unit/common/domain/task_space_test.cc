#include "common/domain/task_space.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/domain/python_task.h"
#include "common/domain/task_files.h"

namespace kernelcast::task_space_test {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr char kDefinition[] = R"({"name": "twice", "op_type": "elementwise",
  "axes": {"n": {"type": "var", "held_out": [1, 300]}},
  "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
  "outputs": {"y": {"shape": ["n"], "dtype": "float32"}}})";
constexpr char kWorkloads[] = R"({"axes": {"n": 8}, "inputs": {}, "timed": false}
{"axes": {"n": 900}, "inputs": {}, "timed": false}
{"axes": {"n": 4096}, "inputs": {}}
)";
constexpr char kSpace[] = R"yaml(schema: 1
target: cuda
templates:
  - name: plain
    file: cuda/plain.cu
    tunables:
      THREADS: [128, 256]
    launches:
      - kernel: twice
        grid: ["ceildiv(x_numel, THREADS)"]
        block: [THREADS]
        arguments: [x, y, "x_shape_0:int"]
  - name: blocks
    file: triton/blocks.py
    tunables:
      BLOCK: [256]
      WARPS: [2, 4]
    launches:
      - kernel: twice
        grid: ["ceildiv(n, BLOCK)"]
        arguments: [x, y, n]
        constexprs: {BLOCK: BLOCK}
        num_warps: WARPS
)yaml";

std::vector<ProblemFile> Files(const std::string& space = kSpace) {
  return {{"definition.json", kDefinition},
          {"workload.jsonl", kWorkloads},
          {"reference.py", "def run(x):\n    return 2 * x\n"},
          {"space/cuda.yaml", space},
          {"space/cuda/plain.cu", "__global__ void twice() {}\n"},
          {"space/triton/blocks.py", "import triton\n"}};
}

std::string Changed(const std::string& from, const std::string& to) {
  std::string space = kSpace;
  const size_t at = space.find(from);
  REQUIRE(at != std::string::npos);
  return space.replace(at, from.size(), to);
}

std::string Refused(std::vector<ProblemFile> files) {
  const auto problem = ParseProblem(std::move(files));
  REQUIRE(absl::IsInvalidArgument(problem.status()));
  return std::string(problem.status().message());
}

TEST_CASE("A task may have a space of device code", "[domain]") {
  const Problem problem = ParseProblem(Files()).value();
  REQUIRE(problem.task.has_value());
  CHECK(problem.family == "elementwise");
  CHECK(problem.files.size() == 6);
  CHECK(problem.problem_id == ProblemId(problem.files));
  const ProblemTarget& target = problem.targets.at("cuda");
  CHECK(target.kind == CandidateKind::kPython);
  REQUIRE(target.space.has_value());
  CHECK_FALSE(problem.targets.at("cpu").space.has_value());
  const std::vector<SpacePoint> points = EnumeratePoints(*target.space);
  REQUIRE(points.size() == 4);
  const Candidate cuda = CandidateFromPoint(*target.space, points[1], problem.problem_id);
  CHECK(cuda.kind == CandidateKind::kDeviceCuda);
  CHECK_THAT(cuda.source, StartsWith("#define THREADS 256\n"));
  CHECK(cuda.launches[0].arguments == std::vector<std::string>{"x", "y", "x_shape_0:int"});
  CHECK(ValidateCandidate(cuda).ok());
  const Candidate triton = CandidateFromPoint(*target.space, points[2], problem.problem_id);
  CHECK(triton.kind == CandidateKind::kDeviceTriton);
  CHECK(triton.launches[0].num_warps == 2);
  CHECK(ValidateCandidate(triton).ok());
  // Options of the task keep the space.
  const Problem compiled = WithOptions(problem, {.baseline = "compile"}).value();
  CHECK(compiled.targets.at("cuda").space.has_value());
}

TEST_CASE("Small workloads of a task may be checked and not timed", "[domain]") {
  const Problem problem = ParseProblem(Files()).value();
  CHECK(problem.check_shapes == std::vector<AxisValues>{{{"n", 8}}, {{"n", 900}}});
  CHECK(problem.bench_shapes == std::vector<AxisValues>{{{"n", 4096}}});
  CHECK(problem.task->cases.size() == 3);
  std::vector<ProblemFile> files = Files();
  files[1].content = R"({"axes": {"n": 8}, "inputs": {}, "timed": false})";
  CHECK_THAT(Refused(files), Contains("workload.jsonl: times no workload"));
  files[1].content = R"({"axes": {"n": 8}, "inputs": {}, "timed": 1})";
  CHECK_THAT(Refused(files), Contains("workload.jsonl:1: timed: expected true or false"));
  files = Files();
  const size_t at = files[0].content.find("[1, 300]");
  files[0].content.replace(at, 8, "[9, 300, 0]");
  CHECK_THAT(Refused(files), Contains("definition.json: axes.'n'.held_out: expected [low, high]"));
}

TEST_CASE("A task's space at fault is refused with file, line and field", "[domain]") {
  CHECK_THAT(Refused(Files(Changed("target: cuda", "target: cpu"))),
             StartsWith("space/cuda.yaml:2: target: "));
  CHECK_THAT(Refused(Files(Changed("ceildiv(n, BLOCK)", "ceildiv(n, "))),
             StartsWith("space/cuda.yaml:20: templates[1].launches[0].grid[0]: expression"));
  CHECK_THAT(Refused(Files(Changed("[x, y, n]", "[x, y, n:what]"))),
             StartsWith("space/cuda.yaml:21: templates[1].launches[0].arguments[2]"));
  CHECK_THAT(Refused(Files(Changed("num_warps: WARPS", "num_warps: 3"))),
             StartsWith("space/cuda.yaml:23: templates[1].launches[0].num_warps"));
  std::vector<ProblemFile> more = Files();
  more.push_back({"space/cuda/other.cu", "x"});
  CHECK_THAT(Refused(more), Contains("'space/cuda/other.cu' is not named by space/cuda.yaml"));
  std::vector<ProblemFile> fewer = Files();
  fewer.pop_back();
  CHECK_THAT(Refused(fewer), StartsWith("space/cuda.yaml:14: templates[1].file: file "
                                        "'space/triton/blocks.py': is missing"));
}

TEST_CASE("A task's space is read from its folder", "[domain]") {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "kernelcast-task-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const auto write = [&](const ProblemFile& file) {
    fs::create_directories((fs::path(folder) / file.path).parent_path());
    std::ofstream(fs::path(folder) / file.path) << file.content;
  };
  for (const ProblemFile& file : Files()) write(file);
  // It is for tests and no part of the problem.
  write({"space/expected_verdicts_cuda.yaml", "plain: {}"});
  const auto files = ReadProblemFolder(folder);
  REQUIRE(files.ok());
  CHECK(ParseProblem(*files)->problem_id == ParseProblem(Files())->problem_id);
  fs::remove(fs::path(folder) / "space/triton/blocks.py");
  CHECK_THAT(std::string(ReadProblemFolder(folder).status().message()),
             Contains("file 'space/triton/blocks.py': does not exist"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace kernelcast::task_space_test
