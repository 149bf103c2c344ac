#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/domain/python_task.h"
#include "common/domain/task_files.h"
#include "common/domain/task_problem.h"
#include "nlohmann/json.hpp"

namespace kernelcast {
namespace {

using Catch::Matchers::Contains;
using Format = PythonTask::Format;

const std::string kTasks = KERNELCAST_SOURCE_DIR "/examples/tasks/";

Problem LoadTask(const std::string& path) {
  auto files = ReadProblemFolder(kTasks + path);
  INFO(path << ": " << files.status().ToString());
  REQUIRE(files.ok());
  auto problem = ParseProblem(*files);
  INFO(problem.status().ToString());
  REQUIRE(problem.ok());
  CHECK(problem->problem_id == ProblemId(*files));
  return *std::move(problem);
}

std::string WithText(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string RefusedFiles(std::vector<ProblemFile> files) {
  const auto problem = ParseProblem(std::move(files));
  REQUIRE(absl::IsInvalidArgument(problem.status()));
  return std::string(problem.status().message());
}

TEST_CASE("A flashinfer-bench definition is a problem with a shape for each workload", "[domain]") {
  const Problem problem =
      LoadTask("flashinfer_bench/definitions/elementwise/scaled_gelu_h512.json");
  REQUIRE(problem.task.has_value());
  CHECK(problem.task->format == Format::kFlashInferBench);
  CHECK(Name(problem.task->format) == "flashinfer_bench");
  CHECK(problem.name == "scaled_gelu_h512");
  CHECK(problem.check_shapes ==
        std::vector<AxisValues>{{{"rows", 64}}, {{"rows", 192}}, {{"rows", 256}}});
  CHECK(problem.bench_shapes == problem.check_shapes);
  CHECK_THAT(problem.task->source, Contains("def run(x, scale)"));
  const auto details = nlohmann::ordered_json::parse(problem.task->details);
  CHECK(details["definition"]["inputs"].begin().key() == "x");
  CHECK(details["cases"].size() == 3);
  const Tolerance tolerance =
      TaskTolerance(*problem.task, problem.task->cases[0], DataType::kFloat32);
  CHECK(tolerance.larger_of_both);
  CHECK(tolerance.matched_ratio == 1);
  CHECK_THAT(RuleText(problem.task->format, tolerance),
             Contains("flashinfer_bench: every element with an absolute error of at most 0.01"));
}

constexpr char kDefinition[] =
    R"({"name": "twice", "op_type": "moe", "axes": {"n": {"type": "var"}},
  "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
  "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
  "reference": "def run(x):\n    return 2 * x\n"})";
constexpr char kWorkload[] =
    R"({"axes": {"n": 8}, "inputs": {"x": {"type": "random"}}, "uuid": "a"})";

TEST_CASE("Workloads of the same sizes are distinguished", "[domain]") {
  const std::string twice = absl::StrCat(kWorkload, "\n", kWorkload, "\n");
  const Problem problem =
      ParseProblem({{"twice.json", kDefinition}, {"twice.jsonl", twice}}).value();
  CHECK(problem.check_shapes[1] == AxisValues{{"n", 8}, {"workload", 1}});
  // The share that flashinfer-bench asks of mixtures of experts.
  CHECK(TaskTolerance(*problem.task, problem.task->cases[0], DataType::kFloat32).matched_ratio ==
        0.95);
}

TEST_CASE("At most eight workloads are timed, evenly spread", "[domain]") {
  std::string lines;
  for (int n = 1; n <= 22; ++n) {
    absl::StrAppend(&lines, WithText(kWorkload, "\"n\": 8", absl::StrCat("\"n\": ", n)), "\n");
  }
  const Problem problem = ParseProblem({{"a.json", kDefinition}, {"a.jsonl", lines}}).value();
  CHECK(problem.check_shapes.size() == 22);
  REQUIRE(problem.bench_shapes.size() == 8);
  CHECK(problem.bench_shapes.front().at("n") == 1);
  CHECK(problem.bench_shapes.back().at("n") == 22);
}

TEST_CASE("A definition at fault is refused with file, line and field", "[domain]") {
  const auto definition = [](const std::string& from, const std::string& to) {
    return RefusedFiles({{"a.json", WithText(kDefinition, from, to)}, {"a.jsonl", kWorkload}});
  };
  CHECK_THAT(definition("\"twice\"", "7"), Contains("a.json: name: expected a text"));
  CHECK_THAT(definition("def run", "def main"), Contains("run() at its top level"));
  CHECK_THAT(definition("\"var\"", "\"expr\""), Contains("a.json: axes.'n'.type"));
  CHECK_THAT(definition("\"moe\"", "\"sampling\""), Contains("distribution of many calls"));
  CHECK_THAT(definition("\"twice\"", "\"dsa_topk_indexer_a\""), Contains("checker"));
  CHECK_THAT(definition("\"shape\"", "\"size\""), Contains("inputs.'x'"));
  CHECK_THAT(RefusedFiles({{"a.json", "[]"}, {"a.jsonl", kWorkload}}),
             Contains("expected a JSON object"));
  const auto workload = [](const std::string& from, const std::string& to) {
    const std::string lines = absl::StrCat(kWorkload, "\n", WithText(kWorkload, from, to));
    return RefusedFiles({{"a.json", kDefinition}, {"a.jsonl", lines}});
  };
  CHECK_THAT(workload("\"n\": 8", "\"n\": 0"), Contains("a.jsonl:2: axes.'n'"));
  CHECK_THAT(workload("random", "safetensors"), Contains("a.jsonl:2: inputs.'x': expected a path"));
  CHECK_THAT(workload("random", "custom"), Contains("unknown"));
  CHECK_THAT(workload("{\"axes\"", "{{"), Contains("a.jsonl:2: expected a JSON object"));
  CHECK_THAT(RefusedFiles({{"a.json", kDefinition}, {"a.jsonl", "\n"}}),
             Contains("holds no workload"));
  std::string many;
  for (int i = 0; i < 65; ++i) absl::StrAppend(&many, kWorkload, "\n");
  CHECK_THAT(RefusedFiles({{"a.json", kDefinition}, {"a.jsonl", many}}), Contains("more than 64"));
  CHECK_THAT(RefusedFiles({{"b/a.json", kDefinition}, {"b/a.jsonl", kWorkload}}),
             Contains("not in the task's folder"));
}

// A file with one tensor of 8 bytes.
std::string TensorFile(const std::string& entry) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(entry.size());
  return absl::StrCat(file, entry, "\x01\x02\x03\x04\x05\x06\x07\x08");
}

