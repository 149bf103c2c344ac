// Kernel durations of the example problems' references by three clocks: events as the judge uses
// them, CUPTI activity records, and, with compare_with_ncu.py, Nsight Compute. Warm: each kernel
// runs repeatedly on the same inputs. Events are taken twice: back to back, and on a device that
// was idle for a while, as Nsight Compute launches. Events include a kernel's launch; the launch
// time is the difference between events and the range profiler's counters for an empty kernel.
//
//   bench_gpu_warm_times [--problems DIR] [--only NAME ...] [--rounds 5] [--idle-us 1000]
//                        [--csv FILE]
//   bench_gpu_warm_times --few 12 ...
//
// Everything runs in one process, so that a profiler can be attached. The second form launches all
// kernels of a problem once, then each of them this many times, and measures nothing.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/domain/problem.h"
#include "common/process/memory_file.h"
#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/random.h"
#include "services/worker/core/statistics.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/compiler/ptx_facts.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/prepared_problem.h"
#include "services/worker/cuda/runner/profile_report.h"
#include "services/worker/cuda/runner/profiler.h"
#include "services/worker/cuda/runner/runner.h"
#include "tests/support/services.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;
using namespace cuda_runner;  // NOLINT(google-build-using-namespace): its whole protocol

constexpr size_t kEmptySamples = 16;
constexpr uint32_t kTracedCalls = 100;
constexpr int kWarmUpCalls = 20;
constexpr uint64_t kAlignment = 512;

// One thread blocks the device, otherwise idle, until everything is queued.
constexpr const char* kToolsSource = R"(
extern "C" __global__ void nothing() {}
extern "C" __global__ void wait() {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < 1000ull * IDLE_US);
}
)";
// They use the slot of references.
constexpr uint32_t kTools = kReference;
enum Tool : uint32_t { kNothing, kWait, kNoLaunch };

struct Options {
  std::string problems;
  std::vector<std::string> only;
  int rounds = 5;
  int few = 0;
  int idle_us = 1000;
  std::string csv;
};

uint64_t RoundUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The runner's side of the protocol without a process: requests go in, replies come out.
class InProcess {
 public:
  InProcess(const CudaApi& api, Profiler* profiler) : runner_(api, Clock::Real()) {
    runner_.set_profiler(profiler);
  }

