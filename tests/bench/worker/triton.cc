// Compiles Triton candidates without a GPU. Prints how many the virtual GPU covers, and with
// --threads how many compile per second.
//
//   bench_triton [--folder examples/triton] [--architectures sm_80,sm_90a] [--threads N]
//   bench_triton --measure FILE
//   bench_triton --compare FILE
//
// triton_kernels.py writes a folder with more kernels than the examples.
//
// The second form needs a GPU. It measures these candidates and Python candidates of PyTorch tasks,
// and appends a line of JSON for each. The third needs none. It estimates the candidates of such a
// file and prints how well estimates rank them. Both need an interpreter with PyTorch and Triton.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "services/worker/cuda/target/cuda_target.h"
#include "tests/bench/worker/measured_estimates.h"
#include "tests/support/kernel_examples.h"
#include "tests/support/services.h"

namespace kernelcast::testing {
namespace {

struct Flags {
  std::string folder = SourcePath("examples/triton");
  std::string python = PythonOfTests("triton");
  std::vector<std::string> architectures = {"sm_80", "sm_90a"};
  std::string only;
  std::string measure;
  std::string compare;
  int threads = 0;
  int copies = 1;
};

// As for ctest's SKIP_RETURN_CODE.
constexpr int kSkipped = 77;

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

absl::StatusOr<std::unique_ptr<worker::CudaTarget>> MakeTarget(const Flags& flags,
                                                               const std::string& architecture,
                                                               const std::string& folder) {
  worker::CudaTargetOptions options;
  options.program_folder = KERNELCAST_BIN_DIR;
  options.cache_directory = folder;
  options.cuda_home = KERNELCAST_CUDA_HOME;
  options.architecture = architecture;
  options.gpus = "none";
  options.python = flags.python;
  options.untrusted_uid = 65534;
  options.compile_processes = std::max(1, flags.threads);
  return worker::CudaTarget::Make(std::move(options));
}

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, 300);
}

// The virtual GPU's objection: "" if it covers all launches at all bench shapes.
std::string NotCovered(const CompileFacts& facts) {
  if (facts.simulations.empty()) return "not simulated";
  for (const ShapeSimulation& shape : facts.simulations) {
    for (const LaunchSimulation& launch : shape.launches) {
      if (!launch.not_covered.empty()) return absl::StrCat(launch.kernel, ": ", launch.not_covered);
    }
  }
  return "";
}

void Coverage(const Flags& flags, const std::vector<KernelExample>& examples,
              const std::map<std::string, Problem>& problems) {
  for (const std::string& architecture : flags.architectures) {
    const TemporaryFolder folder("triton");
    const auto target = MakeTarget(flags, architecture, folder.path());
    if (!target.ok()) {
      std::printf("%s\n", target.status().ToString().c_str());
      return;
    }
    int compiled = 0;
    int covered = 0;
    int findings = 0;
    for (const KernelExample& example : examples) {
      const std::string name = absl::StrCat(example.problem, "/", example.candidate.name);
      if (name.find(flags.only) == std::string::npos) continue;
      const int64_t start_ns = Clock::Real().MonotonicNs();
      const auto made = (*target)->Compile({problems.at(example.problem), &example.candidate},
                                           worker::CancelToken());
      const double seconds = Seconds(Clock::Real().MonotonicNs() - start_ns);
      std::string outcome;
      if (!made.ok()) {
        outcome = made.status().ToString();
      } else if (const auto* error = std::get_if<CompileError>(&made->result)) {
        outcome = "does not compile: " + error->log;
      } else {
        const auto& success = std::get<worker::CompileSuccess>(made->result);
        ++compiled;
        const std::string reason = NotCovered(success.facts);
        outcome = reason.empty() ? "covered" : "NOT COVERED: " + reason;
        if (reason.empty()) ++covered;
        if (!success.facts.simulations.empty()) {
          const auto names = (*FindSimulationSchema(success.facts.simulations[0].schema))->names;
          for (const LaunchSimulation& launch : success.facts.simulations[0].launches) {
            for (const Finding& finding : launch.findings) {
              ++findings;
              absl::StrAppend(&outcome, "; ", std::string(FindingName(finding.kind)), " line ",
                              finding.source_line, ": ", finding.detail);
            }
            if (!launch.values.empty()) {
              absl::StrAppend(&outcome, "; ", std::string(names[0]), " ", launch.values[0]);
            }
          }
        }
      }
      std::printf("%-7s %-36s %5.2f s  %s\n", architecture.c_str(), name.c_str(), seconds,
                  OneLine(outcome).c_str());
      std::fflush(stdout);
    }
    std::printf("%s: %d compiled, %d covered, %d findings\n", architecture.c_str(), compiled,
                covered, findings);
  }
}

