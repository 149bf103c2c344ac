#include "tests/support/kernel_examples.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "common/domain/candidate_json.h"
#include "tests/support/services.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;

std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return text.str();
}

void Require(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

}  // namespace

Problem ReadExampleProblem(const std::string& name) {
  auto files = ReadProblemFolder(SourcePath("examples/problems/" + name));
  Require(files.status());
  auto problem = ParseProblem(*std::move(files));
  Require(problem.status());
  return *std::move(problem);
}

std::vector<KernelExample> ReadKernelExamples(const std::string& folder) {
  std::vector<fs::path> sources;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".py") sources.push_back(entry.path());
  }
  std::sort(sources.begin(), sources.end());
  std::vector<KernelExample> examples;
  for (const fs::path& source : sources) {
    KernelExample& example = examples.emplace_back();
    example.problem = source.parent_path().filename().string();
    example.candidate =
        ReadExampleCandidate(source.string(), ReadExampleProblem(example.problem).problem_id);
  }
  return examples;
}

Candidate ReadExampleCandidate(const std::string& source_file, const std::string& problem_id) {
  const fs::path source = source_file;
  Candidate candidate;
  candidate.problem_id = problem_id;
  candidate.kind =
      source.extension() == ".py" ? CandidateKind::kPython : CandidateKind::kHostNative;
  candidate.name = source.stem().string();
  candidate.source = ReadText(source);
  fs::path json = source;
  json.replace_extension(".json");
  auto object = ParseCandidateJson(json.string(), ReadText(json), /*with_line=*/true);
  Require(object.status());
  Require(ApplyCandidateFields(json.string(), *object, {}, candidate));
  Require(ValidateCandidate(candidate));
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

std::string PythonOfTests(const std::string& compiler) {
  if (const char* named = std::getenv("KERNELCAST_PYTHON"); named != nullptr) return named;
  const std::string python = SourcePath(".setup/" + compiler + "/bin/python");
  std::error_code ignored;
  return fs::exists(python, ignored) ? python : "";
}

}  // namespace kernelcast::testing
