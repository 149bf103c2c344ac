#include "services/worker/cpu/cpu_target.h"

#include <signal.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/worker/core/verdict.h"
#include "services/worker/cpu/admission.h"
#include "services/worker/cpu/judge.h"
#include "services/worker/cpu/peaks.h"

namespace kernelcast::worker {
namespace {

constexpr const char* kTrivialKernel =
    "#include <kernelcast/candidate.h>\n"
    "extern \"C\" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, "
    "void*) "
    "{ return 0; }\n";
constexpr int64_t kProbeLimitNs = 10'000'000'000;
constexpr const char* kPythonLibrary = "kernelcast-python-runner.so";
// Other processes may hold the timing lease when this worker starts.
constexpr int64_t kPeaksLimitNs = 10'000'000'000;

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) == 0) {
      const size_t colon = line.find(": ");
      return colon == std::string::npos ? "" : line.substr(colon + 2);
    }
  }
  return "unknown";
}

// Whether the system may have ended the candidate's process for lack of memory.
bool WasKilled(const absl::StatusOr<MeasureOutcome>& outcome) {
  if (!outcome.ok()) return false;
  const auto* const crash = std::get_if<Crash>(&*outcome);
  return crash != nullptr && crash->signal == SIGKILL;
}

// Clock of one core, or 0 if the system does not report it.
double ClockHz(int cpu) {
  std::ifstream file(
      absl::StrCat("/sys/devices/system/cpu/cpu", std::max(0, cpu), "/cpufreq/scaling_cur_freq"));
  double khz = 0;
  file >> khz;
  return file ? khz * 1000 : 0;
}