TEST_CASE("Inputs of a definition may come from a file", "[domain]") {
  const std::string name = "flashinfer_bench/definitions/sparse/csr_matmul_c256_n64.json";
  const Problem problem = LoadTask(name);
  const auto details = nlohmann::json::parse(problem.task->details);
  REQUIRE(problem.files.size() == 3);
  const std::string path = "blob/workloads/sparse/csr_matmul_c256_n64.safetensors";
  CHECK(FindFile(problem.files, path) != nullptr);
  CHECK(details["tensors"][path]["indptr_48"]["shape"] == nlohmann::json({49}));
  CHECK(details["tensors"][path]["indptr_48"]["dtype"] == "I32");
  CHECK(details["tensors"][path].size() == 4);
  CHECK_FALSE(DrawWorkloads(problem, "seed", 2).has_value());

  const std::string workload =
      WithText(kWorkload, R"("type": "random")",
               R"("type": "safetensors", "path": "blob/a.safetensors", "tensor_key": "x")");
  const auto with = [&](const std::string& file) {
    return std::vector<ProblemFile>{
        {"a.json", kDefinition}, {"a.jsonl", workload}, {"blob/a.safetensors", file}};
  };
  const std::string entry = R"({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";
  const Problem small = ParseProblem(with(TensorFile(entry))).value();
  CHECK(nlohmann::json::parse(small.task->details)["tensors"]["blob/a.safetensors"]["x"]["data"] ==
        "AQIDBAUGBwg=");
  CHECK_THAT(RefusedFiles({{"a.json", kDefinition}, {"a.jsonl", workload}}),
             Contains("a.jsonl:1: inputs.'x': file 'blob/a.safetensors' is missing"));
  const auto refused = [&](const std::string& file) { return RefusedFiles(with(file)); };
  CHECK_THAT(refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
             Contains("is a pointer of Git LFS"));
  for (const std::string& file : {std::string(), std::string("\xff\0\0\0\0\0\0\0{}", 10),
                                  std::string("\x02\0\0\0\0\0\0\0[]", 10)}) {
    CHECK_THAT(refused(file), Contains("is no safetensors file"));
  }
  CHECK_THAT(refused(TensorFile(WithText(entry, "\"x\"", "\"z\""))),
             Contains("has no tensor 'x'; it has 'z'"));
  for (const auto& [from, to] : {std::pair("[2]", "[3]"),
                                 {"F32", "U4"},
                                 {"8]", "9]"},
                                 {"[0", "[9"},
                                 {"[2]", "[9223372036854775807, 3]"},
                                 {"[2]", "[-2]"}}) {
    CHECK_THAT(refused(TensorFile(WithText(entry, from, to))), Contains("does not fit its shape"));
  }
}