  absl::Status Start() {
    return runner_.Start() ? absl::OkStatus() : absl::UnavailableError("the runner cannot start");
  }
  absl::StatusOr<std::vector<float>> Ask(const Request& request, int fd = -1,
                                         std::span<const std::byte> records = {}) {
    std::vector<std::byte> packet(sizeof(request) + records.size());
    std::memcpy(packet.data(), &request, sizeof(request));
    std::copy(records.begin(), records.end(), packet.begin() + sizeof(request));
    const Runner::Answer answer = runner_.Handle(packet, fd);
    if (answer.reply.failure != Failure::kNone) {
      return absl::InternalError(
          absl::StrCat(answer.reply.where, ": CUDA error ", answer.reply.cuda_error));
    }
    return std::vector<float>(answer.values.begin(), answer.values.end());
  }
  absl::Status Map(uint32_t arena, const SharedArena& memory) {
    Request request{};
    request.command = Command::kMap;
    request.slot = arena;
    request.bytes = memory.bytes();
    request.writable = 1;
    return Ask(request, memory.fd()).status();
  }
  absl::Status ForSlot(Command command, uint32_t slot) {
    Request request{};
    request.command = command;
    request.slot = slot;
    return Ask(request).status();
  }
  absl::Status Load(uint32_t slot, const std::string& cubin,
                    const std::vector<std::string>& kernels) {
    std::string content = cubin;
    for (const std::string& kernel : kernels) content += kernel + '\0';
    KC_ASSIGN_OR_RETURN(const MemoryFile file, MemoryFile::FromContent("cubin", content));
    Request request{};
    request.command = Command::kLoad;
    request.slot = slot;
    request.bytes = cubin.size();
    request.count = static_cast<uint32_t>(kernels.size());
    request.extra = static_cast<uint32_t>(content.size() - cubin.size());
    return Ask(request, file.fd()).status();
  }
  absl::Status SetPrograms(uint32_t slot, const std::vector<Program>& programs) {
    const std::vector<std::byte> content = WritePrograms(programs);
    KC_ASSIGN_OR_RETURN(
        const MemoryFile file,
        MemoryFile::FromContent("programs",
                                {reinterpret_cast<const char*>(content.data()), content.size()}));
    Request request{};
    request.command = Command::kPrograms;
    request.slot = slot;
    request.bytes = content.size();
    request.count = static_cast<uint32_t>(programs.size());
    return Ask(request, file.fd()).status();
  }
  absl::Status Run(const SampleRecord& call, int times) {
    const std::vector<RunRecord> runs(static_cast<size_t>(times), {call.slot, call.program});
    Request request{};
    request.command = Command::kRun;
    request.count = static_cast<uint32_t>(runs.size());
    return Ask(request, -1, std::as_bytes(std::span(runs))).status();
  }
  // Microseconds of the calls of `samples`.
  absl::StatusOr<std::vector<double>> Time(const std::vector<SampleRecord>& samples) {
    Request request{};
    request.command = Command::kTime;
    request.count = static_cast<uint32_t>(samples.size());
    KC_ASSIGN_OR_RETURN(const std::vector<float> values_us,
                        Ask(request, -1, std::as_bytes(std::span(samples))));
    std::vector<double> calls_us;
    for (size_t i = 0; i < samples.size(); ++i) calls_us.push_back(values_us[2 * i + 1]);
    return calls_us;
  }
  // Microseconds of a warm call by the range profiler.
  absl::StatusOr<double> Count(const SampleRecord& sample) {
    KC_ASSIGN_OR_RETURN(const MemoryFile file, MemoryFile::Create("count", sizeof(CountReport),
                                                                  MemoryFile::Sharing::kReadWrite));
    Request request{};
    request.command = Command::kCount;
    request.count = 1;
    KC_RETURN_IF_ERROR(Ask(request, file.fd(), std::as_bytes(std::span(&sample, 1))).status());
    CountReport report;
    std::memcpy(&report, file.data(), sizeof(report));
    if (report.unavailable[0] != '\0') {
      return absl::UnavailableError(report.unavailable);
    }
    return report.values[kKernelNs] / 1000;
  }
  absl::StatusOr<TraceReport> Trace(const SampleRecord& call) {
    KC_ASSIGN_OR_RETURN(const MemoryFile file, MemoryFile::Create("trace", sizeof(TraceReport),
                                                                  MemoryFile::Sharing::kReadWrite));
    const RunRecord run{call.slot, call.program};
    Request request{};
    request.command = Command::kTrace;
    request.count = 1;
    request.extra = kTracedCalls;
    KC_RETURN_IF_ERROR(Ask(request, file.fd(), std::as_bytes(std::span(&run, 1))).status());
    TraceReport report;
    std::memcpy(&report, file.data(), sizeof(report));
    if (report.unavailable[0] != '\0') {
      return absl::UnavailableError(report.unavailable);
    }
    return report;
  }

 private:
  Runner runner_;
};

