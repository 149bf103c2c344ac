#include "tests/support/task_examples.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/file.h"
#include "tests/support/services.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;

using Replacements = std::vector<std::pair<std::string, std::string>>;

template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  if (!value.ok()) throw std::runtime_error(std::string(value.status().message()));
  return *std::move(value);
}

std::shared_ptr<const Problem> Parse(std::vector<ProblemFile> files) {
  return std::make_shared<const Problem>(ValueOf(ParseProblem(std::move(files))));
}

std::string Replaced(std::string text, const Replacements& replacements) {
  for (const auto& [from, to] : replacements) {
    if (absl::StrReplaceAll({{from, to}}, &text) == 0) {
      throw std::runtime_error(absl::StrCat("nothing to replace: ", from));
    }
  }
  return text;
}

// The task of a candidate's file, relative to examples/tasks. "": the file is no candidate.
std::string TaskOf(const fs::path& file) {
  const fs::path folder = file.parent_path();
  const fs::path parent = folder.parent_path();
  if (parent.filename() == "candidates") {
    return absl::StrCat("kernelbench/", folder.filename().string(), ".py");
  }
  if (folder.filename() == "submissions" || folder.filename() == "solutions") {
    return parent.string();
  }
  if (parent.parent_path().filename() == "solutions") {
    return absl::StrCat("flashinfer_bench/definitions/", parent.filename().string(), "/",
                        folder.filename().string(), ".json");
  }
  return "";
}

struct Variants {
  const char* file;
  Replacements sizes;  // in the whole file
  std::vector<std::pair<const char*, Replacements>> candidates;
};

const std::vector<Variants>& AllVariants() {
  // The recorder and the GPU take the same configuration.
  static const std::string kTuned =
      "        triton.Config({\"M\": 128, \"N\": 64, \"K\": 32}, num_stages=4, num_warps=8),\n";
  static const std::string kTile = "\"M\": 64, \"N\": 64, \"K\": 32}, num_stages=3, num_warps=4";
  static const std::string kRowBlock = "BLOCK=triton.next_power_of_2(columns)";
  static const auto& kAll = *new std::vector<Variants>{
      {"elementwise",
       {{"512, 4096", "4096, 4096"}},
       {{"block_256", {{"BLOCK=1024", "BLOCK=256"}}},
        {"block_1024", {}},
        {"block_4096", {{"BLOCK=1024", "BLOCK=4096"}}},
        {"one_warp", {{"BLOCK=1024, num_warps=8", "BLOCK=128, num_warps=1"}}},
        {"torch", {{"class ModelNew(", "class Triton("}, {"class Model(", "class ModelNew("}}}}},
      {"softmax",
       {{"1024, 1000", "8192, 4000"}},
       {{"warps_1", {{"num_warps=4", "num_warps=1"}}},
        {"warps_4", {}},
        {"warps_8", {{"num_warps=4", "num_warps=8"}}},
        {"warps_16", {{"num_warps=4", "num_warps=16"}}},
        {"wide_block", {{"BLOCK=block", "BLOCK=2 * block"}}}}},
      {"layernorm",
       {{"2048, 768", "16384, 1000"}, {"return [768]", "return [1000]"}},
       {{"warps_1", {{kRowBlock, kRowBlock + ", num_warps=1"}}},
        {"warps_4", {}},
        {"warps_8", {{kRowBlock, kRowBlock + ", num_warps=8"}}},
        {"wide_block", {{kRowBlock, "BLOCK=4 * triton.next_power_of_2(columns)"}}}}},
      {"matmul",
       {{"512, 256", "2048, 1024"}, {"256, 512", "1024, 2048"}, {kTuned, ""}},
       {{"tile_64", {}},
        {"tile_32", {{kTile, "\"M\": 32, \"N\": 32, \"K\": 32}, num_stages=3, num_warps=4"}}},
        {"tile_128", {{kTile, "\"M\": 128, \"N\": 128, \"K\": 32}, num_stages=3, num_warps=8"}}},
        {"tile_128_64", {{kTile, "\"M\": 128, \"N\": 64, \"K\": 64}, num_stages=4, num_warps=8"}}},
        {"one_stage", {{kTile, "\"M\": 64, \"N\": 64, \"K\": 32}, num_stages=1, num_warps=4"}}}}},
      {"attention",
       {{"1024, 64", "8192, 64"}},
       {{"step_32", {}},
        {"step_16", {{"STEP=32", "STEP=16"}}},
        {"step_64", {{"STEP=32", "STEP=64"}}},
        {"rows_32", {{"// 64,)", "// 32,)"}, {"ROWS=64", "ROWS=32"}}},
        {"rows_128", {{"// 64,)", "// 128,)"}, {"ROWS=64", "ROWS=128"}}}}},
      {"gather",
       {{"4096, 256", "65536, 256"}, {"randint(0, 4096, (2048,))", "randint(0, 65536, (65536,))"}},
       {{"warps_4", {}},
        {"warps_1", {{"BLOCK=256)", "BLOCK=256, num_warps=1)"}}},
        {"wide_block", {{"BLOCK=256)", "BLOCK=1024)"}}},
        {"long_index", {{"index.to(torch.int32)", "index"}}}}},
      {"mixed",
       {{"256, 512", "8192, 512"}, {".add_(1.0)", ""}, {"        torch.cuda.synchronize()\n", ""}},
       {{"block_256", {}},
        {"block_64", {{"BLOCK=256", "BLOCK=64"}}},
        {"block_512", {{"BLOCK=256", "BLOCK=512"}}},
        {"one_warp", {{"BLOCK=256", "BLOCK=512, num_warps=1"}}}}},
      {"persistent",
       {{"4096, 1024", "16384, 4096"}},
       {{"block_2048", {}},
        {"block_512", {{"BLOCK=2048", "BLOCK=512"}}},
        {"block_8192", {{"BLOCK=2048", "BLOCK=8192"}}},
        {"more_blocks", {{"multi_processor_count", "multi_processor_count * 8"}}}}},
      {"reduction",
       {{"1 << 20", "1 << 25"}},
       {{"block_4096", {}},
        {"block_16384", {{"4096", "16384"}}},
        {"block_32768", {{"4096", "32768"}}},
        {"warps_16", {{"BLOCK=4096)", "BLOCK=4096, num_warps=16)"}}}}},
  };
  return kAll;
}

}  // namespace

