#include "services/worker/cuda/target/cuda_target.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/process/available_memory.h"
#include "services/worker/core/roofline.h"
#include "services/worker/cuda/api/nvml_api.h"
#include "services/worker/cuda/compiler/admission.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/device_peaks.h"
#include "services/worker/cuda/judge/python_task.h"
#include "services/worker/cuda/probe/machine.h"
#include "services/worker/cuda/target/gpu_selection.h"
#include "services/worker/cuda/target/runner_probe.h"
#include "services/worker/virtual_gpu/estimate/gpu_model.h"

namespace kernelcast::worker {
namespace {

std::string DriverVersion(const NvmlApi& nvml) {
  std::array<char, 96> version{};
  return nvml.SystemGetDriverVersion(version.data(), version.size()) == nvml::kSuccess
             ? std::string(version.data())
             : "";
}

// Other processes may hold a device's timing lease when this worker starts.
constexpr int64_t kPeaksLimitNs = 5'000'000'000;
// Number of compilers started in advance; the others start on demand.
constexpr int kCompilersAhead = 32;
// See CudaTargetOptions::host_memory_bytes.
constexpr int64_t kPythonMemoryFactor = 4;
// Number of described tasks that are kept in memory.
constexpr size_t kMaxTasks = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<CudaTarget>> CudaTarget::Make(CudaTargetOptions options) {
  std::unique_ptr<CudaTarget> target(new CudaTarget(std::move(options)));
  TargetInfo& info = target->info_;
  info.target = std::string(kCudaTargetName);
  for (const std::string_view flag : AllowedCudaFlags()) {
    info.allowed_flags.emplace_back(flag);
  }
  absl::Status devices;
  absl::Status toolchain;
  int64_t driver_ns = 0;
  int64_t toolchain_ns = 0;
  {
    // The driver starts slowly, so probe the toolchain at the same time.
    const int64_t start_ns = Clock::Real().MonotonicNs();
    const std::jthread beside([&] {
      toolchain = target->ProbeToolchain();
      toolchain_ns = Clock::Real().MonotonicNs() - start_ns;
    });
    devices = target->ProbeDevices();
    driver_ns = Clock::Real().MonotonicNs() - start_ns;
  }
  if (absl::IsInvalidArgument(devices)) return devices;
  info.can_compile = toolchain.ok();
  if (!toolchain.ok()) {
    if (absl::IsInternal(toolchain)) return toolchain;
    info.unavailable_reason = absl::StrCat("cannot compile: ", toolchain.message());
    return target;
  }
  if (devices.ok()) devices = target->FitArchitectures();
  if (devices.ok()) {
    target->compilers_->RequireDevicePython(info);
    // Compile what the first candidates need.
    target->ahead_ = std::thread([target = target.get()] {
      const std::jthread compilers([target] {
        target->compilers_->nvrtc().StartProcesses(kCompilersAhead, target->stopping_);
      });
      const std::jthread recorder(
          [target] { target->compilers_->StartRecorder(target->stopping_); });
      for (const std::string& architecture : target->Architectures()) {
        (void)target->trusted_->CompileJudge(architecture, target->stopping_);
      }
    });
    const int64_t start_ns = Clock::Real().MonotonicNs();
    devices = target->OpenDevices();
    if (absl::IsInternal(devices)) return devices;
    Log(LogLevel::kDebug, "opened the devices",
        {{"driver_us", driver_ns / 1000},
         {"toolchain_us", toolchain_ns / 1000},
         {"devices_us", (Clock::Real().MonotonicNs() - start_ns) / 1000}});
  }
  if (!devices.ok()) {
    target->StopAhead();
    target->devices_.clear();
    info.unavailable_reason = absl::StrCat("cannot measure: ", devices.message());
    return target;
  }
  AddMissingProtections(target->options_.program_folder, target->options_.untrusted_uid,
                        info.missing_protections);
  info.can_measure = true;
  target->ProbeCounters();
  return target;
}

absl::Status CudaTarget::OpenDevices() {
  KC_ASSIGN_OR_RETURN(const int count, CountDevices(*api_));
  // It ends with the thread that starts it.
  if (compilers_->zygote() != nullptr) KC_RETURN_IF_ERROR(compilers_->zygote()->Begin());
  for (const auto& device : devices_) {
    const std::string& folder = options_.lease_directory;
    KC_ASSIGN_OR_RETURN(
        device->lease,
        TimingLease::Open(folder.empty() ? ""
                                         : absl::StrCat(folder, "/kernelcast-",
                                                        device->facts.info.uuid, ".lock")));
    CudaMeasurerOptions measurer;
    measurer.measure = options_.measure;
    measurer.runner.path = absl::StrCat(options_.program_folder, "/kernelcast-cuda-runner");
    measurer.runner.visible_device =
        VisibleDevice(device->ordinal, count, std::getenv("CUDA_VISIBLE_DEVICES"));
    measurer.runner.object_uid = options_.untrusted_uid;
    measurer.runner.object_memory_bytes = options_.host_memory_bytes;
    measurer.runner.library_folder =
        std::filesystem::path(compilers_->toolkit().cublas_library).parent_path().string();
    measurer.python = measurer.runner;
    measurer.python.object_memory_bytes = kPythonMemoryFactor * options_.host_memory_bytes;
    measurer.python.python = compilers_->zygote();
    measurer.python.start_limit_ns = kPythonStartLimitNs;
    measurer.python.timing_cpu = TimingCpu(device->ordinal);
    measurer.prepared_bytes = options_.prepared_bytes;
    measurer.faults = faults_;
    measurer.pause_other_work = [device = device.get()](int64_t limit_ns) -> std::shared_ptr<void> {
      return device->loader == nullptr ? nullptr : device->loader->Pause(limit_ns);
    };
    measurer.drop_other_work = [device = device.get()](int64_t limit_ns) -> std::shared_ptr<void> {
      return device->loader == nullptr ? nullptr : device->loader->Unload(limit_ns);
    };
    measurer.candidates_per_runner = options_.candidates_per_runner;
    measurer.profile.cupti_library = compilers_->toolkit().cupti_library;
    if (compilers_->zygote() != nullptr) {
      device->loader = std::make_unique<CandidateLoader>(
          measurer.python, options_.measure.python_load_limit_ns,
          CandidateLoader::ThreadsFor({.device_bytes = device->facts.info.memory_bytes,
                                       .host_bytes = AvailableMemoryBytes(),
                                       .host_bytes_each = measurer.python.object_memory_bytes,
                                       .devices = devices_.size(),
                                       .processors = std::thread::hardware_concurrency()},
                                      options_.load_ahead));
    }
    device->measurer = std::make_unique<CudaMeasurer>(*api_, *device->monitor, std::move(measurer),
                                                      Clock::Real(), device->ordinal);
    // Runners end with the thread that starts them. All start now: creating a context later would
    // slow the first preparations and disturb the first timings.
    device->measurer->BeginRunners();
  }
  {
    std::vector<std::jthread> probes;
    for (const auto& device : devices_) {
      probes.emplace_back([this, device = device.get()] { ProbePeaks(*device); });
    }
  }
  absl::Status first = absl::OkStatus();
  size_t working = 0;
  for (const auto& device : devices_) {
    absl::Status started = device->measurer->StartRunner(CancelToken());
    if (started.ok()) {
      ++working;
      continue;
    }
    if (devices_.size() > 1) NoteFailure(*device, started);
    first.Update(std::move(started));
  }
  info_.peaks = devices_.front()->peaks;
  return working > 0 ? absl::OkStatus() : first;
}

void CudaTarget::ProbePeaks(Device& device) {
  const auto probe = [&]() -> absl::Status {
    KC_ASSIGN_OR_RETURN(CudaDevice* const opened, device.measurer->OpenDevice());
    KC_ASSIGN_OR_RETURN(DeviceClocks clocks, ReadClocks(*api_, opened->device()));
    FillClocks(*device.monitor, clocks);
    device.peaks = PeaksOf(clocks);
    const std::lock_guard lock(copying_);
    const CancelToken limit(Clock::Real().MonotonicNs() + kPeaksLimitNs);
    KC_ASSIGN_OR_RETURN(DevicePeak copy, MeasureCopy(*opened, *device.lease, limit));
    // For devices that do not report their memory's clock.
    if (MemoryPeak(device.peaks, 0) == nullptr) {
      device.peaks.push_back(copy);
      device.peaks.back().name = std::string(kMemoryPeak);
    }
    device.peaks.push_back(std::move(copy));
    return absl::OkStatus();
  };
  if (const absl::Status probed = probe(); !probed.ok()) {
    Log(LogLevel::kWarning, "the device's peaks are not all known",
        {{"gpu", device.ordinal}, {"reason", std::string(probed.message())}});
  }
  device.measurer->set_peaks(device.peaks);
}

void CudaTarget::ProbeCounters() {
  const CountersReport counters = ReportCountersHere(compilers_->toolkit().cupti_library);
  info_.hardware_counters = counters.permitted;
  if (!counters.permitted) {
    info_.unavailable_reason = absl::StrCat("no hardware counters: ", counters.reason);
  }
}

absl::Status CudaTarget::ProbeDevices() {
  KC_ASSIGN_OR_RETURN(api_, LoadCudaApi());
  KC_ASSIGN_OR_RETURN(const int count, CountDevices(*api_));
  std::vector<DeviceFacts> shown(static_cast<size_t>(count));
  std::vector<std::string> uuids;
  absl::Status unfit = absl::OkStatus();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    auto facts = DescribeDevice(*api_, ordinal);
    if (facts.ok()) {
      shown[static_cast<size_t>(ordinal)] = *std::move(facts);
    } else {
      Log(LogLevel::kWarning, "a GPU cannot be used",
          {{"gpu", ordinal}, {"reason", std::string(facts.status().message())}});
      unfit.Update(facts.status());
    }
    uuids.push_back(shown[static_cast<size_t>(ordinal)].info.uuid);
  }
  const auto nvml = LoadNvmlApi();
  if (!nvml.ok()) {
    Log(LogLevel::kWarning, "clocks and temperatures are not monitored",
        {{"reason", std::string(nvml.status().message())}});
  }
  KC_ASSIGN_OR_RETURN(const std::vector<int> chosen, SelectGpus(options_.gpus, uuids));
  for (const int ordinal : chosen) {
    if (uuids[static_cast<size_t>(ordinal)].empty()) continue;
    auto device = std::make_unique<Device>();
    device->ordinal = ordinal;
    device->facts = shown[static_cast<size_t>(ordinal)];
    if (nvml.ok()) device->facts.info.driver_version = DriverVersion(**nvml);
    device->monitor =
        std::make_unique<DeviceMonitor>(nvml.ok() ? *nvml : nullptr, device->facts.info.uuid);
    devices_.push_back(std::move(device));
  }
  if (devices_.empty()) {
    return chosen.empty() ? absl::UnavailableError("--gpus names none") : unfit;
  }
  info_.device = devices_[0]->facts.info;
  return absl::OkStatus();
}

absl::Status CudaTarget::FitArchitectures() {
  absl::Status unfit = absl::OkStatus();
  std::erase_if(devices_, [&](const std::unique_ptr<Device>& device) {
    const auto own = compilers_->nvrtc().toolchain().ArchitectureOf(
        device->facts.compute_capability_major, device->facts.compute_capability_minor);
    device->architecture = own.value_or("");
    if (own && (options_.architecture.empty() || own == options_.architecture)) return false;
    absl::Status status = absl::FailedPreconditionError(
        absl::StrCat("compiles for ",
                     options_.architecture.empty() ? "known architectures" : options_.architecture,
                     ", and the device is ", own.value_or("none that this toolkit knows")));
    Log(LogLevel::kWarning, "a GPU cannot be used",
        {{"gpu", device->ordinal}, {"reason", std::string(status.message())}});
    unfit.Update(std::move(status));
    return true;
  });
  if (devices_.empty()) return unfit;
  info_.device = devices_[0]->facts.info;
  info_.architecture = devices_[0]->architecture;
  return absl::OkStatus();
}

absl::Status CudaTarget::ProbeToolchain() {
  KC_ASSIGN_OR_RETURN(compilers_, CudaCompilers::Open(options_));
  trusted_ = std::make_unique<TrustedPrograms>(compilers_->nvrtc());
  compilers_->Fill(info_);
  info_.architecture =
      options_.architecture.empty() ? std::string(kDefaultArchitecture) : options_.architecture;
  const std::vector<std::string>& known = compilers_->nvrtc().toolchain().architectures;
  if (std::find(known.begin(), known.end(), info_.architecture) == known.end()) {
    return absl::UnavailableError(
        absl::StrCat("this toolkit does not compile for ", info_.architecture));
  }
  return absl::OkStatus();
}

TargetInfo CudaTarget::Describe() const {
  TargetInfo info = info_;
  const std::lock_guard lock(mutex_);
  for (const auto& device : devices_) {
    info.devices.push_back({device->facts.info, device->architecture, device->failure.empty(),
                            device->failure, device->peaks});
  }
  const auto failed = [](const TargetDevice& device) { return !device.can_measure; };
  if (!info.devices.empty() && std::all_of(info.devices.begin(), info.devices.end(), failed)) {
    info.can_measure = false;
    info.unavailable_reason = absl::StrCat("cannot measure: ", info.devices[0].unavailable_reason);
  }
  return info;
}

void CudaTarget::NoteFailure(Device& device, const absl::Status& status) {
  Log(LogLevel::kError, "a GPU has failed, and is tried again from time to time",
      {{"gpu", device.ordinal},
       {"uuid", device.facts.info.uuid},
       {"reason", std::string(status.message())}});
  const std::lock_guard lock(mutex_);
  device.failure = std::string(status.message());
}

bool CudaTarget::Revive(size_t number) {
  Device& device = *devices_.at(number);
  const CancelToken cancel;
  const auto held = device.lease->Acquire(cancel);
  if (!held.ok() || !device.measurer->CheckDevice(cancel).ok()) {
    return false;
  }
  Log(LogLevel::kInfo, "a GPU that had failed measures again", {{"gpu", device.ordinal}});
  const std::lock_guard lock(mutex_);
  device.failure.clear();
  return true;
}

CudaTarget::Device* CudaTarget::FindModel(const std::string& device_model) const {
  for (const auto& device : devices_) {
    if (device_model.empty() || device->facts.info.model == device_model) return device.get();
  }
  return nullptr;
}

absl::Status CudaTarget::CheckSimulates(const std::string& device_model) const {
  const virtual_gpu::GpuModel* const model =
      virtual_gpu::FindGpuModel(device_model, info_.architecture);
  if (model == nullptr || info_.architecture.starts_with(model->architecture)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("compiles for ", info_.architecture, ", and '",
                                                    device_model, "' is ",
                                                    std::string(model->architecture)));
}

absl::StatusOr<CompileResult> CudaTarget::Compile(const CompileRequest& request,
                                                  const CancelToken& cancel) {
  if (request.candidate == nullptr) {
    KC_ASSIGN_OR_RETURN(const Candidate reference,
                        ReferenceCandidate(request.problem, kCudaTargetName));
    CompileRequest whole = request;
    whole.candidate = &reference;
    return Compile(whole, cancel);
  }
  Device* const device = FindModel(request.device_model);
  KC_RETURN_IF_ERROR(CheckModel(info_, device != nullptr ? "" : request.device_model));
  if (device == nullptr) KC_RETURN_IF_ERROR(CheckSimulates(request.device_model));
  if (!info_.can_compile) {
    return absl::UnimplementedError(info_.unavailable_reason);
  }
  KC_RETURN_IF_ERROR(compilers_->CheckKind(request.problem, *request.candidate));
  const CompileGpu gpu{
      .name = device != nullptr              ? device->facts.info.model
              : request.device_model.empty() ? info_.device.model
                                             : request.device_model,
      .architecture = device == nullptr ? info_.architecture : device->architecture,
      .record_launches = !request.artifact_only};
  if (!request.problem.task || KindInfoOf(request.candidate->kind).takes_tasks) {
    return compilers_->Compile(request.problem, *request.candidate, gpu, cancel);
  }
  KC_ASSIGN_OR_RETURN(const auto task, DescribeTask(request.problem, gpu, device, cancel));
  KC_ASSIGN_OR_RETURN(CompileResult compiled, compilers_->Compile(task->launches().problem,
                                                                  *request.candidate, gpu, cancel));
  // The reference is simulated at the first timed case only.
  if (auto* const success = std::get_if<CompileSuccess>(&compiled.result);
      success != nullptr && success->facts.simulations.size() > 1) {
    success->facts.simulations.resize(1);
  }
  return compiled;
}

absl::StatusOr<std::shared_ptr<const PythonTaskPrograms>> CudaTarget::DescribeTask(
    const Problem& problem, const CompileGpu& gpu, Device* device, const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(faults_->Check(problem.problem_id));
  if (device != nullptr) return TaskOf(*device, problem, cancel);
  // The first of several candidates describes the task.
  const std::lock_guard describing(describing_);
  if (auto known = FindTask(problem)) return known;
  KC_ASSIGN_OR_RETURN(PythonTaskPrograms described, compilers_->DescribeTask(problem, gpu, cancel));
  return Keep(problem, std::move(described));
}

std::shared_ptr<const PythonTaskPrograms> CudaTarget::FindTask(const Problem& problem) const {
  const std::lock_guard lock(mutex_);
  const auto found = tasks_.find(problem.problem_id);
  return found == tasks_.end() ? nullptr : found->second;
}

std::shared_ptr<const PythonTaskPrograms> CudaTarget::Keep(const Problem& problem,
                                                           PythonTaskPrograms described) {
  // Shared by the calls that use it.
  auto task = std::make_shared<const PythonTaskPrograms>(std::move(described));
  const std::lock_guard lock(mutex_);
  if (tasks_.size() >= kMaxTasks) tasks_.clear();
  tasks_[problem.problem_id] = task;
  return task;
}

absl::StatusOr<Artifact> CudaTarget::Resolve(const Candidate& candidate, const Artifact& sent) {
  if (!info_.can_compile) {
    return absl::UnimplementedError(info_.unavailable_reason);
  }
  TargetInfo info = info_;
  for (const auto& device : devices_) {
    if (device->architecture == sent.architecture) info.architecture = sent.architecture;
  }
  KC_ASSIGN_OR_RETURN(const Language* const language, compilers_->Find(candidate.kind));
  const std::string artifact_id = language->ArtifactId(candidate, info.architecture);
  info.toolchain = language->toolchain();
  KC_RETURN_IF_ERROR(CheckSent(info, artifact_id, sent));
  if (!sent.content.empty()) {
    return sent;
  }
  auto cached = compilers_->FindArtifact(artifact_id);
  if (!cached) {
    return absl::FailedPreconditionError("the artefact is neither sent nor cached");
  }
  return *std::move(cached);
}

std::set<std::string> CudaTarget::Architectures() const {
  std::set<std::string> architectures;
  for (const auto& device : devices_) architectures.insert(device->architecture);
  return architectures;
}

void CudaTarget::StopAhead() {
  stopping_.Cancel();
  if (ahead_.joinable()) ahead_.join();
}

CudaTarget::~CudaTarget() { StopAhead(); }

void CudaTarget::Announce(const Problem& problem, const CancelToken& cancel) {
  for (const std::string& architecture : Architectures()) {
    // Measuring reports the error.
    (void)trusted_->Get(problem, architecture, cancel);
  }
}

absl::StatusOr<std::shared_ptr<const PythonTaskPrograms>> CudaTarget::TaskOf(
    Device& device, const Problem& problem, const CancelToken& cancel) {
  if (auto known = FindTask(problem)) return known;
  if (compilers_->zygote() == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("no PyTorch tasks: ", compilers_->no_python_reason()));
  }
  KC_ASSIGN_OR_RETURN(const TimingLease::Held held, device.lease->Acquire(cancel));
  if (auto known = FindTask(problem)) return known;
  KC_ASSIGN_OR_RETURN(PythonTaskPrograms described, device.measurer->Describe(problem, cancel));
  return Keep(problem, std::move(described));
}