// A reference at one bench shape, mapped and loaded into the runner for this object's lifetime.
class Loaded {
 public:
  static absl::StatusOr<std::unique_ptr<Loaded>> Make(const Problem& problem,
                                                      const AxisValues& axes,
                                                      const std::string& cubin, CudaDevice& device,
                                                      InProcess& runner) {
    std::unique_ptr<Loaded> loaded(new Loaded(runner));
    const KernelProgram& reference = problem.targets.at(std::string(kCudaTargetName)).reference;
    const CudaProgram program{cubin, reference.launches, reference.workspace_bytes, {}};
    KC_RETURN_IF_ERROR(loaded->PlaceTensors(problem, axes, device));
    KC_ASSIGN_OR_RETURN(PlannedProgram planned,
                        PlanProgram(problem, program, loaded->case_,
                                    {CudaCasePlan::kOutputs, loaded->case_.outputs}));
    KC_RETURN_IF_ERROR(loaded->Map(CudaPreparedProblem::kScratch, planned.workspace_bytes, device));
    const std::vector<std::string> kernels = program.KernelNames();
    Program& whole = planned.program;
    std::vector<Program> programs;
    for (const ProgramLaunch& launch : whole.launches) {
      programs.push_back({{launch}});
      loaded->kernels_.push_back(kernels[launch.kernel]);
    }
    programs.push_back(std::move(whole));
    KC_RETURN_IF_ERROR(runner.Load(kCandidate, cubin, kernels));
    KC_RETURN_IF_ERROR(runner.SetPrograms(kCandidate, programs));
    // Provides the data for kernels that read what earlier ones wrote.
    KC_RETURN_IF_ERROR(runner.Run({kCandidate, loaded->whole(), 0, 0}, 1));
    return loaded;
  }
  ~Loaded() {
    (void)runner_.ForSlot(Command::kUnload, kCandidate);
    for (const uint32_t arena : mapped_) (void)runner_.ForSlot(Command::kUnmap, arena);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  // The kernel of each launch; each is the program of the same number.
  const std::vector<std::string>& kernels() const { return kernels_; }
  uint32_t whole() const { return static_cast<uint32_t>(kernels_.size()); }

 private:
  explicit Loaded(InProcess& runner) : runner_(runner) {}

  absl::Status Map(uint32_t arena, uint64_t bytes, CudaDevice& device) {
    KC_ASSIGN_OR_RETURN(SharedArena memory,
                        SharedArena::Create(device, std::max(kAlignment, bytes)));
    KC_RETURN_IF_ERROR(runner_.Map(arena, memory));
    mapped_.push_back(arena);
    arenas_.push_back(std::move(memory));
    return absl::OkStatus();
  }
  absl::Status PlaceTensors(const Problem& problem, const AxisValues& axes, CudaDevice& device) {
    case_.spec.axes = axes;
    uint64_t inputs_end = 0;
    uint64_t outputs_end = 0;
    KC_ASSIGN_OR_RETURN(const auto inputs, Layouts(problem.inputs, axes));
    for (const TensorLayout& layout : inputs) {
      case_.inputs.push_back({inputs_end, static_cast<uint64_t>(layout.bytes())});
      inputs_end = RoundUp(inputs_end + static_cast<uint64_t>(layout.bytes()));
    }
    KC_ASSIGN_OR_RETURN(const auto outputs, Layouts(problem.outputs, axes));
    for (const TensorLayout& layout : outputs) {
      case_.outputs.push_back({outputs_end, static_cast<uint64_t>(layout.bytes())});
      outputs_end = RoundUp(outputs_end + static_cast<uint64_t>(layout.bytes()));
    }
    KC_RETURN_IF_ERROR(Map(CudaPreparedProblem::kInputs, inputs_end, device));
    KC_RETURN_IF_ERROR(Map(CudaPreparedProblem::kOutputs, outputs_end, device));
    Random random(1);
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::string data(static_cast<size_t>(inputs[i].bytes()), '\0');
      KC_RETURN_IF_ERROR(FillInput(problem.inputs[i], inputs[i], {axes}, random,
                                   std::as_writable_bytes(std::span(data))));
      KC_RETURN_IF_ERROR(
          device.Check(device.api().MemcpyHtoDAsync(arenas_[0].address() + case_.inputs[i].offset,
                                                    data.data(), data.size(), device.stream()),
                       "copying inputs"));
      KC_RETURN_IF_ERROR(device.Synchronize());
    }
    return absl::OkStatus();
  }

  InProcess& runner_;
  CudaPreparedProblem::Case case_;
  std::vector<SharedArena> arenas_;
  std::vector<uint32_t> mapped_;
  std::vector<std::string> kernels_;
};

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {}
  absl::Status Run();

 private:
  absl::Status Open();
  absl::StatusOr<std::string> Compile(const std::string& source,
                                      const std::vector<std::string>& flags,
                                      const std::vector<LaunchShape>& shapes);
  absl::Status LoadTools();
  // Unmapping a problem's memory clears them.
  absl::Status SetToolPrograms();
  // Median microseconds of a call by events minus the time of empty events, either back to back or
  // after the device was `idle`.
  absl::StatusOr<double> TimeCalls(const SampleRecord& call, bool idle);
  absl::Status MeasureLaunch();
  absl::Status MeasureKernel(const std::string& problem, const SampleRecord& call,
                             const std::string& kernel, uint32_t launch);
  absl::Status Measure(const Problem& problem, const AxisValues& axes, const std::string& cubin);

  const Options options_;
  const CudaApi* api_ = nullptr;
  testing::TemporaryFolder folder_{"warm-times"};
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<CudaCompiler> compiler_;
  std::string architecture_;
  std::unique_ptr<Profiler> profiler_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<InProcess> runner_;
  std::ofstream csv_;
};