std::vector<TaskExample> ReadTaskExamples() {
  const fs::path root = SourcePath("examples/tasks");
  std::map<std::string, std::shared_ptr<const Problem>> problems;
  std::vector<TaskExample> examples;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const std::string task = TaskOf(fs::relative(entry.path(), root));
    if (task.empty()) continue;
    std::shared_ptr<const Problem>& problem = problems[task];
    if (problem == nullptr) problem = Parse(ValueOf(ReadProblemFolder((root / task).string())));
    examples.push_back({fs::path(task).replace_extension().string(), entry.path().stem().string(),
                        ValueOf(ReadFile(entry.path().string())), problem});
  }
  std::ranges::sort(examples, {}, [](const TaskExample& e) { return std::tie(e.task, e.name); });
  return examples;
}

std::vector<TaskExample> MakeTaskVariants() {
  std::vector<TaskExample> examples;
  for (const Variants& variants : AllVariants()) {
    const std::string file = absl::StrCat(variants.file, ".py");
    const std::string text = Replaced(
        ValueOf(ReadFile(SourcePath(absl::StrCat("tests/integration/worker/recorded/", file)))),
        variants.sizes);
    const auto problem = Parse({{file, text}});
    for (const auto& [name, replacements] : variants.candidates) {
      // A candidate that equals the task is its reference.
      examples.push_back({absl::StrCat("recorded/", variants.file), name,
                          absl::StrCat(Replaced(text, replacements), "\n"), problem});
    }
  }
  return examples;
}

Candidate CandidateOf(const TaskExample& example) {
  Candidate candidate = ValueOf(ReferenceCandidate(*example.problem, kCudaTargetName));
  candidate.source = example.source;
  candidate.name = example.name;
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

}  // namespace kernelcast::testing