void Throughput(const Flags& flags, const std::vector<KernelExample>& examples,
                const std::map<std::string, Problem>& problems) {
  const TemporaryFolder folder("triton");
  const auto target = MakeTarget(flags, flags.architectures.back(), folder.path());
  if (!target.ok()) {
    std::printf("%s\n", target.status().ToString().c_str());
    return;
  }
  std::vector<KernelExample> all;
  for (int copy = 0; copy < flags.copies; ++copy) {
    for (KernelExample example : examples) {
      absl::StrAppend(&example.candidate.source, "# ", copy, "\n");
      all.push_back(std::move(example));
    }
  }
  for (const char* pass : {"cold", "warm cache"}) {
    std::atomic<size_t> next = 0;
    std::atomic<int> failed = 0;
    const int64_t start_ns = Clock::Real().MonotonicNs();
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < flags.threads; ++i) {
        threads.emplace_back([&] {
          for (size_t at = next++; at < all.size(); at = next++) {
            const auto made = (*target)->Compile({problems.at(all[at].problem), &all[at].candidate},
                                                 worker::CancelToken());
            if (!made.ok() || std::holds_alternative<CompileError>(made->result)) ++failed;
          }
        });
      }
    }
    const double seconds = Seconds(Clock::Real().MonotonicNs() - start_ns);
    std::printf("%s: %zu candidates (%d failed) in %.2f s on %d threads: %.1f / s\n", pass,
                all.size(), failed.load(), seconds, flags.threads,
                static_cast<double>(all.size()) / seconds);
  }
}

int MeasureOrCompare(const Flags& flags) {
  const bool measures = !flags.measure.empty();
  const MeasuredEstimatesOptions options = {
      .triton_folder = flags.folder,
      .python = flags.python,
      .cuda_home = measures ? "" : KERNELCAST_CUDA_HOME,
      .architecture = flags.architectures.back(),
      .only = flags.only,
      .file = measures ? flags.measure : flags.compare,
  };
  const absl::Status status = measures ? MeasureExamples(options) : CompareWithMeasured(options);
  if (status.ok()) return 0;
  if (measures && absl::IsUnavailable(status)) {
    std::printf("skipped: %s\n", std::string(status.message()).c_str());
    return kSkipped;
  }
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int Run(const Flags& flags) {
  if (!flags.measure.empty() || !flags.compare.empty()) return MeasureOrCompare(flags);
  const std::vector<KernelExample> examples = ReadKernelExamples(flags.folder);
  std::map<std::string, Problem> problems;
  for (const KernelExample& example : examples) {
    if (!problems.contains(example.problem)) {
      problems.emplace(example.problem, ReadExampleProblem(example.problem));
    }
  }
  if (flags.threads > 0) {
    Throughput(flags, examples, problems);
  } else {
    Coverage(flags, examples, problems);
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast::testing

int main(int argc, char** argv) {
  kernelcast::testing::Flags flags;
  CLI::App app("Compiles Triton candidates");
  app.add_option("--folder", flags.folder, "Folder of candidates")->capture_default_str();
  app.add_option("--python", flags.python, "Interpreter with Triton")->capture_default_str();
  app.add_option("--architectures", flags.architectures, "Comma-separated")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--only", flags.only, "Part of the name of the candidates to take");
  CLI::Option* const measure = app.add_option(
      "--measure", flags.measure, "Measure on a GPU, and append the times to this file");
  app.add_option("--compare", flags.compare,
                 "Estimate the candidates of such a file without a GPU, for the last architecture")
      ->excludes(measure)
      ->check(CLI::ExistingFile);
  app.add_option("--threads", flags.threads, "Measure throughput with this many threads");
  app.add_option("--copies", flags.copies, "Of each candidate, for throughput")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return kernelcast::testing::Run(flags);
}
