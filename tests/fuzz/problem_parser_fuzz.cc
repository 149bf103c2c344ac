// libFuzzer harness for problem files. An input is the concatenated files of a problem, each under
// a line "=== PATH"; make_corpus.py writes such inputs from the example problems.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/utf8.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"

namespace kernelcast {
namespace {

constexpr std::string_view kMark = "=== ";

std::vector<ProblemFile> Split(std::string_view text) {
  std::vector<ProblemFile> files;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with(kMark)) {
      files.push_back({std::string(line.substr(kMark.size())), ""});
    } else if (!files.empty()) {
      files.back().content.append(line).push_back('\n');
    }
  }
  return files;
}

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

void Use(const Problem& problem) {
  for (const std::vector<AxisValues>* shapes : {&problem.check_shapes, &problem.bench_shapes}) {
    for (const AxisValues& shape : *shapes) {
      for (const std::vector<TensorSpec>* tensors : {&problem.inputs, &problem.outputs}) {
        for (const TensorSpec& tensor : *tensors) {
          Require(TensorShape(tensor, shape).ok(), "shapes of a parsed problem are legal");
        }
      }
    }
  }
  for (const auto& [name, target] : problem.targets) {
    const absl::StatusOr<Candidate> reference = ReferenceCandidate(problem, name);
    Require(reference.ok() && ValidateCandidate(*reference).ok(), "references are valid");
    if (!target.space.has_value()) continue;
    for (const SpacePoint& point : EnumeratePoints(*target.space, 100)) {
      Require(Admits(*target.space, point), "listed points are admitted");
      const Candidate candidate = CandidateFromPoint(*target.space, point, problem.problem_id);
      Require(ValidateCandidate(candidate).ok(), "candidates of points are valid");
    }
  }
}

}  // namespace
}  // namespace kernelcast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kernelcast;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<Problem> problem = ParseProblem(Split(text));
  if (!problem.ok()) {
    const std::string message(problem.status().message());
    Require(problem.status().code() == absl::StatusCode::kInvalidArgument,
            "a bad problem is an invalid argument");
    Require(IsValidUtf8(message) && message.size() < 2000, "messages are short UTF-8");
    Require(message.find('\n') == std::string::npos, "messages are one line");
    return 0;
  }
  Use(*problem);
  const absl::StatusOr<Problem> again = ParseProblem(problem->files);
  Require(again.ok() && again->problem_id == problem->problem_id, "parsing repeats");
  return 0;
}