DeviceInfo Device(const Toolchain* toolchain) {
  DeviceInfo device;
  device.model = CpuModel();
  device.compute_units = std::thread::hardware_concurrency();
  struct sysinfo info;
  if (sysinfo(&info) == 0) {
    device.memory_bytes = uint64_t{info.totalram} * info.mem_unit;
  }
  if (toolchain != nullptr) {
    device.runtime_version = toolchain->description.substr(0, toolchain->description.find(';'));
  }
  return device;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuTarget>> CpuTarget::Make(CpuTargetOptions options) {
  std::unique_ptr<CpuTarget> target(new CpuTarget(std::move(options)));
  KC_ASSIGN_OR_RETURN(auto artifacts, ArtifactCache::Open(target->options_.cache_directory,
                                                          target->options_.max_cache_bytes));
  target->cache_ = std::make_unique<CompileCache>(std::move(artifacts));
  KC_ASSIGN_OR_RETURN(target->lease_, TimingLease::Open(target->options_.lease_file));
  target->placement_ = Placement::Choose();
  target->info_.target = std::string(kCpuTargetName);
  target->info_.candidate_kinds = {CandidateKind::kHostNative};
  for (const std::string_view flag : AllowedCpuFlags()) {
    target->info_.allowed_flags.emplace_back(flag);
  }
  target->ProbeToolchain();
  if (target->info_.can_compile) {
    target->ProbeRunner();
  }
  if (target->info_.can_measure) {
    target->ProbePython();
  }
  return target;
}

CpuTarget::~CpuTarget() = default;

void CpuTarget::ProbeToolchain() {
  info_.device = Device(nullptr);
  auto toolchain = Toolchain::Probe(options_.compiler);
  if (!toolchain.ok()) {
    info_.unavailable_reason = absl::StrCat("no compiler: ", toolchain.status().message());
    return;
  }
  info_.architecture = toolchain->architecture;
  info_.toolchain = toolchain->description;
  info_.device = Device(&*toolchain);
  CompilerOptions compiler;
  compiler.work_directory = options_.cache_directory;
  compiler.include_directories = options_.include_directories;
  compiler.sandbox.program = options_.compiler_sandbox.empty()
                                 ? CompilerSandboxBeside(options_.runner.path)
                                 : options_.compiler_sandbox;
  compiler.sandbox.uid = options_.runner.uid;
  compiler_ = std::make_unique<CpuCompiler>(*std::move(toolchain), std::move(compiler));
  const auto trivial = CompileTrusted(kTrivialKernel, {}, "trial kernel", CancelToken());
  if (!trivial.ok()) {
    info_.unavailable_reason = absl::StrCat("cannot compile: ", trivial.status().message());
    return;
  }
  info_.can_compile = true;
}

void CpuTarget::ProbeRunner() {
  const auto try_out = [this]() -> absl::Status {
    const CancelToken cancel;
    KC_ASSIGN_OR_RETURN(const LoadableObject object,
                        CompileTrusted(kTrivialKernel, {}, "trial kernel", cancel));
    KC_ASSIGN_OR_RETURN(const MemoryFile inputs,
                        MemoryFile::Create("kernelcast-trial", 1, MemoryFile::Sharing::kReadOnly));
    KC_ASSIGN_OR_RETURN(const MemoryFile outputs,
                        MemoryFile::Create("kernelcast-trial", 1, MemoryFile::Sharing::kReadWrite));
    const runner::CaseRecord no_tensors{};
    KC_ASSIGN_OR_RETURN(const auto process,
                        RunnerProcess::Start(options_.runner, placement_, object, {&no_tensors, 1},
                                             inputs, outputs));
    RunnerProcess::End end = process->WaitReady(kProbeLimitNs, cancel);
    if (end == RunnerProcess::End::kDone) {
      end = process->Call(runner::kRun, 0, false, kProbeLimitNs, cancel).end;
    }
    if (end != RunnerProcess::End::kDone) {
      KC_ASSIGN_OR_RETURN(auto outcome, process->Failure(end, "trial", kProbeLimitNs));
      return absl::UnavailableError(OutcomeFeedback(std::move(outcome)));
    }
    info_.missing_protections = process->missing_protections();
    KC_ASSIGN_OR_RETURN(const auto of_compilers, compiler_->MissingProtections());
    for (const std::string& name : of_compilers) {
      auto& missing = info_.missing_protections;
      if (std::find(missing.begin(), missing.end(), name) == missing.end()) missing.push_back(name);
    }
    return absl::OkStatus();
  };
  const absl::Status tried = try_out();
  if (!tried.ok()) {
    info_.unavailable_reason = absl::StrCat("cannot run: ", tried.message());
    return;
  }
  info_.can_measure = true;
  const auto measure = [this]() -> absl::StatusOr<std::vector<DevicePeak>> {
    KC_ASSIGN_OR_RETURN(const LoadableObject object,
                        CompileTrusted(std::string(CpuPeaksSource()), {}, "peaks", CancelToken()));
    const CancelToken limit(Clock::Real().MonotonicNs() + kPeaksLimitNs);
    return MeasureCpuPeaks(object, options_.runner, placement_, *lease_, limit);
  };
  auto peaks = measure();
  if (!peaks.ok()) {
    Log(LogLevel::kWarning, "no rooflines: the peaks of a core were not measured",
        {{"reason", std::string(peaks.status().message())}});
    return;
  }
  info_.peaks = *std::move(peaks);
  options_.measure.peaks = info_.peaks;
}

void CpuTarget::ProbePython() {
  const auto refuse = [this](const std::string& reason) {
    info_.missing_tools.push_back(absl::StrCat("no PyTorch tasks: ", reason));
    Log(options_.python.empty() ? LogLevel::kInfo : LogLevel::kWarning, "no PyTorch tasks",
        {{"reason", reason}});
  };
  if (options_.python.empty()) {
    return refuse("no Python interpreter with PyTorch is configured (--python)");
  }
  auto python = ProbeTorch(options_.python);
  if (!python.ok()) {
    return refuse(absl::StrCat(python.status().message(), "; --python names another interpreter"));
  }
  PythonZygote::Options zygote;
  zygote.python = *python;
  zygote.program = kPythonRunner;
  zygote.arguments = {
      (std::filesystem::path(options_.runner.path).parent_path() / kPythonLibrary).string()};
  // One thread each, because the processes are bound to one core.
  zygote.environment = {"LC_ALL=C.UTF-8", "HOME=/nonexistent", "OMP_NUM_THREADS=1",
                        "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1"};
  options_.runner.python = std::make_shared<PythonZygote>(std::move(zygote));
  CompilerSandbox sandbox;
  sandbox.program = options_.compiler_sandbox.empty() ? CompilerSandboxBeside(options_.runner.path)
                                                      : options_.compiler_sandbox;
  sandbox.uid = options_.runner.uid;
  python_ = std::make_unique<PythonCompiler>(*std::move(python), std::move(sandbox),
                                             options_.cache_directory, /*builds_sources=*/false);
  info_.candidate_kinds.push_back(CandidateKind::kPython);
  Log(LogLevel::kInfo, "judges PyTorch tasks", {{"toolchain", python_->toolchain()}});
}

TargetInfo CpuTarget::Describe() const { return info_; }

absl::StatusOr<CompileResult> CpuTarget::CompileSource(const std::string& source,
                                                       const std::vector<std::string>& flags,
                                                       const CancelToken& cancel) {
  if (compiler_ == nullptr) {
    return absl::UnimplementedError(info_.unavailable_reason);
  }
  return cache_->GetOrCompile(compiler_->ArtifactId(source, flags), cancel,
                              [&] { return compiler_->Compile(source, flags, cancel); });
}

absl::StatusOr<CompileResult> CpuTarget::Compile(const CompileRequest& request,
                                                 const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(CheckModel(info_, request.device_model));
  if (request.candidate != nullptr) {
    return CompileCandidate(request.problem, *request.candidate, cancel);
  }
  KC_ASSIGN_OR_RETURN(const Candidate reference,
                      ReferenceCandidate(request.problem, kCpuTargetName));
  return CompileCandidate(request.problem, reference, cancel);
}

absl::StatusOr<CompileResult> CpuTarget::CompileCandidate(const Problem& problem,
                                                          const Candidate& candidate,
                                                          const CancelToken& cancel) {
  const CandidateKind kind = problem.task ? CandidateKind::kPython : CandidateKind::kHostNative;
  if (candidate.kind != kind) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind: the cpu target takes ", std::string(KindName(kind)),
                     " candidates of this problem, not ", std::string(KindName(candidate.kind))));
  }
  if (problem.task) {
    if (python_ == nullptr) {
      return absl::UnimplementedError(absl::StrJoin(info_.missing_tools, "; "));
    }
    KC_ASSIGN_OR_RETURN(CompileResult checked,
                        cache_->GetOrCompile(python_->ArtifactId(candidate.source), cancel, [&] {
                          return python_->Compile(*problem.task, info_.architecture,
                                                  candidate.source, cancel);
                        }));
    PythonCompiler::RefuseTasks(problem, candidate, checked);
    return checked;
  }
  return CompileSource(candidate.source, candidate.flags, cancel);
}