int CudaTarget::ProcessesAhead(const Device& device, const PythonTaskPrograms& task,
                               MeasureLevel level) const {
  // Loading makes the tensors of a call, and may use as much again for intermediate results.
  if (2 * task.MostCallBytes() > CandidateLoader::kLoadedBytes) return 0;
  return std::min(options_.measure.Precision(level).runners, device.loader->max_ahead());
}

std::optional<size_t> CudaTarget::Expect(const Problem& problem, const Candidate& candidate,
                                         MeasureLevel level, const DeviceWish& wish) {
  if (!problem.task || !KindInfoOf(candidate.kind).takes_tasks) return std::nullopt;
  std::shared_ptr<const PythonTaskPrograms> task;
  std::optional<size_t> chosen;
  int processes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = tasks_.find(problem.problem_id);
    if (found == tasks_.end()) return std::nullopt;
    task = found->second;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < devices_.size(); ++i) {
      const Device& device = *devices_[i];
      if (device.loader == nullptr || !device.failure.empty() ||
          (!wish.model.empty() && wish.model != device.facts.info.model) ||
          (!wish.architecture.empty() && wish.architecture != device.architecture)) {
        continue;
      }
      const int ahead = ProcessesAhead(device, *task, level);
      const size_t expected = device.loader->expected();
      if (ahead == 0 || expected >= least) continue;
      least = expected;
      chosen = i;
      processes = ahead;
    }
  }
  if (chosen) {
    devices_[*chosen]->loader->Expect(task->ProgramFor(candidate, {}).content, processes);
  }
  return chosen;
}

