// Compares what the virtual GPU says about candidates with what is known of them: the recorded
// points of the example problems' CUDA spaces, which an H200 judged, and wrong variants of the
// references. Needs no GPU.
//
//   bench_simulated_verdicts [--problems DIR] [--only NAME ...] [--records DIR] [--ptx DIR]
//                            [--every N] [--list]
//
// A right kernel that is found wrong is always listed.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/domain/facts.h"
#include "common/domain/problem.h"
#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "tests/bench/gpu/ptx_source.h"
#include "tests/bench/worker/judge_mutants.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string problems = KERNELCAST_SOURCE_DIR "/examples/problems";
  std::string records = KERNELCAST_SOURCE_DIR "/data/measured/nvidia-h200/spaces";
  std::string ptx;
  std::string architecture = "sm_90a";
  std::string gpu = "NVIDIA H200";
  std::vector<std::string> only;
  int every = 1;
  bool list = false;
};

enum class Truth { kRight, kWrong, kMutant };
constexpr const char* kTruths[] = {"right", "wrong", "mutant"};

struct Kernel {
  Truth truth;
  std::string name;
  Candidate candidate;
};

// The points of the space that an H200 measured, or found wrong.
absl::StatusOr<std::vector<Kernel>> Recorded(const Problem& problem, const std::string& path) {
  std::vector<Kernel> kernels;
  const std::optional<Space>& space = problem.targets.at(std::string(kCudaTargetName)).space;
  if (!space || !fs::exists(path)) return kernels;
  std::map<std::string, Candidate> points;
  const auto key_of = [](const std::string& name, const std::string& value) {
    return absl::StrCat(name, "=", value, " ");
  };
  for (const SpacePoint& point : EnumeratePoints(*space)) {
    Candidate candidate = CandidateFromPoint(*space, point, problem.problem_id);
    std::string key;
    for (const Tunable& tunable : candidate.tunables) key += key_of(tunable.name, tunable.value);
    points.emplace(std::move(key), std::move(candidate));
  }
  KC_ASSIGN_OR_RETURN(const std::string content, ReadGzipFile(path));
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_discarded()) return absl::DataLossError(absl::StrCat(path, " is damaged"));
    const auto& evaluation = record.at("evaluation");
    if (!evaluation.contains("measured")) continue;
    const auto& measured = evaluation["measured"];
    const bool right = measured.contains("ok");
    if (!right && !measured.contains("wrong_result")) continue;
    std::string key;
    for (const auto& tunable : record.at("candidate").at("tunables")) {
      key += key_of(tunable.at("name"), tunable.at("value"));
    }
    const auto found = points.find(key);
    if (found == points.end()) continue;
    kernels.push_back({right ? Truth::kRight : Truth::kWrong, key, found->second});
  }
  return kernels;
}

struct Tally {
  int all = 0;
  int found_wrong = 0;  // by outputs
  int faults = 0;       // by faults alone
  int agreed = 0;
  int not_compared = 0;
};