absl::Status Bench::Open() {
  KC_ASSIGN_OR_RETURN(const CudaToolkit toolkit,
                      FindCudaToolkit(CudaHomes("", testing::ProgramFolder())));
  // A profiler attached to this process conflicts with another one inside it.
  profiler_ = options_.few > 0 ? NoProfiler(absl::UnavailableError("not asked for"))
                               : OpenProfiler(toolkit.cupti_library);
  KC_ASSIGN_OR_RETURN(api_, LoadCudaApi());
  KC_ASSIGN_OR_RETURN(const DeviceFacts facts, DescribeDevice(*api_));
  KC_ASSIGN_OR_RETURN(auto artifacts, ArtifactCache::Open(folder_.File("cache"), int64_t{1} << 30));
  CudaCompilerOptions compiler;
  compiler.process.program = absl::StrCat(testing::ProgramFolder(), "/kernelcast-cuda-compiler");
  compiler.process.toolkit = toolkit;
  cache_ = std::make_unique<CompileCache>(std::move(artifacts));
  KC_ASSIGN_OR_RETURN(compiler_, CudaCompiler::Make(std::move(compiler), *cache_));
  const auto architecture = compiler_->toolchain().ArchitectureOf(facts.compute_capability_major,
                                                                  facts.compute_capability_minor);
  if (!architecture) {
    return absl::UnavailableError("the toolkit does not know the device");
  }
  architecture_ = *architecture;
  KC_ASSIGN_OR_RETURN(device_, CudaDevice::Open(*api_));
  runner_ = std::make_unique<InProcess>(*api_, profiler_.get());
  KC_RETURN_IF_ERROR(runner_->Start());
  std::printf("%s, %s, NVRTC %s\n", facts.info.model.c_str(), architecture_.c_str(),
              compiler_->toolchain().nvrtc_version.c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::string> Bench::Compile(const std::string& source,
                                           const std::vector<std::string>& flags,
                                           const std::vector<LaunchShape>& shapes) {
  KC_ASSIGN_OR_RETURN(const CompileResult compiled,
                      compiler_->Compile(source, flags, shapes, architecture_, CancelToken()));
  if (const auto* error = std::get_if<CompileError>(&compiled.result)) {
    return absl::FailedPreconditionError(error->log);
  }
  return std::get<CompileSuccess>(compiled.result).artifact.content;
}

absl::Status Bench::LoadTools() {
  KC_ASSIGN_OR_RETURN(const std::string cubin,
                      Compile(kToolsSource, {absl::StrCat("-DIDLE_US=", options_.idle_us)}, {}));
  return runner_->Load(kTools, cubin, {"nothing", "wait"});
}

absl::Status Bench::SetToolPrograms() {
  std::vector<Program> programs(kNoLaunch + 1);
  for (const uint32_t tool : {kNothing, kWait}) {
    programs[tool].launches.resize(1);
    programs[tool].launches.front().kernel = tool;
  }
  return runner_->SetPrograms(kTools, programs);
}

absl::StatusOr<double> Bench::TimeCalls(const SampleRecord& call, bool idle) {
  const SampleRecord empty{kTools, kNoLaunch, 0, 0};
  std::vector<SampleRecord> samples;
  const auto add = [&](const SampleRecord& sample, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (idle) samples.push_back({kTools, kWait, 0, 0});
      samples.push_back(sample);
    }
  };
  const size_t share = idle ? 2 : 1;
  add(empty, kEmptySamples / share);
  const size_t first_call = samples.size();
  add(call, (kMaxSamples - kEmptySamples) / share);
  // The median of rounds, so that a disturbed round does not count.
  std::vector<double> rounds_us;
  for (int round = 0; round < options_.rounds; ++round) {
    KC_ASSIGN_OR_RETURN(const std::vector<double> times_us, runner_->Time(samples));
    std::vector<double> empty_us;
    std::vector<double> calls_us;
    for (size_t i = share - 1; i < times_us.size(); i += share) {
      (i < first_call ? empty_us : calls_us).push_back(times_us[i]);
    }
    rounds_us.push_back(Median(calls_us) - Median(empty_us));
  }
  return Median(rounds_us);
}

absl::Status Bench::MeasureLaunch() {
  KC_RETURN_IF_ERROR(SetToolPrograms());
  const SampleRecord nothing{kTools, kNothing, 0, 0};
  if (options_.few == 0) {
    std::vector<double> counted_us;
    for (int round = 0; round < options_.rounds; ++round) {
      KC_ASSIGN_OR_RETURN(const double us, runner_->Count(nothing));
      counted_us.push_back(us);
    }
    std::printf("an empty kernel takes %.3f us by counters\n", Median(counted_us));
  }
  KC_RETURN_IF_ERROR(runner_->Run(nothing, 1));
  return MeasureKernel("none", nothing, "nothing", 0);
}

absl::Status Bench::MeasureKernel(const std::string& problem, const SampleRecord& call,
                                  const std::string& kernel, uint32_t launch) {
  if (options_.few > 0) {
    return runner_->Run(call, options_.few);
  }
  KC_RETURN_IF_ERROR(runner_->Run(call, kWarmUpCalls));
  KC_ASSIGN_OR_RETURN(const double busy_us, TimeCalls(call, false));
  KC_ASSIGN_OR_RETURN(const double idle_us, TimeCalls(call, true));
  const auto traced = runner_->Trace(call);
  const double activity_us = traced.ok() ? traced->call_ns / 1000 : 0;
  std::printf("%-18s %-24s events %9.3f us, after idling %9.3f us, activity %9.3f us%s\n",
              problem.c_str(), kernel.c_str(), busy_us, idle_us, activity_us,
              traced.ok() ? "" : ": ");
  if (!traced.ok()) std::printf("  %s\n", std::string(traced.status().message()).c_str());
  csv_ << problem << "," << launch << "," << kernel << "," << busy_us << "," << idle_us << ","
       << activity_us << "\n";
  return absl::OkStatus();
}

absl::Status Bench::Measure(const Problem& problem, const AxisValues& axes,
                            const std::string& cubin) {
  KC_ASSIGN_OR_RETURN(const auto loaded, Loaded::Make(problem, axes, cubin, *device_, *runner_));
  KC_RETURN_IF_ERROR(SetToolPrograms());
  for (uint32_t launch = 0; launch < loaded->kernels().size(); ++launch) {
    KC_RETURN_IF_ERROR(
        MeasureKernel(problem.name, {kCandidate, launch, 0, 0}, loaded->kernels()[launch], launch));
  }
  return absl::OkStatus();
}

absl::Status Bench::Run() {
  KC_RETURN_IF_ERROR(Open());
  if (!options_.csv.empty()) {
    csv_.open(options_.csv);
    csv_ << "problem,launch,kernel,busy_us,idle_us,activity_us\n";
  }
  KC_RETURN_IF_ERROR(LoadTools());
  KC_RETURN_IF_ERROR(MeasureLaunch());
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(options_.problems)) {
    const std::string name = entry.path().filename();
    if (fs::exists(entry.path() / "problem.yaml") &&
        (options_.only.empty() ||
         std::find(options_.only.begin(), options_.only.end(), name) != options_.only.end())) {
      folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    KC_ASSIGN_OR_RETURN(auto files, ReadProblemFolder(folder));
    KC_ASSIGN_OR_RETURN(const Problem problem, ParseProblem(std::move(files)));
    const auto target = problem.targets.find(kCudaTargetName);
    if (target == problem.targets.end()) continue;
    const KernelProgram& reference = target->second.reference;
    KC_ASSIGN_OR_RETURN(const std::string cubin, Compile(reference.source, reference.flags,
                                                         LaunchShapesOf(reference.launches, {})));
    for (const AxisValues& axes : target->second.bench_shapes) {
      KC_RETURN_IF_ERROR(Measure(problem, axes, cubin));
    }
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app("Durations of the references' kernels, warm, by events and by activity records.",
               "bench_gpu_warm_times");
  Options options;
  options.problems = testing::SourcePath("examples/problems");
  app.add_option("--problems", options.problems, "Folder of problems")->capture_default_str();
  app.add_option("--only", options.only, "Names of problems");
  app.add_option("--rounds", options.rounds, "Rounds of up to 112 calls")->capture_default_str();
  app.add_option("--few", options.few, "Launches of each kernel, without measuring");
  app.add_option("--idle-us", options.idle_us, "Microseconds of idle time before a launch")
      ->check(CLI::Range(10, 1000000))
      ->capture_default_str();
  app.add_option("--csv", options.csv, "Write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Bench(std::move(options)).Run();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) { return kernelcast::worker::Main(argc, argv); }
