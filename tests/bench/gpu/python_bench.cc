#include "tests/bench/gpu/python_bench.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/process/child_process.h"

namespace kernelcast::testing {
namespace {

constexpr int64_t kLimitNs = 600'000'000'000;
// KernelBench and candidates print much.
constexpr int64_t kMaxOutputBytes = 64 << 20;

absl::StatusOr<Artifact> ArtifactOf(const worker::CompileResult& compiled) {
  if (const auto* const success = std::get_if<worker::CompileSuccess>(&compiled.result)) {
    return success->artifact;
  }
  return absl::InternalError(std::get<CompileError>(compiled.result).log);
}

}  // namespace

absl::StatusOr<std::unique_ptr<worker::CudaTarget>> MakePythonTarget(const std::string& python,
                                                                     const std::string& cache,
                                                                     int compile_processes) {
  worker::CudaTargetOptions options;
  options.program_folder = ProgramFolder();
  options.cache_directory = cache;
  options.python = python;
  options.untrusted_uid = 65534;
  options.include_directories = CandidateHeaders();
  options.compile_processes = compile_processes;
  KC_ASSIGN_OR_RETURN(auto target, worker::CudaTarget::Make(std::move(options)));
  const worker::TargetInfo info = target->Describe();
  if (!info.can_measure) return absl::UnavailableError(info.unavailable_reason);
  for (const std::string& missing : info.missing_tools) {
    if (missing.starts_with("no PyTorch tasks")) return absl::UnavailableError(missing);
  }
  std::printf("%s, driver %s\n", info.device.model.c_str(), info.device.driver_version.c_str());
  return target;
}

CompileAhead::CompileAhead(worker::CudaTarget& target, const Problem& problem,
                           const std::vector<Candidate>& candidates, int threads, bool announce,
                           MeasureLevel level)
    : target_(target),
      problem_(problem),
      candidates_(candidates),
      announce_(announce),
      level_(level) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

CompileAhead::Compiled CompileAhead::Next() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](std::deque<Compiled>* compiled) { return !compiled->empty(); }, &compiled_));
  Compiled next = std::move(compiled_.front());
  compiled_.pop_front();
  return next;
}

void CompileAhead::Work() {
  for (size_t i = next_++; i < candidates_.size(); i = next_++) {
    const auto compiled = target_.Compile({problem_, &candidates_[i]}, worker::CancelToken());
    absl::StatusOr<Artifact> artifact = compiled.ok() ? ArtifactOf(*compiled) : compiled.status();
    const absl::MutexLock lock(&mutex_);
    if (artifact.ok() && announce_) target_.Expect(problem_, candidates_[i], level_);
    compiled_.push_back({i, std::move(artifact)});
  }
}

absl::StatusOr<std::vector<nlohmann::json>> RunKernelBench(
    const KernelBenchOptions& options, const std::string& task,
    const std::vector<std::string>& sources) {
  const TemporaryFolder folder("kernelbench");
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.File(name)) << text;
    return folder.File(name);
  };
  ChildOptions child_options;
  child_options.max_output_bytes = child_options.kept_output_bytes = kMaxOutputBytes;
  child_options.argv = {options.python, SourcePath("tests/bench/gpu/kernelbench_eval.py"),
                        "--trials",     absl::StrCat(options.trials),
                        "--processes",  absl::StrCat(options.processes),
                        "--limit-s",    absl::StrCat(options.limit_s),
                        options.folder, write("task.py", task)};
  if (options.explain) child_options.argv.push_back("--explain");
  for (size_t i = 0; i < sources.size(); ++i) {
    child_options.argv.push_back(write(absl::StrCat("candidate_", i, ".py"), sources[i]));
  }
  child_options.environment = {absl::StrCat("HOME=", folder.path().string())};
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_HOME"}) {
    if (const char* const value = std::getenv(name); value != nullptr) {
      child_options.environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  KC_ASSIGN_OR_RETURN(const auto child, ChildProcess::Spawn(child_options));
  const ChildExit exit = child->Wait(kLimitNs);
  std::vector<nlohmann::json> results(sources.size());
  size_t answers = 0;
  for (const absl::string_view line : absl::StrSplit(exit.output, '\n')) {
    nlohmann::json json = ParseBoundedJson(std::string_view(line.data(), line.size()));
    if (!json.is_object() || !json.contains("candidate")) continue;
    const auto candidate = json["candidate"].get<size_t>();
    results.at(candidate) = std::move(json);
    ++answers;
  }
  if (answers != sources.size()) {
    return absl::InternalError(absl::StrCat("kernelbench_eval.py: ", exit.output));
  }
  return results;
}

}  // namespace kernelcast::testing