TEST_CASE("A task's file names can stand in a message", "[domain]") {
  for (const std::string& name :
       {std::string("\xff"), std::string("a\nb"), std::string(300, 'a')}) {
    const std::string refusal = RefusedFiles({{name + ".py", "pass"}});
    CHECK_THAT(refusal, Contains("has a name that is not UTF-8, has a control character or is"));
    CHECK(IsValidUtf8(refusal));
    CHECK(refusal.find('\n') == std::string::npos);
  }
  CHECK_THAT(RefusedFiles({{"19 ReLU \xC3\xA9.py", "pass"}}),
             Contains("does not define class Model"));
}

TEST_CASE("A SOL-ExecBench folder has a rule for each workload", "[domain]") {
  const Problem problem = LoadTask("sol_execbench/residual_layernorm");
  CHECK(problem.task->format == Format::kSolExecBench);
  const Tolerance tolerance =
      TaskTolerance(*problem.task, problem.task->cases[0], DataType::kBfloat16);
  CHECK(tolerance.atol == 0.02);
  CHECK(tolerance.matched_ratio == 0.99);
  CHECK(tolerance.max_error == 0.5);
  CHECK(tolerance.not_all_zero);
  CHECK_FALSE(tolerance.larger_of_both);
  CHECK(RuleText(problem.task->format, tolerance) ==
        "sol_execbench: at least 99% of elements within 0.02 + 0.02 * abs(expected), none off by "
        "more than 0.5");
  // reference.py stands in for a definition without a reference.
  const std::string without =
      WithText(kDefinition, ",\n  \"reference\": \"def run(x):\\n    return 2 * x\\n\"", "");
  const Problem separate = ParseProblem({{"definition.json", without},
                                         {"reference.py", "def run(x):\n    return x + x\n"},
                                         {"workload.jsonl", kWorkload}})
                               .value();
  CHECK(separate.task->source == "def run(x):\n    return x + x\n");
  CHECK(TaskTolerance(*separate.task, separate.task->cases[0], DataType::kFloat32).atol == 1e-2);
  CHECK_THAT(
      RefusedFiles({{"definition.json", kDefinition},
                    {"workload.jsonl", WithText(kWorkload, "{\"axes\"",
                                                R"({"tolerance": {"max_atol": -1}, "axes")")}}),
      Contains("workload.jsonl:1: tolerance.max_atol"));
}

TEST_CASE("A GPU MODE folder has its tests checked and its benchmarks timed", "[domain]") {
  const Problem problem = LoadTask("gpu_mode/clamped_add");
  CHECK(problem.task->format == Format::kGpuMode);
  CHECK(HasChecker(problem.task->format));
  CHECK(problem.title == "Add two float32 matrices and clamp the sum to [-1, 1]");
  CHECK(problem.check_shapes == std::vector<AxisValues>{{{"size", 33}}, {{"size", 64}}});
  CHECK(problem.bench_shapes == std::vector<AxisValues>{{{"size", 192}}, {{"size", 256}}});
  const auto details = nlohmann::json::parse(problem.task->details);
  CHECK(details["cases"][0]["arguments"] == nlohmann::json({{"size", 33}, {"seed", 4242}}));
  CHECK(details["modules"].contains("utils.py"));
  CHECK_FALSE(details["modules"].contains("eval.py"));
  REQUIRE(problem.files.size() == 4);
}