absl::StatusOr<Artifact> CpuTarget::Resolve(const Candidate& candidate, const Artifact& sent) {
  if (compiler_ == nullptr) {
    return absl::UnimplementedError(info_.unavailable_reason);
  }
  const bool is_python = candidate.kind == CandidateKind::kPython && python_ != nullptr;
  const std::string id = is_python ? python_->ArtifactId(candidate.source)
                                   : compiler_->ArtifactId(candidate.source, candidate.flags);
  KC_RETURN_IF_ERROR(CheckSent(info_, id, sent));
  if (!sent.content.empty()) {
    return sent;
  }
  auto cached = cache_->Find(id);
  if (!cached) {
    return absl::FailedPreconditionError("the artefact is neither sent nor cached");
  }
  return *std::move(cached);
}

absl::StatusOr<LoadableObject> CpuTarget::CompileTrusted(const std::string& source,
                                                         const std::vector<std::string>& flags,
                                                         const std::string& what,
                                                         const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const CompileResult compiled, CompileSource(source, flags, cancel));
  if (const auto* error = std::get_if<CompileError>(&compiled.result)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the ", what, " does not compile: ", error->log.substr(0, 2000)));
  }
  return PrepareObject(std::get<CompileSuccess>(compiled.result).artifact.content);
}