absl::StatusOr<LoadedCandidate> CudaTarget::TakeLoaded(Device& device, const CudaPrograms& programs,
                                                       MeasureLevel level,
                                                       const CancelToken& cancel) {
  const std::string& program = programs.candidate.object;
  for (const auto& other : devices_) {
    if (other.get() != &device && other->loader != nullptr) other->loader->Forget(program);
  }
  const int processes = std::max(1, ProcessesAhead(device, *programs.task, level));
  // It may not have been expected, or for another device.
  if (processes > 1) device.loader->Expect(program, processes);
  const absl::Cleanup forget = [&] {
    if (processes > 1) device.loader->Forget(program);
  };
  LoadedCandidate loaded;
  for (int i = 0; i < processes; ++i) {
    KC_ASSIGN_OR_RETURN(loaded.emplace_back(), device.loader->Take(program, cancel));
    // It has an outcome already.
    if (loaded.back()->load_answer()->end != CudaRunner::End::kDone) break;
  }
  return loaded;
}

absl::StatusOr<CudaPrograms> CudaTarget::CompileAll(Device& device, const MeasureRequest& request,
                                                    const CancelToken& cancel) {
  const Problem& problem = request.problem;
  const Candidate& candidate = request.candidate;
  const Artifact& artifact = request.artifact;
  if (artifact.architecture != device.architecture) {
    return absl::FailedPreconditionError(absl::StrCat("the artefact is for ", artifact.architecture,
                                                      "; the device is ", device.architecture));
  }
  KC_ASSIGN_OR_RETURN(const auto trusted, trusted_->Get(problem, device.architecture, cancel));
  CudaPrograms programs = *trusted;
  if (problem.task) {
    KC_ASSIGN_OR_RETURN(programs.task, TaskOf(device, problem, cancel));
  }
  KC_ASSIGN_OR_RETURN(const Language* const language, compilers_->Find(candidate.kind));
  KC_ASSIGN_OR_RETURN(programs.candidate, language->Load(candidate, artifact, programs.task.get()));
  return programs;
}

