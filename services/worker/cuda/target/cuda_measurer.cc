#include "services/worker/cuda/target/cuda_measurer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/secret_random.h"
#include "common/base/status.h"
#include "services/worker/core/verdict.h"
#include "services/worker/cuda/judge/python_task.h"

namespace kernelcast::worker {
namespace {

constexpr int kAttempts = 2;
// A candidate that crashes while less than this share of the device's memory is free is judged
// again with the device to itself.
constexpr double kAmpleShare = 0.5;
// For processes that are being loaded when the device's memory is needed.
constexpr int64_t kDropLimitNs = 10'000'000'000;

Profile NoProfile(std::string reason) {
  Profile profile;
  profile.unavailable_reason = std::move(reason);
  return profile;
}

}  // namespace

absl::StatusOr<HeldLease> NoLease() { return std::make_shared<char>(); }

CudaMeasurer::~CudaMeasurer() { DropDevice(); }

void CudaMeasurer::DropRunner() {
  runner_.reset();
  runs_task_ = false;
  attached_ = nullptr;
}

void CudaMeasurer::DropDeviceRunner() {
  device_runner_.reset();
  device_attached_ = nullptr;
}

void CudaMeasurer::DropDevice() {
  if (ending_.valid()) ending_.get();
  if (device_ != nullptr) {
    // The memory freed below belongs to this context, and another one may be current on this
    // thread.
    (void)device_->Bind();
  }
  DropRunner();
  DropDeviceRunner();
  spares_.clear();
  prepared_.clear();
  kernels_.reset();
  device_.reset();
}

void CudaMeasurer::BeginRunners() {
  // One for now and one spare.
  const size_t wanted = runner_ != nullptr && runner_->alive() ? 1 : 2;
  while (spares_.size() < wanted) {
    auto begun = CudaRunner::Begin(options_.runner);
    if (!begun.ok()) {
      return;  // StartRunner reports why
    }
    spares_.push_back(*std::move(begun));
  }
}

absl::StatusOr<std::unique_ptr<CudaRunner>> CudaMeasurer::TakeRunner(const CancelToken& cancel) {
  while (!spares_.empty()) {
    std::unique_ptr<CudaRunner> spare = std::move(spares_.front());
    spares_.pop_front();
    // A spare that has ended in the meantime is no error.
    if (spare->AwaitStart(cancel).ok()) return spare;
    KC_RETURN_IF_ERROR(cancel.Check());
  }
  return CudaRunner::Start(options_.runner, cancel);
}

absl::Status CudaMeasurer::StartRunner(const CancelToken& cancel) {
  DropRunner();
  KC_ASSIGN_OR_RETURN(runner_, TakeRunner(cancel));
  return absl::OkStatus();
}

absl::Status CudaMeasurer::StartDeviceRunner(CudaPreparedProblem& prepared,
                                             const CancelToken& cancel) {
  if (device_runner_ != nullptr && device_runner_->alive() && device_attached_ == &prepared &&
      device_runner_->candidates < options_.candidates_per_runner) {
    return absl::OkStatus();
  }
  DropDeviceRunner();
  KC_ASSIGN_OR_RETURN(device_runner_, TakeRunner(cancel));
  BeginRunners();
  KC_RETURN_IF_ERROR(prepared.AttachDeviceCode(*device_runner_, options_.python, cancel));
  device_attached_ = &prepared;
  return absl::OkStatus();
}

absl::Status CudaMeasurer::CheckDevice(const CancelToken& cancel) {
  DropDevice();
  const auto context = CudaDevice::Open(api_, ordinal_);
  if (!context.ok() || !(*context)->Synchronize().ok()) {
    return absl::UnavailableError(context.ok() ? "the device's context is lost"
                                               : context.status().message());
  }
  return StartRunner(cancel);
}

absl::Status CudaMeasurer::StartObjectRunner(CudaPreparedProblem& prepared,
                                             const CudaProgram& candidate,
                                             const CancelToken& cancel) {
  object_runner_.reset();
  if (!loaded_.empty()) {
    object_runner_ = std::move(loaded_.front());
    loaded_.pop_front();
  }
  if (object_runner_ == nullptr) {
    KC_ASSIGN_OR_RETURN(
        object_runner_,
        CudaRunner::Start(prepared.task() != nullptr ? OptionsFor(candidate.object, options_.python)
                                                     : options_.runner,
                          cancel));
  } else if (!object_runner_->alive()) {
    return absl::OkStatus();  // an outcome of the candidate
  }
  return prepared.AttachObject(*object_runner_, cancel);
}

absl::Status CudaMeasurer::StartReference(const CudaPrograms& programs, const CancelToken& cancel) {
  if (programs.task == nullptr) return StartRunner(cancel);
  DropRunner();
  const CudaRunnerOptions options =
      OptionsFor(programs.task->Reference({}).content, options_.python);
  KC_ASSIGN_OR_RETURN(runner_, CudaRunner::Start(options, cancel));
  runs_task_ = true;
  return absl::OkStatus();
}

absl::StatusOr<PythonTaskPrograms> CudaMeasurer::Describe(const Problem& problem,
                                                          const CancelToken& cancel) {
  FinishCandidate();
  KC_ASSIGN_OR_RETURN(CudaDevice* const device, OpenDevice());
  std::shared_ptr<void> alone;
  for (;;) {
    const int64_t start_ns = clock_.MonotonicNs();
    auto described = DescribeTask(problem, *device, options_.python, cancel);
    if (LacksDeviceMemory(described.status()) && alone == nullptr) {
      alone = TakeDevice(problem);
      if (alone != nullptr) continue;
    }
    if (!described.ok()) {
      NoteFault(problem, described.status(), clock_.MonotonicNs() - start_ns);
    }
    return described;
  }
}

absl::StatusOr<CudaDevice*> CudaMeasurer::OpenDevice() {
  if (device_ != nullptr) {
    KC_RETURN_IF_ERROR(device_->Bind());
    if (device_->Synchronize().ok()) {
      return device_.get();
    }
    // A kernel of the judge or of an oracle has failed: the context is lost.
    DropDevice();
  }
  KC_ASSIGN_OR_RETURN(auto device, CudaDevice::Open(api_, ordinal_));
  KC_ASSIGN_OR_RETURN(const DeviceMemory memory, device->Memory());
  opened_free_bytes_ = memory.free_bytes;
  prepared_bytes_ = options_.prepared_bytes;
  if (prepared_bytes_ == 0) {
    prepared_bytes_ =
        static_cast<uint64_t>(kPreparedShare * static_cast<double>(memory.free_bytes));
  }
  device_ = std::move(device);
  return device_.get();
}

absl::Status CudaMeasurer::PrepareDevice(const CudaPrograms& programs) {
  KC_RETURN_IF_ERROR(OpenDevice().status());
  if (kernels_ == nullptr) {
    KC_ASSIGN_OR_RETURN(kernels_, JudgeKernels::Load(*device_, programs.judge));
  }
  return absl::OkStatus();
}

absl::StatusOr<CudaPreparedProblem*> CudaMeasurer::PrepareAnew(const Problem& problem,
                                                               const CudaPrograms& programs,
                                                               const CancelToken& cancel) {
  const int64_t start_ns = clock_.MonotonicNs();
  const CudaPreparedProblem::Setting setting{options_.measure, *device_, *kernels_, options_.key()};
  std::unique_ptr<CudaPreparedProblem> prepared;
  if (programs.task != nullptr) {
    KC_ASSIGN_OR_RETURN(prepared, CudaPreparedProblem::MakeTask(programs.task, setting,
                                                                options_.python, *runner_, cancel));
  } else {
    KC_ASSIGN_OR_RETURN(
        prepared, CudaPreparedProblem::Make(problem, programs.oracle, programs.reference, setting,
                                            *runner_, cancel));
  }
  Log(LogLevel::kDebug, "prepared a problem",
      {{"problem", problem.name},
       {"cases", prepared->cases().size()},
       {"bytes", prepared->bytes()},
       {"arrange_us", prepared->times().arrange_ns / 1000},
       {"inputs_us", prepared->times().inputs_ns / 1000},
       {"oracle_us", prepared->times().oracle_ns / 1000},
       {"reference_us", prepared->times().reference_ns / 1000},
       {"prepare_us", (clock_.MonotonicNs() - start_ns) / 1000}});
  prepared_.push_front(std::move(prepared));
  attached_ = prepared_.front().get();
  return attached_;
}

absl::StatusOr<CudaPreparedProblem*> CudaMeasurer::Prepare(const Problem& problem,
                                                           const CudaPrograms& programs,
                                                           const CancelToken& cancel) {
  const auto found = std::find_if(prepared_.begin(), prepared_.end(), [&](const auto& prepared) {
    return prepared->problem().problem_id == problem.problem_id;
  });
  const bool fresh =
      found != prepared_.end() && (*found)->candidates_served < options_.measure.candidates_a_pool;
  CudaPreparedProblem* const wanted = fresh ? found->get() : nullptr;
  // Its memory is mapped until it ends.
  if (device_attached_ != wanted) DropDeviceRunner();
  // A Python reference stays with its problem.
  const bool suits = programs.task != nullptr
                         ? runs_task_ && wanted != nullptr && attached_ == wanted
                         : !runs_task_;
  if (runner_ == nullptr || !runner_->alive() || !suits ||
      runner_->candidates >= options_.candidates_per_runner) {
    KC_RETURN_IF_ERROR(StartReference(programs, cancel));
  }
  if (attached_ != nullptr && attached_ != wanted) {
    KC_RETURN_IF_ERROR(attached_->Detach(*runner_, cancel));
    attached_ = nullptr;
  }
  if (wanted != nullptr) {
    prepared_.splice(prepared_.begin(), prepared_, found);
    DropWhileShort(programs, /*kept=*/1);
    if (attached_ == nullptr) {
      KC_RETURN_IF_ERROR(wanted->Attach(*runner_, cancel));
      attached_ = wanted;
    }
    return wanted;
  }
  if (found != prepared_.end()) {
    prepared_.erase(found);
  }
  DropWhileShort(programs, /*kept=*/0);
  auto made = PrepareAnew(problem, programs, cancel);
  if (LacksDeviceMemory(made.status()) && !prepared_.empty()) {
    // Other problems use the memory. Restart the runner too, because it keeps this problem's memory
    // mapped.
    prepared_.clear();
    KC_RETURN_IF_ERROR(StartReference(programs, cancel));
    made = PrepareAnew(problem, programs, cancel);
  }
  KC_RETURN_IF_ERROR(made.status());
  DropBeyond(prepared_bytes_);
  DropWhileShort(programs, /*kept=*/1);
  return made;
}

uint64_t CudaMeasurer::FreeBytes() const {
  const auto memory = device_->Memory();
  return memory.ok() ? memory->free_bytes : UINT64_MAX;
}

bool CudaMeasurer::MemoryIsScarce() const {
  return static_cast<double>(FreeBytes()) < kAmpleShare * static_cast<double>(opened_free_bytes_);
}

void CudaMeasurer::DropWhileShort(const CudaPrograms& programs, size_t kept) {
  auto needed = static_cast<uint64_t>(kFreeShare * static_cast<double>(opened_free_bytes_));
  if (programs.task != nullptr) {
    // The tensors of a call and as much again for intermediate results.
    needed = std::max(needed, 2 * programs.task->MostCallBytes());
  }
  while (prepared_.size() > kept && FreeBytes() < needed) prepared_.pop_back();
}

bool CudaMeasurer::LacksMemory(const absl::StatusOr<MeasureOutcome>& outcome) const {
  // Libraries report a lack of memory in many ways.
  if (!outcome.ok()) {
    return LacksDeviceMemory(outcome.status()) ||
           (absl::IsFailedPrecondition(outcome.status()) && memory_was_scarce_);
  }
  const auto* const crash = std::get_if<Crash>(&*outcome);
  return crash != nullptr && (crash->cause == Crash::Cause::kMemoryLimit || memory_was_scarce_);
}

std::shared_ptr<void> CudaMeasurer::TakeDevice(const Problem& problem) {
  FinishCandidate();
  const size_t problems = prepared_.size();
  std::erase_if(prepared_,
                [&](const auto& kept) { return kept->problem().problem_id != problem.problem_id; });
  const bool dropped = prepared_.size() < problems || !spares_.empty() || !loaded_.empty();
  DropRunner();
  DropDeviceRunner();
  spares_.clear();
  loaded_.clear();
  std::shared_ptr<void> others;
  if (options_.drop_other_work) others = options_.drop_other_work(kDropLimitNs);
  if (others == nullptr && dropped) others = std::make_shared<char>();
  return others;
}

void CudaMeasurer::DropBeyond(uint64_t bytes) {
  const auto held = [this] {
    uint64_t sum = 0;
    for (const auto& prepared : prepared_) sum += prepared->bytes();
    return sum;
  };
  while (held() > bytes && prepared_.size() > 1) prepared_.pop_back();
}

absl::StatusOr<MeasureOutcome> CudaMeasurer::Judge(const Problem& problem,
                                                   const CudaPrograms& programs, MeasureSpec spec,
                                                   const CancelToken& cancel) {
  if (!ChecksMeanwhile(problem, programs, spec.level)) FinishCandidate();
  if (!ending_.valid() && lease_ == nullptr) {
    KC_ASSIGN_OR_RETURN(lease_, acquire_());
  }
  const int64_t start_ns = clock_.MonotonicNs();
  failed_prepare_ns_.reset();
  memory_was_scarce_ = false;
  KC_RETURN_IF_ERROR(PrepareDevice(programs));
  auto prepared = Prepare(problem, programs, cancel);
  times_.prepare_ns += clock_.MonotonicNs() - start_ns;
  if (!prepared.ok()) {
    // Its memory mappings are unknown now.
    DropRunner();
    memory_was_scarce_ = MemoryIsScarce();
    failed_prepare_ns_ = clock_.MonotonicNs() - start_ns;
    return prepared.status();
  }
  ++(*prepared)->candidates_served;
  const bool hosted = programs.candidate.host_launched();
  const bool apart = !hosted && programs.task != nullptr;
  memory_was_scarce_ = hosted && MemoryIsScarce();
  if (ending_.valid()) {
    // It maps the other outputs.
    DropDeviceRunner();
    KC_ASSIGN_OR_RETURN(const bool exchanged, (*prepared)->memory().ExchangeOutputs());
    if (!exchanged) {
      FinishCandidate();
      return absl::UnavailableError("the device has no room for other outputs");
    }
  }
  object_runner_.reset();
  // The judge starts new processes of both sides for a final figure.
  if (hosted && spec.level != MeasureLevel::kFinal) {
    const int64_t prepared_ns = clock_.MonotonicNs();
    KC_RETURN_IF_ERROR(StartObjectRunner(**prepared, programs.candidate, cancel));
    times_.attach_ns += clock_.MonotonicNs() - prepared_ns;
  } else if (apart && spec.level != MeasureLevel::kFinal) {
    const int64_t prepared_ns = clock_.MonotonicNs();
    if (const absl::Status started = StartDeviceRunner(**prepared, cancel); !started.ok()) {
      DropDeviceRunner();
      return started;
    }
    times_.attach_ns += clock_.MonotonicNs() - prepared_ns;
  }
  const BeforeTiming before_timing = [&]() -> absl::Status {
    if (!AwaitEnd()) return absl::UnavailableError("an earlier candidate has changed the inputs");
    if (lease_ == nullptr) {
      KC_ASSIGN_OR_RETURN(lease_, acquire_());
    }
    return absl::OkStatus();
  };
  const auto runners = [&] {
    return CudaRunners{runner_.get(), hosted  ? object_runner_.get()
                                      : apart ? device_runner_.get()
                                              : runner_.get()};
  };
  const RenewRunners renew = [&]() -> absl::StatusOr<CudaRunners> {
    KC_RETURN_IF_ERROR(before_timing());
    DropDeviceRunner();
    KC_RETURN_IF_ERROR(StartReference(programs, cancel));
    KC_RETURN_IF_ERROR((*prepared)->memory().Relocate());
    KC_RETURN_IF_ERROR((*prepared)->Attach(*runner_, cancel));
    attached_ = *prepared;
    if (hosted) {
      KC_RETURN_IF_ERROR(StartObjectRunner(**prepared, programs.candidate, cancel));
    } else if (apart) {
      KC_RETURN_IF_ERROR(StartDeviceRunner(**prepared, cancel));
    }
    return runners();
  };
  auto outcome = JudgeCuda({.prepared = **prepared,
                            .candidate = programs.candidate,
                            .spec = spec,
                            .device = *device_,
                            .kernels = *kernels_,
                            .runners = runners(),
                            .renew = renew,
                            .before_timing = before_timing,
                            .alone = !ending_.valid(),
                            .monitor = monitor_,
                            .spread = spread_,
                            .pause_other_work = options_.pause_other_work,
                            .cancel = cancel,
                            .times = times_.judge,
                            .clock = clock_});
  if (runner_ != nullptr && !runner_->alive()) {
    // The spares start while the driver ends what the lost runner has left running.
    BeginRunners();
  }
  const int64_t judged_ns = clock_.MonotonicNs();
  if (ending_.valid()) {
    // It was not timed. Either process may have changed the inputs or kept the device busy.
    const bool late = outcome.ok() && std::holds_alternative<Timeout>(*outcome);
    if (!AwaitEnd() || late) {
      outcome = absl::UnavailableError("the process of an earlier candidate has interfered");
    }
  }
  if (hosted && programs.task != nullptr && outcome.ok() &&
      std::holds_alternative<MeasuredOk>(*outcome) && spec.level == MeasureLevel::kScreen &&
      runner_ != nullptr && runner_->alive() && !(*prepared)->saves_memory()) {
    EndOnThread(**prepared);
    times_.end_ns += clock_.MonotonicNs() - judged_ns;
    return outcome;
  }
  // This ends anything that the candidate has left running.
  object_runner_.reset();
  if (apart && (!outcome.ok() || device_runner_ == nullptr || !device_runner_->alive())) {
    DropDeviceRunner();
  }
  times_.end_ns += clock_.MonotonicNs() - judged_ns;
  if ((!outcome.ok() && !NotCompiledError(outcome.status())) || runner_ == nullptr ||
      !runner_->alive()) {
    DropRunner();
  }
  bool intact = outcome.ok() || absl::IsInvalidArgument(outcome.status());
  if (intact && hosted) {
    const auto fingerprint = (*prepared)->InputsFingerprint();
    intact = fingerprint.ok() && *fingerprint == (*prepared)->base_fingerprint();
  }
  // Its inputs and outputs may be damaged.
  if (!intact) DropDamaged(**prepared);
  return outcome;
}

void CudaMeasurer::NoteFault(const Problem& problem, const absl::Status& failed, int64_t took_ns) {
  if (!LacksDeviceMemory(failed)) options_.faults->Note(problem.problem_id, failed, took_ns);
}

bool CudaMeasurer::ChecksMeanwhile(const Problem& problem, const CudaPrograms& programs,
                                   MeasureLevel level) const {
  return ending_.valid() && programs.task != nullptr && level == MeasureLevel::kScreen &&
         !loaded_.empty() && loaded_.front()->alive() && runner_ != nullptr && runner_->alive() &&
         runs_task_ && runner_->candidates < options_.candidates_per_runner &&
         attached_ != nullptr && attached_ == ended_on_ &&
         attached_->problem().problem_id == problem.problem_id &&
         attached_->candidates_served < options_.measure.candidates_a_pool;
}

void CudaMeasurer::EndOnThread(CudaPreparedProblem& prepared) {
  // The driver makes and ends contexts one after the other: none is made until this one has ended.
  std::shared_ptr<void> paused;
  if (options_.pause_other_work) paused = options_.pause_other_work(/*limit_ns=*/0);
  object_runner_->Kill();
  ended_on_ = &prepared;
  ending_ = std::async(std::launch::async, [paused = std::move(paused), lease = std::move(lease_),
                                            runner = std::move(object_runner_)]() mutable {
    runner.reset();
    paused.reset();
    lease.reset();
  });
}

bool CudaMeasurer::AwaitEnd() {
  if (!ending_.valid()) return true;
  ending_.get();
  // Another thread may have measured before.
  if (!device_->Bind().ok()) return false;
  const auto fingerprint = ended_on_->InputsFingerprint();
  return fingerprint.ok() && *fingerprint == ended_on_->base_fingerprint();
}

void CudaMeasurer::FinishCandidate() {
  if (!ending_.valid()) return;
  if (!AwaitEnd()) DropDamaged(*ended_on_);
}

void CudaMeasurer::DropDamaged(CudaPreparedProblem& prepared) {
  attached_ = nullptr;
  DropRunner();
  DropDeviceRunner();
  std::erase_if(prepared_, [&](const auto& kept) { return kept.get() == &prepared; });
}

absl::StatusOr<MeasureOutcome> CudaMeasurer::Measure(const Problem& problem,
                                                     const CudaPrograms& programs, MeasureSpec spec,
                                                     const CancelToken& cancel,
                                                     LoadedCandidate loaded,
                                                     const AcquireLease& acquire) {
  times_ = {};
  acquire_ = acquire;
  loaded_ = std::move(loaded);
  absl::StatusOr<MeasureOutcome> outcome = absl::UnavailableError("not judged");
  std::shared_ptr<void> alone;
  for (int attempt = 0; attempt < kAttempts && absl::IsUnavailable(outcome.status()); ++attempt) {
    outcome = Judge(problem, programs, spec, cancel);
    if (alone == nullptr && LacksMemory(outcome)) {
      alone = TakeDevice(problem);
      if (alone != nullptr) outcome = Judge(problem, programs, spec, cancel);
    }
    if (absl::IsAborted(outcome.status())) {
      // The judge's own context is lost, which the candidate cannot cause.
      outcome = absl::UnavailableError(outcome.status().message());
    }
  }
  if (failed_prepare_ns_) NoteFault(problem, outcome.status(), *failed_prepare_ns_);
  if (IsReferenceFailure(outcome.status())) {
    const int64_t start_ns = clock_.MonotonicNs();
    CudaPrograms itself = programs;
    itself.candidate = programs.reference;
    if (programs.task != nullptr) itself.candidate.object = programs.task->Reference({}).content;
    loaded_.clear();
    const auto [answer, at_fault] =
        ExplainRepeated(outcome.status(), Judge(problem, itself, {MeasureLevel::kScreen}, cancel));
    FinishCandidate();
    if (at_fault && cancel.Check().ok()) {
      options_.faults->Note(problem.problem_id, answer, clock_.MonotonicNs() - start_ns);
    }
    outcome = answer;
    if (const absl::Status stopped = cancel.Check(); !stopped.ok()) outcome = stopped;
  }
  loaded_.clear();
  lease_.reset();
  return outcome;
}

absl::StatusOr<Profile> CudaMeasurer::ProfileCandidate(const Problem& problem,
                                                       const CudaPrograms& programs,
                                                       const CancelToken& cancel) {
  FinishCandidate();
  const int64_t start_ns = clock_.MonotonicNs();
  if (options_.profile.cupti_library.empty()) {
    return NoProfile("libcupti, a part of NVIDIA's toolkit, is not found");
  }
  const bool task = programs.task != nullptr;
  const bool python = task && programs.candidate.host_launched();
  if (programs.candidate.host_launched() && !python) {
    // Its process drops what the profiler needs before any of its code runs.
    return NoProfile("candidates that launch from the host are not profiled");
  }
  KC_RETURN_IF_ERROR(PrepareDevice(programs));
  auto prepared = Prepare(problem, programs, cancel);
  if (!prepared.ok()) {
    DropRunner();
    return prepared.status();
  }
  // The profiler may need another workspace.
  DropDeviceRunner();
  if (!task) {
    // The profiler maps the problem's memory instead; the runner stays warm.
    const absl::Status detached = (*prepared)->Detach(*runner_, cancel);
    attached_ = nullptr;
    if (!detached.ok()) {
      DropRunner();
    }
  }
  auto profiler = CudaRunner::Start(
      ProfilingRunner(
          python ? OptionsFor(programs.candidate.object, options_.python) : options_.runner,
          options_.profile),
      cancel);
  KC_RETURN_IF_ERROR(cancel.Check());
  if (!profiler.ok()) {
    return NoProfile(std::string(profiler.status().message()));
  }
  const absl::Status attached =
      python ? (*prepared)->AttachObject(**profiler, cancel)
      : task ? (*prepared)->AttachDeviceCode(**profiler, options_.python, cancel)
             : (*prepared)->Attach(**profiler, cancel);
  if (!attached.ok()) {
    KC_RETURN_IF_ERROR(cancel.Check());
    return NoProfile(absl::StrCat("the profiler: ", attached.message()));
  }
  auto profile =
      ProfileCuda(**prepared, programs.candidate, **profiler, options_.profile, cancel, clock_);
  if (python) {
    profiler->reset();
    const auto fingerprint = (*prepared)->InputsFingerprint();
    if (!fingerprint.ok() || *fingerprint != (*prepared)->base_fingerprint()) {
      DropDamaged(**prepared);
    }
  }
  if (profile.ok()) {
    profile->device_time_ns = clock_.MonotonicNs() - start_ns;
  }
  return profile;
}

}  // namespace kernelcast::worker