absl::StatusOr<PreparedProblem*> CpuTarget::Prepare(const Problem& problem,
                                                    const Programs& programs,
                                                    const CancelToken& cancel) {
  const auto found = std::find_if(prepared_.begin(), prepared_.end(), [&](const auto& prepared) {
    return prepared->problem().problem_id == problem.problem_id;
  });
  if (found != prepared_.end()) {
    if ((*found)->candidates_served < options_.measure.candidates_a_pool) {
      prepared_.splice(prepared_.begin(), prepared_, found);
      return prepared_.front().get();
    }
    prepared_.erase(found);
  }
  KC_ASSIGN_OR_RETURN(std::unique_ptr<PreparedProblem> prepared,
                      PrepareAnew(problem, programs, cancel));
  prepared_.push_front(std::move(prepared));
  while (std::ssize(prepared_) > options_.prepared_problems) {
    prepared_.pop_back();
  }
  return prepared_.front().get();
}

absl::StatusOr<std::unique_ptr<PreparedProblem>> CpuTarget::PrepareAnew(const Problem& problem,
                                                                        const Programs& programs,
                                                                        const CancelToken& cancel) {
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<PreparedProblem>> {
    const PreparedProblem::Setting setting{options_.measure, options_.runner, placement_,
                                           NewSecretKey()};
    if (!problem.task) {
      return PreparedProblem::Make(problem, programs.oracle, programs.reference, setting, cancel);
    }
    KC_ASSIGN_OR_RETURN(const PythonTaskPrograms task,
                        DescribePythonTask(problem, options_.runner, placement_,
                                           SecretRandom("held-out cases").Next(), cancel));
    return PreparedProblem::MakeTask(task, setting, cancel);
  };
  auto prepared = make();
  while (absl::IsResourceExhausted(prepared.status()) && !prepared_.empty()) {
    prepared_.pop_back();
    prepared = make();
  }
  if (absl::IsResourceExhausted(prepared.status())) {
    // The caller would ask again.
    return absl::FailedPreconditionError(prepared.status().message());
  }
  const int64_t took_ns = Clock::Real().MonotonicNs() - start_ns;
  if (!prepared.ok()) {
    faults_.Note(problem.problem_id, prepared.status(), took_ns);
    return prepared.status();
  }
  Log(LogLevel::kDebug, "prepared a problem",
      {{"problem", problem.name},
       {"cases", (*prepared)->check_cases().size()},
       {"prepare_us", took_ns / 1000}});
  return prepared;
}

bool CpuTarget::DropOthers() {
  if (prepared_.size() < 2) return false;
  prepared_.resize(1);
  return true;
}

absl::StatusOr<CpuTarget::Programs> CpuTarget::NativePrograms(const Problem& problem,
                                                              const Artifact& artifact,
                                                              const CancelToken& cancel) {
  Programs programs;
  auto object = PrepareObject(artifact.content);
  if (!object.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("artifact: ", object.status().message()));
  }
  programs.candidate = *std::move(object);
  const KernelProgram& reference = problem.targets.at(std::string(kCpuTargetName)).reference;
  KC_ASSIGN_OR_RETURN(programs.reference, CompileTrusted(reference.source, reference.flags,
                                                         "problem's reference", cancel));
  KC_ASSIGN_OR_RETURN(programs.oracle,
                      CompileTrusted(problem.oracle_source, {}, "problem's oracle", cancel));
  return programs;
}

absl::StatusOr<MeasureOutcome> CpuTarget::JudgeOnce(const Problem& problem,
                                                    const Programs& programs,
                                                    const Candidate* candidate, MeasureSpec spec,
                                                    const CancelToken& cancel) {
  const int64_t start_ns = Clock::Real().MonotonicNs();
  auto prepared = Prepare(problem, programs, cancel);
  prepare_ns_ += Clock::Real().MonotonicNs() - start_ns;
  KC_RETURN_IF_ERROR(prepared.status());
  ++(*prepared)->candidates_served;
  Program program = candidate != nullptr ? programs.candidate : programs.reference;
  if ((*prepared)->task() != nullptr) {
    program =
        candidate != nullptr ? (*prepared)->TaskProgram(*candidate) : (*prepared)->TaskReference();
  }
  auto outcome = Judge(**prepared, program, spec, spread_, cancel, times_);
  if (!outcome.ok()) {
    prepared_.pop_front();
  }
  return outcome;
}

