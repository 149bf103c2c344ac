#include "services/worker/cuda/judge/profile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/secret_random.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::CountReport;
using cuda_runner::PoisonRecord;
using cuda_runner::SampleRecord;
using cuda_runner::TraceReport;

constexpr size_t kEmptyCalls = 16;
constexpr size_t kReportedOutputBytes = 1024;
// Stalls with a smaller share are left out.
constexpr double kLeastStallShare = 0.01;

template <size_t kBytes>
std::string Text(const char (&text)[kBytes]) {
  return {text, strnlen(text, kBytes)};
}

class Profiling {
 public:
  Profiling(CudaPreparedProblem& prepared, const CudaProgram& candidate, CudaRunner& runner,
            const CudaProfileOptions& options, const CancelToken& cancel, const Clock& clock)
      : prepared_(prepared),
        candidate_(candidate),
        runner_(runner),
        options_(options),
        cancel_(cancel),
        clock_(clock),
        deadline_ns_(clock.MonotonicNs() + options.limit_ns),
        random_("profile") {}

  absl::StatusOr<Profile> Run();

 private:
  // Each step returns false if profiling ends there; Profile::unavailable_reason or `status_` says
  // why.
  bool Load();
  bool Trace(size_t shape_index);
  bool TimeWarm(uint32_t program, double& event_ns);
  bool Count(size_t shape_index);
  bool Accept(const absl::StatusOr<CudaRunner::Answer>& answer, const char* what);
  bool Missing(std::string why) {
    profile_.unavailable_reason = std::move(why);
    return false;
  }
  int64_t LeftNs() const { return std::max<int64_t>(1, deadline_ns_ - clock_.MonotonicNs()); }

  CudaPreparedProblem& prepared_;
  const CudaProgram& candidate_;
  CudaRunner& runner_;
  const CudaProfileOptions& options_;
  const CancelToken& cancel_;
  const Clock& clock_;
  const int64_t deadline_ns_;
  SecretRandom random_;
  CudaPreparedProblem::Programs programs_;
  Profile profile_;
  absl::Status status_;
};

absl::StatusOr<Profile> Profiling::Run() {
  KC_ASSIGN_OR_RETURN(programs_, prepared_.MakePrograms(candidate_, CudaPreparedProblem::kOutputs));
  // The last program has no launches.
  programs_.programs.emplace_back();
  const size_t shapes = prepared_.bench_shapes().size();
  bool going = Load();
  if (going) {
    profile_.shapes.resize(shapes);
  }
  // Trace everything before counting, since counting may be forbidden or never end.
  for (size_t i = 0; i < shapes && going; ++i) going = Trace(i);
  if (going && candidate_.host_launched()) {
    going = Missing("counters of candidates that launch from the host are not read");
  }
  for (size_t i = 0; i < shapes && going; ++i) going = Count(i);
  KC_RETURN_IF_ERROR(status_);
  return std::move(profile_);
}

bool Profiling::Accept(const absl::StatusOr<CudaRunner::Answer>& answer, const char* what) {
  if (!answer.ok()) {
    return Missing(absl::StrCat(what, ": ", answer.status().message()));
  }
  if (answer->end == CudaRunner::End::kStopped) {
    status_ = cancel_.Check();
    return false;
  }
  if (answer->ok()) return true;
  std::string why =
      absl::StrCat("the profiler failed at ", what, ": ", CudaRunner::FailureText(*answer));
  if (candidate_.host_launched() && !runner_.output().empty()) {
    absl::StrAppend(
        &why, "; ",
        SanitizeUtf8(std::string(TruncateUtf8Front(runner_.output(), kReportedOutputBytes))));
  }
  return Missing(std::move(why));
}

bool Profiling::Load() {
  absl::StatusOr<CudaRunner::Answer> loaded = CudaRunner::Answer();
  if (candidate_.host_launched()) {
    loaded = runner_.LoadObject(candidate_.object, LeftNs(), cancel_);
  } else {
    absl::Status reserved =
        prepared_.memory().ReserveScratch(programs_.max_workspace_bytes, runner_, cancel_);
    if (!reserved.ok()) {
      status_ = cancel_.Check();
      return Missing(absl::StrCat("the profiler has no workspace: ", reserved.message()));
    }
    loaded = runner_.Load(cuda_runner::kCandidate, candidate_.cubin, candidate_.KernelNames(),
                          LeftNs(), cancel_);
  }
  return Accept(loaded, "loading the candidate") &&
         Accept(runner_.SetPrograms(cuda_runner::kCandidate, programs_.programs, LeftNs(), cancel_),
                "loading the candidate");
}

