#include "services/cli/core/suite_folder.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace kernelcast::cli::suite_folder_test {
namespace {

namespace fs = std::filesystem;

const char* const kModel =
    "import torch\nclass Model(torch.nn.Module):\n    pass\ndef get_inputs():\n    return []\n"
    "def get_init_inputs():\n    return []\n";

class Tree {
 public:
  Tree() {
    std::string name = (fs::temp_directory_path() / "suite_folder_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~Tree() { fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void Add(const std::string& path, const std::string& content = "x\n") const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }
  std::string path(const std::string& below = "") const { return (root_ / below).string(); }

 private:
  fs::path root_;
};

// "task: author/name, ..." of each task.
std::string Text(const SuiteFolder& found) {
  std::string text;
  for (const SuiteTask& task : found.tasks) {
    text += task.name + " [" + task.level + "|" + task.category + "|" +
            std::to_string(task.number) + "]:";
    for (const SuiteSource& source : task.sources) {
      text += " " + source.name + "(" + source.author +
              (source.sample < 0 ? "" : "#" + std::to_string(source.sample)) + ")";
    }
    text += "\n";
  }
  return text;
}

TEST_CASE("A KernelBench checkout has levels, and samples of runs", "[unit]") {
  const Tree tree;
  tree.Add("KernelBench/level1/19_ReLU.py", kModel);
  tree.Add("KernelBench/level1/2_Matmul.py", kModel);
  tree.Add("KernelBench/level2/2_Gemm.py", kModel);
  tree.Add("src/kernelbench/eval.py");
  tree.Add("runs/gpt/level_1_problem_19_sample_0_kernel.py");
  tree.Add("runs/gpt/level_1_problem_19_sample_10_kernel.py");
  tree.Add("runs/gpt/level_1_problem_19_sample_2_kernel.py");
  tree.Add("runs/gpt/level_2_problem_2_sample_0_kernel.py");
  tree.Add("runs/llama/level_1_problem_19_sample_0_kernel.py");
  tree.Add("runs/llama/level_1_problem_77_sample_0_kernel.py");
  tree.Add("runs/gpt/eval_results.json", "{}");
  const auto found = FindSuite(tree.path());
  REQUIRE(found.ok());
  CHECK(Text(*found) ==
        "KernelBench/level1/2_Matmul [level1||2]:\n"
        "KernelBench/level1/19_ReLU [level1||19]: gpt/sample_0(gpt#0) gpt/sample_2(gpt#2) "
        "gpt/sample_10(gpt#10) llama/sample_0(llama#0)\n"
        "KernelBench/level2/2_Gemm [level2||2]: gpt/sample_0(gpt#0)\n");
  // A sample of a problem that is not there, but no results of KernelBench itself.
  REQUIRE(found->unmatched.size() == 1);
  CHECK(found->unmatched[0].ends_with("level_1_problem_77_sample_0_kernel.py"));

  // Runs elsewhere, and one level only.
  const auto level = FindSuite(tree.path("KernelBench/level1"), {tree.path("runs/llama")});
  REQUIRE(level.ok());
  CHECK(Text(*level) == "2_Matmul [level1||2]:\n19_ReLU [level1||19]: sample_0(llama#0)\n");
}

TEST_CASE("GPU MODE tasks have submissions, by author, or the file that users edit", "[unit]") {
  const Tree tree;
  tree.Add("problems/pmpp/sort/task.yml");
  tree.Add("problems/pmpp/sort/reference.py", kModel);
  tree.Add("problems/pmpp/sort/submission.py");
  tree.Add("problems/pmpp/sort/submissions/fast.py");
  tree.Add("problems/pmpp/sort/submissions/ada/v1.py");
  tree.Add("problems/pmpp/vectoradd/task.yml");
  tree.Add("problems/pmpp/vectoradd/submission.py");
  tree.Add("mine/kernel.py", "#!POPCORN leaderboard vectoradd\n#!POPCORN gpu H100\n");
  tree.Add("mine/other.py", "#!POPCORN leaderboard nothing\n");
  const auto found = FindSuite(tree.path("problems"), {tree.path("mine")});
  REQUIRE(found.ok());
  CHECK(Text(*found) ==
        "pmpp/sort [|pmpp|0]: ada/v1(ada) fast()\n"
        "pmpp/vectoradd [|pmpp|0]: kernel() submission()\n");
  REQUIRE(found->unmatched.size() == 1);
  CHECK(found->unmatched[0].ends_with("other.py"));
}

TEST_CASE("A flashinfer-trace data set has solutions by definition and author", "[unit]") {
  const Tree tree;
  tree.Add("definitions/gemm/gemm_n8.json", "{}");
  tree.Add("definitions/rmsnorm/rms.json", "{}");
  tree.Add("workloads/gemm/gemm_n8.jsonl");
  tree.Add("traces/gemm/gemm_n8.jsonl");
  const std::string solution =
      R"({"definition": "gemm_n8", "author": "ada", "spec": {"entry_point": "a.py::run"}, "sources": []})";
  tree.Add("solutions/baseline/gemm/gemm_n8/one.json", solution);
  tree.Add("solutions/gemm/gemm_n8/plain.py");
  tree.Add("solutions/bob/rmsnorm/rms/plain.py");
  const auto found = FindSuite(tree.path());
  REQUIRE(found.ok());
  CHECK(Text(*found) ==
        "definitions/gemm/gemm_n8 [|gemm|0]: baseline/one(ada) plain()\n"
        "definitions/rmsnorm/rms [|rmsnorm|0]: bob/plain(bob)\n");
  CHECK(found->unmatched.empty());
}

TEST_CASE("SOL-ExecBench folders and problems have candidates in them", "[unit]") {
  const Tree tree;
  tree.Add("L1/a/definition.json", "{}");
  tree.Add("L1/a/workload.jsonl");
  tree.Add("L1/a/solutions/one.json", R"({"author": "ada"})");
  tree.Add("own/softmax/problem.yaml");
  tree.Add("own/softmax/reference.cc");
  tree.Add("own/softmax/candidates/claude/k.cu");
  tree.Add("own/softmax/candidates/claude/k.json", "{}");
  tree.Add("own/softmax/candidates/naive.cc");
  tree.Add("own/softmax/candidates.jsonl");
  const auto found = FindSuite(tree.path());
  REQUIRE(found.ok());
  CHECK(Text(*found) ==
        "L1/a [L1||0]: one(ada)\n"
        "own/softmax [||0]: candidates() claude/k(claude) naive()\n");
}

TEST_CASE("Candidates next to tasks that are files belong to them by name", "[unit]") {
  const Tree tree;
  tree.Add("relu.py", kModel);
  tree.Add("silu.py", kModel);
  tree.Add("helper.py", "def get_inputs():\n    pass\n");
  tree.Add("candidates/relu/fast.py");
  tree.Add("candidates/gpt/silu.py");
  tree.Add("candidates/silu.jsonl");
  tree.Add(".hidden/tanh.py", kModel);
  const auto found = FindSuite(tree.path());
  REQUIRE(found.ok());
  CHECK(Text(*found) == "relu [||0]: fast()\nsilu [||0]: gpt(gpt) silu()\n");
  for (const std::string& path : {tree.path("none"), tree.path("candidates")}) {
    CHECK(FindSuite(path).status().code() == absl::StatusCode::kNotFound);
  }
}

TEST_CASE("Patterns keep tasks by name", "[unit]") {
  const Tree tree;
  for (const char* path : {"level1/1_a.py", "level1/2_b.py", "level2/1_c.py"}) {
    tree.Add(path, kModel);
  }
  auto found = FindSuite(tree.path());
  REQUIRE(found.ok());
  REQUIRE(KeepTasks({"level1/*", "*_c"}, *found).ok());
  CHECK(found->tasks.size() == 3);
  REQUIRE(KeepTasks({"*/1_*"}, *found).ok());
  CHECK(found->tasks.size() == 2);
  CHECK(KeepTasks({"nothing"}, *found).code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace kernelcast::cli::suite_folder_test