constexpr char kYaml[] = R"(files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "reference.py", "source": "reference.py"}
lang: "py"
tests:
  - {"size": 8, "kind": "even", "flag": True, "share": 0.5, "sizes": [1, 2], "seed": 1}
  - {"size": 8, "kind": "odd", "flag": True, "share": 0.5, "sizes": [1, 2], "seed": 1}
  - {"size": 8, "kind": "odd", "flag": True, "share": 0.5, "sizes": [1, 2], "seed": 2}
)";
constexpr char kReference[] =
    "def generate_input(**case):\n  pass\ndef ref_kernel(data):\n  pass\n"
    "def check_implementation(data, output):\n  pass\n";

TEST_CASE("Cases that differ only in their seed are one case", "[domain]") {
  const Problem problem = ParseProblem({{"task.yml", kYaml}, {"reference.py", kReference}}).value();
  REQUIRE(problem.task->cases.size() == 2);
  CHECK(problem.check_shapes[1] == AxisValues{{"case", 1}, {"flag", 1}, {"size", 8}});
  CHECK(problem.bench_shapes == problem.check_shapes);
  const auto arguments = nlohmann::json::parse(problem.task->details)["cases"][0]["arguments"];
  CHECK(arguments["kind"] == "even");
  CHECK(arguments["flag"] == true);
  CHECK(arguments["share"] == 0.5);
  CHECK(arguments["sizes"] == nlohmann::json({1, 2}));
}

TEST_CASE("A GPU MODE folder at fault is refused", "[domain]") {
  const auto refusal = [](const std::string& from, const std::string& to) {
    return RefusedFiles({{"task.yml", WithText(kYaml, from, to)}, {"reference.py", kReference}});
  };
  CHECK_THAT(refusal("lang: \"py\"", "lang: \"cu\""), Contains("task.yml:4: lang"));
  CHECK_THAT(refusal("\"name\": \"reference.py\"", "\"name\": \"refer.py\""), Contains("missing"));
  CHECK_THAT(refusal("\"source\": \"reference.py\"", "\"source\": \"/etc/passwd\""),
             Contains("relative path"));
  CHECK_THAT(refusal("tests:", "exams:"), Contains("neither tests nor benchmarks"));
  CHECK_THAT(refusal("tests:", "multi_gpu: true\ntests:"), Contains("several GPUs"));
  CHECK_THAT(
      RefusedFiles({{"task.yml", kYaml}, {"reference.py", "def ref_kernel(d):\n  pass\n"}}),
      Contains("does not define generate_input at its top level, and task.yml names no program"));
  CHECK_THAT(RefusedFiles({{"task.yml", kYaml}, {"reference.py", kReference}, {"other.py", ""}}),
             Contains("not named by task.yml"));
}

TEST_CASE("A GPU MODE task that workers cannot judge is refused when it is read", "[domain]") {
  const auto reference = [](const std::string& source) {
    return std::vector<ProblemFile>{{"task.yml", kYaml}, {"reference.py", source}};
  };
  CHECK_THAT(
      RefusedFiles(
          reference(absl::StrCat("import torch\nT = torch.float4_e2m1fn_x2\n", kReference))),
      Contains("reference.py: uses float4_e2m1fn_x2; tasks in NVFP4 and other types of 4 bits are "
               "not supported"));
  CHECK_THAT(RefusedFiles(reference(
                 absl::StrCat(kReference, "def start():\n  dist.init_process_group('nccl')\n"))),
             Contains("reference.py: uses init_process_group; tasks over several GPUs are not"));
  CHECK(ParseProblem(reference(absl::StrCat("# float4_e2m1fn_x2\nmy_float4_e2m1fn_x2 = 1\n",
                                            "float4_e2m1fn_x2s = 1\n", kReference)))
            .ok());
  const auto with_processes = [](const std::string& count) {
    const std::string argument = absl::StrCat("\"size\": 8, \"world_size\": ", count);
    return std::vector<ProblemFile>{{"task.yml", WithText(kYaml, "\"size\": 8", argument)},
                                    {"reference.py", kReference}};
  };
  CHECK_THAT(RefusedFiles(with_processes("2")), Contains("world_size: tasks over several GPUs"));
  CHECK(ParseProblem(with_processes("1")).ok());
}