bool Profiling::TimeWarm(uint32_t program, double& event_ns) {
  const auto nothing = static_cast<uint32_t>(programs_.programs.size() - 1);
  std::vector<SampleRecord> samples(kEmptyCalls, {cuda_runner::kCandidate, nothing, 0, 0});
  samples.resize(std::min(cuda_runner::kMaxSamples, kEmptyCalls + options_.warm_calls),
                 {cuda_runner::kCandidate, program, 0, 0});
  const CudaRunner::Answer answer = runner_.Time(samples, {}, /*flushes=*/0, LeftNs(), cancel_);
  if (!Accept(answer, "timing warm calls")) {
    return false;
  }
  std::vector<double> empty_us;
  std::vector<double> calls_us;
  for (size_t i = 0; i < samples.size(); ++i) {
    (i < kEmptyCalls ? empty_us : calls_us).push_back(answer.values_us[2 * i + 1]);
  }
  event_ns = std::max(0.0, 1000 * (Median(calls_us) - Median(empty_us)));
  return true;
}

bool Profiling::Trace(size_t shape_index) {
  const auto program = static_cast<uint32_t>(prepared_.bench_shapes()[shape_index].slots.front());
  ShapeProfile& shape = profile_.shapes[shape_index];
  const auto report = std::make_unique<TraceReport>();
  if (!TimeWarm(program, shape.warm_event_ns) ||
      !Accept(runner_.Trace({cuda_runner::kCandidate, program}, options_.warm_calls, *report,
                            LeftNs(), cancel_),
              "tracing kernels")) {
    return false;
  }
  if (report->unavailable[0] != '\0') {
    return Missing(Text(report->unavailable));
  }
  shape.warm_activity_ns = report->call_ns;
  const size_t kernels = std::min<size_t>(report->kernels, cuda_runner::kMaxTracedKernels);
  for (size_t i = 0; i < kernels; ++i) {
    const cuda_runner::TracedKernel& kernel = report->kernel[i];
    shape.kernels.push_back({Text(kernel.name), kernel.launches, kernel.median_ns, kernel.registers,
                             kernel.static_shared_bytes, kernel.dynamic_shared_bytes});
  }
  return true;
}

bool Profiling::Count(size_t shape_index) {
  const std::vector<size_t>& slots = prepared_.bench_shapes()[shape_index].slots;
  const size_t counted = slots.front();
  std::vector<PoisonRecord> poisons;
  prepared_.AddPoisons(CudaPreparedProblem::kOutputs, counted, 0x7ff17ff1, poisons);
  CudaPreparedProblem::AddWorkspacePoison(programs_.workspace_bytes[counted], 0x7ff17ff1, random_,
                                          poisons);
  // The preceding calls leave the cache with as much unwritten data as in normal use: more than
  // after a flush.
  std::vector<SampleRecord> samples;
  for (size_t i = std::max<size_t>(1, slots.size() - 1); i < slots.size(); ++i) {
    samples.push_back({cuda_runner::kCandidate, static_cast<uint32_t>(slots[i]), 0, 0});
  }
  samples.push_back({cuda_runner::kCandidate, static_cast<uint32_t>(counted), 0, 0});
  const auto report = std::make_unique<CountReport>();
  if (!Accept(runner_.Count(samples, poisons, *report, LeftNs(), cancel_), "counting")) {
    return false;
  }
  if (report->unavailable[0] != '\0') {
    return Missing(Text(report->unavailable));
  }
  ShapeProfile& shape = profile_.shapes[shape_index];
  for (size_t i = 0; i < cuda_runner::kCounterMetrics.size(); ++i) {
    const char* const name = cuda_runner::kCounterMetrics[i].name;
    if (std::isfinite(report->values[i])) {
      shape.counters[name] = report->values[i];
    } else {
      shape.missing_counters.emplace_back(name);
    }
  }
  for (size_t i = 0; i < cuda_runner::kStallReasons.size(); ++i) {
    if (std::isfinite(report->stalls[i]) && report->stalls[i] >= kLeastStallShare) {
      shape.stall_reasons.push_back({cuda_runner::kStallReasons[i], report->stalls[i]});
    }
  }
  std::ranges::stable_sort(shape.stall_reasons, std::greater<>(), &StallReason::share);
  return true;
}

}  // namespace

CudaRunnerOptions ProfilingRunner(CudaRunnerOptions runner, const CudaProfileOptions& options) {
  if (runner.python != nullptr) {
    runner.profiler_library = options.cupti_library;
  } else {
    runner.arguments.push_back(absl::StrCat("--profile=", options.cupti_library));
  }
  runner.start_limit_ns = std::min(runner.start_limit_ns, options.limit_ns);
  return runner;
}

absl::StatusOr<Profile> ProfileCuda(CudaPreparedProblem& prepared, const CudaProgram& candidate,
                                    CudaRunner& runner, const CudaProfileOptions& options,
                                    const CancelToken& cancel, const Clock& clock) {
  return Profiling(prepared, candidate, runner, options, cancel, clock).Run();
}

}  // namespace kernelcast::worker