absl::StatusOr<Measurement> CpuTarget::Measure(const MeasureRequest& request,
                                               const CancelToken& cancel) {
  const Problem& problem = request.problem;
  const Candidate& candidate = request.candidate;
  const Artifact& artifact = request.artifact;
  const Measurer measurer{info_, options_.worker_id, kCpuMeasuringProtocol};
  if (!info_.can_measure) {
    return absl::UnimplementedError(info_.unavailable_reason);
  }
  const auto target = problem.targets.find(kCpuTargetName);
  if (target == problem.targets.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("problem ", problem.name, " has no reference for target cpu"));
  }
  KC_RETURN_IF_ERROR(faults_.Check(problem.problem_id));
  Programs programs;
  if (problem.task) {
    if (python_ == nullptr) {
      return absl::UnimplementedError(absl::StrJoin(info_.missing_tools, "; "));
    }
    if (artifact.content != candidate.source) {
      return absl::InvalidArgumentError("artifact: is not the candidate's source");
    }
  } else {
    KC_ASSIGN_OR_RETURN(programs, NativePrograms(problem, artifact, cancel));
  }
  if (programs.candidate.memory_bytes > static_cast<uint64_t>(options_.runner.max_memory_bytes)) {
    // The runner's limit counts only memory allocated after loading.
    Crash crash;
    crash.cause = Crash::Cause::kMemoryLimit;
    return RecordOf(measurer, request, Clock::Real().MonotonicNs(), std::move(crash));
  }
  KC_ASSIGN_OR_RETURN(const TimingLease::Held held, lease_->Acquire(cancel));
  const TimingPriority priority(placement_);
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const double clock_start_hz = ClockHz(placement_.runner_cpu);
  times_ = {};
  prepare_ns_ = 0;
  absl::StatusOr<MeasureOutcome> outcome = absl::UnavailableError("not judged");
  // The second attempt covers the reference's process, which is kept and may have died in the
  // meantime.
  for (int attempt = 0; attempt < 2 && absl::IsUnavailable(outcome.status()); ++attempt) {
    outcome = JudgeOnce(problem, programs, &candidate, request.spec, cancel);
    if (WasKilled(outcome) && DropOthers()) {
      outcome = JudgeOnce(problem, programs, &candidate, request.spec, cancel);
    }
  }
  if (IsReferenceFailure(outcome.status())) {
    const auto [answer, at_fault] = ExplainRepeated(
        outcome.status(),
        JudgeOnce(problem, programs, /*candidate=*/nullptr, {MeasureLevel::kScreen}, cancel));
    KC_RETURN_IF_ERROR(cancel.Check());
    if (at_fault) {
      faults_.Note(problem.problem_id, answer, Clock::Real().MonotonicNs() - start_ns);
    }
    outcome = answer;
  }
  KC_RETURN_IF_ERROR(outcome.status());
  KC_RETURN_IF_ERROR(held.Check());
  if (auto* ok = std::get_if<MeasuredOk>(&*outcome)) {
    ok->environment.clock_start_hz = clock_start_hz;
    ok->environment.clock_min_hz = std::min(clock_start_hz, ClockHz(placement_.runner_cpu));
  }
  Measurement measurement = RecordOf(measurer, request, start_ns, *std::move(outcome));
  measurement.preparation_time_ns = prepare_ns_;
  Log(LogLevel::kDebug, "measured a candidate",
      {{"candidate_id", candidate.candidate_id},
       {"outcome", OutcomeName(measurement.outcome)},
       {"prepare_us", prepare_ns_ / 1000},
       {"start_us", times_.start_ns / 1000},
       {"check_us", times_.check_ns / 1000},
       {"timing_us", times_.timing_ns / 1000},
       {"fresh_us", times_.fresh_ns / 1000}});
  return measurement;
}

}  // namespace kernelcast::worker