TEST_CASE("A GPU MODE folder without the usual functions is judged by its own program",
          "[domain]") {
  const Problem problem = LoadTask("gpu_mode/rms_norm_pair");
  CHECK(problem.task->format == Format::kGpuModeEval);
  CHECK(HasChecker(problem.task->format));
  CHECK(problem.task->file == "submission.py");
  CHECK_THAT(problem.task->source, Contains("def rms_norm_forward(x, weight):"));
  CHECK(problem.task->entries == std::vector<std::string>{"rms_norm_forward", "rms_norm_backward"});
  const auto details = nlohmann::json::parse(problem.task->details);
  CHECK(details["program"] == "eval.py");
  for (const char* const file : {"eval.py", "reference.py", "submission.py"}) {
    CHECK(details["modules"].contains(file));
  }
}

TEST_CASE("A GPU MODE program without what it needs is refused with what is missing", "[domain]") {
  const std::string yaml =
      WithText(kYaml, "lang:", "  - {\"name\": \"judge.py\", \"source\": \"judge.py\"}\nlang:");
  const std::string named = absl::StrCat(yaml, "config:\n  main: judge.py\n");
  const auto files = [&](const std::string& program, const std::string& solution) {
    std::vector<ProblemFile> all = {{"task.yml", named},
                                    {"reference.py", "def inputs():\n  pass\n"}};
    if (!program.empty()) all.push_back({"judge.py", program});
    if (!solution.empty()) all.push_back({"submission.py", solution});
    return all;
  };
  const std::string solution = "def helper(x):\n  pass\ndef solve(x):\n  pass\n";
  CHECK(ParseProblem(files("submission.solve(1)\n", solution))->task->entries ==
        std::vector<std::string>{"solve"});
  CHECK_THAT(RefusedFiles(files("", solution)),
             Contains("reference.py: does not define generate_input at its top level, so judge.py "
                      "must check candidates, and judge.py is missing"));
  CHECK_THAT(RefusedFiles(files("submission.solve(1)\n", "")),
             Contains("submission.py is missing") && Contains("which is the reference"));
  CHECK_THAT(RefusedFiles(files("submission.run(1)\n", solution)),
             Contains("it names no function that submission.py defines"));
}

TEST_CASE("Tasks are found by the paths of their formats", "[domain]") {
  CHECK(IsTaskPath(kTasks + "kernelbench/gated_silu.py"));
  CHECK(IsTaskPath(kTasks + "gpu_mode/prefix_sum"));
  CHECK(IsTaskPath(kTasks + "sol_execbench/masked_softmax"));
  CHECK_FALSE(IsTaskPath(kTasks + "gpu_mode"));
  CHECK_FALSE(IsTaskPath(kTasks + "none.py"));
  // A solution is no definition: it has no workloads.
  const auto none =
      ReadTaskFiles(kTasks + "flashinfer_bench/solutions/gemm/gemm_n192_k256/one_call.json");
  CHECK(absl::IsNotFound(none.status()));
  CHECK_THAT(std::string(none.status().message()), Contains("no workloads of"));
}

TEST_CASE("Every example task is read", "[domain]") {
  namespace fs = std::filesystem;
  int found = 0;
  for (const char* const format : {"kernelbench", "gpu_mode", "sol_execbench"}) {
    for (const auto& entry : fs::directory_iterator(kTasks + format)) {
      const std::string path = entry.path().string();
      if (!IsTaskPath(path) || path.ends_with("utils.py")) continue;
      LoadTask(absl::StrCat(format, "/", entry.path().filename().string()));
      ++found;
    }
  }
  for (const auto& entry :
       fs::recursive_directory_iterator(kTasks + "flashinfer_bench/definitions")) {
    if (entry.path().extension() != ".json") continue;
    LoadTask(fs::relative(entry.path(), kTasks).string());
    ++found;
  }
  CHECK(found >= 15);
}

}  // namespace
}  // namespace kernelcast