absl::StatusOr<Measurement> CudaTarget::Measure(const MeasureRequest& request,
                                                const CancelToken& cancel) {
  if (!info_.can_measure) {
    return absl::UnimplementedError(info_.unavailable_reason);
  }
  KC_RETURN_IF_ERROR(faults_->Check(request.problem.problem_id));
  Device& device = *devices_.at(request.device);
  KC_ASSIGN_OR_RETURN(const CudaPrograms programs, CompileAll(device, request, cancel));
  LoadedCandidate loaded;
  if (device.loader != nullptr && request.problem.task && programs.candidate.host_launched()) {
    auto taken = TakeLoaded(device, programs, request.spec.level, cancel);
    // Measuring makes room for it.
    if (!LacksDeviceMemory(taken.status())) {
      KC_ASSIGN_OR_RETURN(loaded, std::move(taken));
    }
  }
  const int64_t begin_ns = Clock::Real().MonotonicNs();
  int64_t waited_ns = 0;
  // Shared with the thread that ends the candidate's process.
  std::shared_ptr<TimingLease::Held> held;
  const AcquireLease acquire = [&]() -> absl::StatusOr<HeldLease> {
    const int64_t asked_ns = Clock::Real().MonotonicNs();
    KC_ASSIGN_OR_RETURN(TimingLease::Held acquired, device.lease->Acquire(cancel));
    waited_ns += Clock::Real().MonotonicNs() - asked_ns;
    held = std::make_shared<TimingLease::Held>(std::move(acquired));
    return held;
  };
  CudaMeasurer& measurer = *device.measurer;
  auto outcome =
      measurer.Measure(request.problem, programs, request.spec, cancel, std::move(loaded), acquire);
  const int64_t start_ns = begin_ns + waited_ns;
  device.last_times = measurer.times();
  if (absl::IsUnavailable(outcome.status()) && cancel.Check().ok()) {
    if (const absl::Status works = measurer.CheckDevice(cancel); absl::IsUnavailable(works)) {
      NoteFailure(device, works);
    }
  }
  if (absl::IsResourceExhausted(outcome.status())) {
    // The caller would ask again.
    outcome = absl::FailedPreconditionError(outcome.status().message());
  }
  KC_RETURN_IF_ERROR(outcome.status());
  if (held != nullptr) KC_RETURN_IF_ERROR(held->Check());
  Measurement measurement = RecordOf({info_, options_.worker_id, kCudaMeasuringProtocol}, request,
                                     start_ns, *std::move(outcome));
  measurement.device = device.facts.info;
  measurement.preparation_time_ns = measurer.times().prepare_ns;
  Log(LogLevel::kDebug, "measured a candidate",
      {{"candidate_id", request.candidate.candidate_id},
       {"gpu", device.ordinal},
       {"outcome", OutcomeName(measurement.outcome)},
       {"prepare_us", measurer.times().prepare_ns / 1000},
       {"attach_us", measurer.times().attach_ns / 1000},
       {"load_us", device.last_times.judge.start_ns / 1000},
       {"check_us", device.last_times.judge.check_ns / 1000},
       {"wait_us", device.last_times.judge.wait_ns / 1000},
       {"capture_us", device.last_times.judge.capture_ns / 1000},
       {"graphs_us", device.last_times.judge.graphs_ns / 1000},
       {"timing_us", device.last_times.judge.timing_ns / 1000},
       {"fresh_us", device.last_times.judge.fresh_ns / 1000},
       {"end_us", measurer.times().end_ns / 1000},
       {"all_us", measurement.device_time_ns / 1000}});
  return measurement;
}

absl::StatusOr<Profile> CudaTarget::ProfileCandidate(const MeasureRequest& request,
                                                     const CancelToken& cancel) {
  if (!info_.can_measure) {
    return absl::UnimplementedError(info_.unavailable_reason);
  }
  Device& device = *devices_.at(request.device);
  KC_ASSIGN_OR_RETURN(const CudaPrograms programs, CompileAll(device, request, cancel));
  KC_ASSIGN_OR_RETURN(const TimingLease::Held held, device.lease->Acquire(cancel));
  auto profile = device.measurer->ProfileCandidate(request.problem, programs, cancel);
  Log(LogLevel::kDebug, "profiled a candidate",
      {{"candidate_id", request.candidate.candidate_id},
       {"gpu", device.ordinal},
       {"device_time_us", profile.ok() ? profile->device_time_ns / 1000 : 0},
       {"unavailable_reason",
        profile.ok() ? profile->unavailable_reason : std::string(profile.status().message())}});
  return profile;
}

}  // namespace kernelcast::worker