int Run(const Options& options) {
  const fs::path kept = fs::temp_directory_path() / "kernelcast_simulated_verdicts";
  auto artifacts = ArtifactCache::Open(kept, int64_t{64} << 20);
  if (!artifacts.ok()) {
    std::fprintf(stderr, "%s\n", artifacts.status().ToString().c_str());
    return 1;
  }
  CompileCache cache(*std::move(artifacts));
  CudaCompilerOptions compiler_options;
  compiler_options.process.program = KERNELCAST_BIN_DIR "/kernelcast-cuda-compiler";
  const auto toolkit = FindCudaToolkit({KERNELCAST_CUDA_HOME});
  if (!toolkit.ok()) {
    std::fprintf(stderr, "%s\n", toolkit.status().ToString().c_str());
    return 1;
  }
  compiler_options.process.toolkit = *toolkit;
  const auto compiler = CudaCompiler::Make(compiler_options, cache);
  if (!compiler.ok()) {
    std::fprintf(stderr, "%s\n", compiler.status().ToString().c_str());
    return 1;
  }
  PtxSource source(options.ptx, options.architecture);
  std::map<Truth, Tally> totals;
  std::map<std::string, int> reasons;
  std::vector<double> ms;
  std::printf("%-22s %8s | %6s %6s %6s | %6s %6s %6s | %6s %6s %6s %6s\n", "problem", "cases ms",
              "right", "wrong", "agreed", "wrong", "found", "faults", "mutant", "found", "faults",
              "open");
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(options.problems)) {
    if (fs::exists(entry.path() / "problem.yaml")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename();
    if (!options.only.empty() &&
        std::find(options.only.begin(), options.only.end(), name) == options.only.end()) {
      continue;
    }
    auto files = ReadProblemFolder(folder.string());
    if (!files.ok()) continue;
    const auto problem = ParseProblem(*std::move(files));
    if (!problem.ok() || !problem->targets.contains(std::string(kCudaTargetName))) continue;
    const ProblemTarget& target = problem->targets.at(std::string(kCudaTargetName));
    auto kernels = Recorded(*problem, absl::StrCat(options.records, "/", name, ".jsonl.gz"));
    if (!kernels.ok()) {
      std::fprintf(stderr, "%s\n", kernels.status().ToString().c_str());
      return 1;
    }
    kernels->push_back(
        {Truth::kRight, "reference", *ReferenceCandidate(*problem, kCudaTargetName)});
    for (testing::Mutant& mutant : testing::CudaMutants(*problem)) {
      if (mutant.may_be_honest) continue;
      kernels->push_back({Truth::kMutant, mutant.kind, std::move(mutant.candidate)});
    }
    const int64_t start_ns = Clock::Real().MonotonicNs();
    const auto cases = (*compiler)->CasesOf(*problem, target, options.architecture, CancelToken());
    if (!cases.ok()) {
      std::fprintf(stderr, "%s\n", cases.status().ToString().c_str());
      return 1;
    }
    const auto cases_ms = static_cast<double>(Clock::Real().MonotonicNs() - start_ns) / 1e6;
    for (const SimulatedCase& at : **cases) {
      if (!at.not_compared.empty()) {
        std::printf("  %s at %s: %s\n", name.c_str(), at.text.c_str(), at.not_compared.c_str());
      }
    }
    std::map<Truth, Tally> tallies;
    for (size_t k = 0; k < kernels->size(); k += static_cast<size_t>(options.every)) {
      const Kernel& kernel = (*kernels)[k];
      const Candidate& candidate = kernel.candidate;
      const auto compiled = source.Compile(name, candidate);
      if (!compiled.ok()) continue;
      const auto plan_at = [&](const AxisValues& axes) {
        return PlanSimulation(*problem, candidate.launches, candidate.workspace_bytes,
                              candidate.tunables, axes, compiled->cubin);
      };
      auto timed = plan_at(target.bench_shapes.front());
      if (!timed.ok()) continue;
      std::vector<SimulationPlan> checks;
      for (const SimulatedCase& at : **cases) {
        auto plan = plan_at(at.spec.axes);
        if (!plan.ok()) continue;
        SetContents(at, *plan);
        plan->shape = at.text;
        plan->compared = &at;
        checks.push_back(*std::move(plan));
      }
      SimulatedProgram program{.architecture = options.architecture, .ptx = compiled->ptx};
      const int64_t begin_ns = Clock::Real().MonotonicNs();
      const auto made = (*compiler)->Simulate(program, {*std::move(timed)}, std::move(checks),
                                              options.gpu, CancelToken());
      const auto took_ms = static_cast<double>(Clock::Real().MonotonicNs() - begin_ns) / 1e6;
      if (!made.ok() || made->empty()) continue;
      ms.push_back(took_ms);
      const ShapeSimulation& simulation = made->front();
      Tally& tally = tallies[kernel.truth];
      ++tally.all;
      const Finding* value = nullptr;
      const Finding* fault = nullptr;
      for (const LaunchSimulation& launch : simulation.launches) {
        for (const Finding& finding : launch.findings) {
          (finding.kind == FindingKind::kWrongValue || finding.kind == FindingKind::kNotWritten
               ? value
               : fault) = &finding;
        }
      }
      std::string said = "agreed";
      if (value != nullptr) {
        ++tally.found_wrong;
        said = absl::StrCat(std::string(FindingName(value->kind)), " ", value->detail);
      } else if (fault != nullptr) {
        ++tally.faults;
        said = absl::StrCat(std::string(FindingName(fault->kind)), " ", fault->detail);
      } else if (OutputsAgreed(simulation)) {
        ++tally.agreed;
      } else {
        ++tally.not_compared;
        ++reasons[absl::StrCat(kTruths[static_cast<size_t>(kernel.truth)], " ", name, ": ",
                               simulation.not_compared)];
        said = absl::StrCat("not compared: ", simulation.not_compared);
      }
      const bool missed = kernel.truth != Truth::kRight && value == nullptr && fault == nullptr;
      const bool false_alarm = kernel.truth == Truth::kRight && (value || fault);
      if (options.list || false_alarm || missed) {
        std::printf("  %s, %s %s: %.1f ms, %s\n", kTruths[static_cast<size_t>(kernel.truth)],
                    name.c_str(), kernel.name.c_str(), took_ms, said.c_str());
      }
    }
    const Tally& right = tallies[Truth::kRight];
    const Tally& wrong = tallies[Truth::kWrong];
    const Tally& mutant = tallies[Truth::kMutant];
    std::printf("%-22s %8.0f | %6d %6d %6d | %6d %6d %6d | %6d %6d %6d %6d\n", name.c_str(),
                cases_ms, right.all, right.found_wrong + right.faults, right.agreed, wrong.all,
                wrong.found_wrong, wrong.faults, mutant.all, mutant.found_wrong, mutant.faults,
                mutant.all - mutant.found_wrong - mutant.faults);
    std::fflush(stdout);
    for (const auto& [truth, tally] : tallies) {
      Tally& total = totals[truth];
      total.all += tally.all;
      total.found_wrong += tally.found_wrong;
      total.faults += tally.faults;
      total.agreed += tally.agreed;
      total.not_compared += tally.not_compared;
    }
  }
  for (const auto& [truth, tally] : totals) {
    std::printf(
        "%s: %d kernels; outputs found wrong %d, only faults found %d, agreed %d, not compared "
        "%d\n",
        kTruths[static_cast<size_t>(truth)], tally.all, tally.found_wrong, tally.faults,
        tally.agreed, tally.not_compared);
  }
  for (const auto& [reason, count] : reasons) {
    std::printf("not compared, %d: %s\n", count, reason.c_str());
  }
  if (!ms.empty()) {
    std::sort(ms.begin(), ms.end());
    std::printf("ms per candidate: median %.1f, 90%% below %.1f, most %.1f\n", ms[ms.size() / 2],
                ms[ms.size() * 9 / 10], ms.back());
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) {
  kernelcast::worker::Options options;
  CLI::App app("Compares verdicts of the virtual GPU with those of an H200.");
  app.add_option("--problems", options.problems, "Folder of problems");
  app.add_option("--records", options.records, "Folder of measured PROBLEM.jsonl.gz");
  app.add_option("--ptx", options.ptx, "Folder to keep PTX in");
  app.add_option("--architecture", options.architecture, "Architecture by NVRTC's name");
  app.add_option("--only", options.only, "Problems");
  app.add_option("--every", options.every, "Take one kernel in this many")
      ->check(CLI::PositiveNumber);
  app.add_flag("--list", options.list, "List every kernel");
  CLI11_PARSE(app, argc, argv);
  return kernelcast::worker::Run(options);
}
