#include "services/worker/cuda/judge/judge.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/secret_random.h"
#include "common/base/status.h"
#include "services/worker/core/narrow_float.h"
#include "services/worker/core/new_values.h"
#include "services/worker/core/roofline.h"
#include "services/worker/core/statistics.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/core/verdict.h"
#include "services/worker/core/verification.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::PoisonRecord;
using cuda_runner::RunRecord;
using cuda_runner::SampleRecord;
using End = CudaRunner::End;
using Bank = CudaPreparedProblem::Bank;
using Case = CudaPreparedProblem::Case;

// A block counts as disturbed if the clock is below this share of the initial one.
constexpr double kLeastClockShare = 0.95;
// Time on the host that the events of a request need not explain: launch overhead, and the flush
// before the first sample.
constexpr double kUnexplainedShare = 0.1;
constexpr double kUnexplainedUs = 500;
constexpr int kTimingAttempts = 3;
// Slack for the time between calls, compared with the reference.
constexpr double kBetweenSlackShare = 0.3;
constexpr double kBetweenSlackUs = 10;
// Calls are uneven if their mean exceeds their median by more than this.
constexpr double kUnevenShare = 1.25;
constexpr double kUnevenUs = 2;
constexpr double kSlowestFillBytesPerUs = 5e5;
// Standard deviation of the logarithm of a request's mean call, at the clocks before requests are
// made.
constexpr double kRoundDeviation = 0.01;
// If the device holds up one call, the kernel looks slow on new values. So this many pairs of
// processes decide. In each of them all values are new again.
constexpr int kRunnersToCharge = 3;
constexpr size_t kEmptySamples = 16;
// More requests per block add little.
constexpr size_t kMaxRequestsInBlock = 2;

// Two processes that replay the same graph differ by about this: most of it is the same for short
// graphs and long ones.
constexpr double kGraphDeviation = 0.005;
constexpr double kGraphDeviationNs = 500;

// Of calls whose graphs are timed precisely.
PrecisionOptions EagerPrecision(PrecisionOptions precision) {
  constexpr int64_t kCapNs = 60'000'000;
  constexpr double kHalfWidth = 0.03;
  precision.half_width = std::max(precision.half_width, kHalfWidth);
  precision.cap_ns = std::min(precision.cap_ns, kCapNs);
  return precision;
}

class Judgement {
 public:
  Judgement(CudaPreparedProblem& prepared, const CudaProgram& candidate, MeasureLevel level,
            CudaDevice& device, JudgeKernels& kernels, CudaRunners runners,
            const RenewRunners& renew, DeviceMonitor& monitor, RunnerSpread& spread,
            const CancelToken& cancel, CudaJudgeTimes& times, const Clock& clock)
      : prepared_(prepared),
        program_(candidate),
        options_(prepared.options()),
        precision_(options_.Precision(level)),
        level_(level),
        device_(device),
        kernels_(kernels),
        runners_(runners),
        renew_(renew),
        monitor_(monitor),
        spread_(spread),
        cancel_(cancel),
        times_(times),
        clock_(clock),
        plan_random_("plan"),
        patterns_random_("patterns") {}

  absl::StatusOr<MeasureOutcome> Run();

 private:
  // One comparison of an output, and the index of its result.
  struct Looked {
    size_t index;  // of the case
    size_t output;
    const CudaExpected* expected;
  };

  // What calls on new values have shown in one process.
  struct NewValuesFound {
    std::vector<Slowdown> slowdowns;
    std::string cached;  // evidence that results were reused; empty: none
  };

  // Each step returns true to go on, or false when `outcome_` or `status_` holds the end.
  // Allocates what verifying needs: a candidate may leave no memory on the device.
  bool ReserveMemory();
  // Whether a candidate that was loaded ahead has survived it.
  bool LoadedAhead();
  bool LoadCandidate();
  bool LoadReference();
  bool LoadModule();
  bool NoteInputs();
  bool CheckInputs();
  bool CheckCorrectness();
  // Calls each check case once on hostile memory, alternating between NaN and finite values.
  bool RunChecks(bool finite_first, int64_t limit_ns);
  bool CheckGuards();
  bool TimeShape(size_t shape_index);
  bool WarmUp(size_t shape_index, double& candidate_ns, double& reference_ns);
  bool RunBlock(size_t shape_index, const TimingSession::Block& block,
                TimingSession::BlockTimes& times);
  bool FreshRound(size_t shape_index, Bank bank, const TimingSession& session, TimedShape& result,
                  NewValuesFound& found);
  // Calls each slot once, or only `calls` of them. `pattern` returns what their outputs held
  // before.
  bool TimeCalls(size_t shape_index, Side side, size_t calls, std::vector<double>& calls_ns,
                 uint32_t& pattern);
  bool MeasureOverhead(double& overhead_ns);
  // Warm-up and blocks of timed calls. Nothing: as a step that returns false.
  std::optional<TimingSession> RunSession(size_t shape_index, const PrecisionOptions& precision,
                                          TimedShape& result);
  // Calls on new values, after which the base bank is in place again.
  bool RunFreshRounds(size_t shape_index, const TimingSession& session, TimedShape& result,
                      NewValuesFound& found);
  // Times CUDA graphs of the calls of a Python task, if both sides can be captured. A mistake of
  // the candidate here is only the reason why there is no such figure.
  bool TimeGraphs(size_t shape_index);
  bool CaptureGraphs(size_t shape_index);
  // The figures of a Python task: those of graphs where there are any, and eager ones.
  MeasureOutcome ConcludeTask();
  bool Verify(const std::vector<Looked>& looks, Side side, uint32_t poison, bool timed,
              std::vector<TensorComparison>& found);
  bool VerifySlots(size_t shape_index, Side side, size_t slots, Bank bank, uint32_t poison,
                   std::optional<Bank> stale);
  bool Wrong(const Looked& look, const TensorComparison& comparison, const CudaVerdict& verdict,
             bool timed);
  bool Accept(const CudaRunner::Answer& answer, Side side, const std::string& stage,
              int64_t limit_ns);

  // Adds the case that ran to the outcome, if it has fields for it and names none.
  bool Settle(MeasureOutcome outcome) {
    if (running_) {
      const Case& at = prepared_.cases()[*running_];
      NameCase(at.axes, at.distribution, outcome);
    }
    outcome_ = std::move(outcome);
    return false;
  }
  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  int64_t NowNs() const { return clock_.MonotonicNs(); }
  bool Must(absl::Status status) { return status.ok() || Fail(std::move(status)); }
  uint32_t SlotOf(Side side) const {
    return side == Side::kCandidate ? cuda_runner::kCandidate : cuda_runner::kReference;
  }
  const CudaPreparedProblem::Programs& ProgramsOf(Side side) const {
    return side == Side::kCandidate ? programs_ : prepared_.reference_programs();
  }
  // Returns a word that is NaN in every floating-point type when repeated, and varies between
  // calls.
  uint32_t NextNanPattern() {
    return 0x7ff07ff0u | 0x00010001u | static_cast<uint32_t>(patterns_random_.Below(7) << 1) |
           static_cast<uint32_t>(patterns_random_.Below(7) << 17);
  }
  uint32_t PlausiblePattern(const CudaExpected& expected);
  CudaRunner& RunnerOf(Side side) const {
    return side == Side::kCandidate ? *runners_.candidate : *runners_.reference;
  }
  bool hosted() const { return program_.host_launched(); }
  CudaPreparedProblem::Arena OutputsOf(Side side) const {
    return hosted() && side == Side::kReference ? CudaPreparedProblem::kReferenceOutputs
                                                : CudaPreparedProblem::kOutputs;
  }
  // The last program of each side does nothing.
  size_t NothingProgram() const { return prepared_.cases().size(); }

  // A shape's timed calls in one process.
  struct TimedSession {
    TimingSession session;
    double charge;  // factor by which new values made calls slower
    std::string cached;
  };
  // Whether some process has seen calls on new values that were slower.
  bool Suspects() const;
  // Adds the sessions to the results, charged by each shape's median factor. Convicts if most
  // processes have seen a shape's results reused.
  bool AddSessions();

  CudaPreparedProblem& prepared_;
  const CudaProgram& program_;
  const MeasureOptions& options_;
  const PrecisionOptions& precision_;
  const MeasureLevel level_;
  CudaDevice& device_;
  JudgeKernels& kernels_;
  CudaRunners runners_;
  const RenewRunners& renew_;
  DeviceMonitor& monitor_;
  RunnerSpread& spread_;
  const CancelToken& cancel_;
  CudaJudgeTimes& times_;
  const Clock& clock_;
  // Choice of what is called and verified, and contents of memory that candidates can see. Separate
  // streams, so that the second reveals nothing about the first.
  SecretRandom plan_random_;
  SecretRandom patterns_random_;

  CudaPreparedProblem::Programs programs_;
  DeviceBuffer comparisons_;
  DeviceBuffer guard_counts_;
  std::vector<TimedShape> results_;
  std::vector<std::vector<TimedSession>> sessions_;  // by shape
  // Of graphs, by shape.
  std::vector<TimedShape> graphs_;
  std::vector<std::string> no_graphs_;  // why there is no figure; empty: there is one
  bool replays_ = false;
  // Median time between calls of the reference.
  double reference_between_us_ = 0;
  uint32_t correctness_cases_ = 0;
  // Index of the case that runs or ran last; nullopt before any did.
  std::optional<size_t> running_;
  uint64_t inputs_fingerprint_ = 0;
  double clock_hz_ = 0;
  std::vector<double> warm_clock_hz_;  // by shape; 0 before the first warm-up
  std::optional<MeasureOutcome> outcome_;
  absl::Status status_;
};

absl::StatusOr<MeasureOutcome> Judgement::Run() {
  auto programs = prepared_.MakePrograms(program_, CudaPreparedProblem::kOutputs);
  if (!programs.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("candidate: ", programs.status().message()));
  }
  programs_ = *std::move(programs);
  programs_.programs.emplace_back();
  for (const CudaPreparedProblem::BenchShape& shape : prepared_.bench_shapes()) {
    results_.push_back({.axes = shape.axes,
                        .bytes = shape.bytes,
                        .flops = shape.flops,
                        .compute = std::string(ComputePeak(prepared_.problem()))});
  }
  if (prepared_.task() != nullptr) graphs_ = results_;
  no_graphs_.resize(graphs_.size());
  sessions_.resize(results_.size());
  warm_clock_hz_.resize(results_.size());
  monitor_.Begin();
  clock_hz_ = monitor_.ClockHz();
  bool going = LoadedAhead() && ReserveMemory();
  int runners = precision_.runners;
  for (int round = 0; round < runners && going; ++round) {
    const int64_t start_ns = NowNs();
    // A final figure spans several processes, and with them different addresses and memory
    // placement.
    if (level_ == MeasureLevel::kFinal || round > 0 || !runners_.alive()) {
      KC_ASSIGN_OR_RETURN(runners_, renew_());
    }
    going = LoadCandidate();
    const int64_t loaded_ns = NowNs();
    times_.load_ns += loaded_ns - start_ns;
    if (going && round == 0) {
      going = CheckCorrectness();
      times_.check_ns += NowNs() - loaded_ns;
    }
    for (size_t i = 0; i < results_.size() && going; ++i) {
      going = (graphs_.empty() || TimeGraphs(i)) && TimeShape(i);
    }
    if (Suspects()) runners = std::max(runners, kRunnersToCharge);
  }
  if (going) AddSessions();
  if (!hosted() && runners_.candidate->alive()) {
    runners_.candidate->Unload(cuda_runner::kCandidate, cancel_);
  }
  KC_RETURN_IF_ERROR(status_);
  MeasureOutcome outcome = outcome_ ? *std::move(outcome_)
                           : graphs_.empty()
                               ? Conclude(results_, options_, prepared_.problem().problem_id,
                                          correctness_cases_, spread_)
                               : ConcludeTask();
  if (auto* const ok = std::get_if<MeasuredOk>(&outcome)) {
    monitor_.Look();
    monitor_.Fill(ok->environment);
  }
  return outcome;
}

bool Judgement::Suspects() const {
  // What launching costs the host varies too much for small charges.
  const bool counts_charges = prepared_.task() == nullptr;
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& sessions) {
    return std::any_of(sessions.begin(), sessions.end(), [&](const TimedSession& timed) {
      return (counts_charges && timed.charge > 1) || !timed.cached.empty();
    });
  });
}

bool Judgement::AddSessions() {
  for (size_t i = 0; i < results_.size(); ++i) {
    std::vector<double> charges;
    std::vector<std::string> cached;
    for (const TimedSession& timed : sessions_[i]) {
      charges.push_back(timed.charge);
      if (!timed.cached.empty()) cached.push_back(timed.cached);
    }
    if (2 * cached.size() > charges.size()) {
      running_ = prepared_.bench_shapes()[i].slots.front();
      return Settle(MakeExploit(Exploit::Kind::kCachedOutput, cached.front()));
    }
    for (const TimedSession& timed : sessions_[i]) {
      results_[i].Add(timed.session, Median(charges));
    }
  }
  return true;
}

bool Judgement::ReserveMemory() {
  const size_t outputs = prepared_.problem().outputs.size();
  size_t compared = prepared_.check_cases().size() * outputs;
  for (const CudaPreparedProblem::BenchShape& shape : prepared_.bench_shapes()) {
    compared = std::max(compared, shape.slots.size() * outputs);
  }
  auto comparisons = DeviceBuffer::Allocate(device_, compared * sizeof(TensorComparison));
  auto counts = DeviceBuffer::Allocate(device_, prepared_.check_cases().size() * sizeof(uint64_t));
  if (!comparisons.ok() || !counts.ok()) {
    return Fail(comparisons.ok() ? counts.status() : comparisons.status());
  }
  comparisons_ = *std::move(comparisons);
  guard_counts_ = *std::move(counts);
  return true;
}

// Translates the runner's answer. A failure of the candidate becomes an outcome, a failure of the
// reference an error.
bool Judgement::Accept(const CudaRunner::Answer& answer, Side side, const std::string& stage,
                       int64_t limit_ns) {
  switch (answer.end) {
    case End::kDone: return true;
    case End::kStopped: return Fail(cancel_.Check());
    case End::kTimeout:
      if (side == Side::kReference) {
        return Fail(absl::UnavailableError("the reference did not end in time"));
      }
      return Settle(Timeout{limit_ns, stage});
    case End::kGone:
    case End::kForged:
    case End::kTooLarge:
    case End::kFailed: break;
  }
  std::string text = CudaRunner::FailureText(answer);
  absl::Status driver;
  if (answer.end == End::kFailed && answer.reply.failure == cuda_runner::Failure::kDriver) {
    driver = device_.Check(static_cast<CUresult>(answer.reply.cuda_error),
                           std::string(answer.reply.where));
    text = std::string(driver.message());
  }
  if (side == Side::kReference) {
    return Fail(absl::UnavailableError(absl::StrCat("the reference: ", text)));
  }
  Crash crash;
  crash.cause = stage == "load" ? Crash::Cause::kLoad : Crash::Cause::kDeviceError;
  crash.output_tail = absl::StrCat(text, "\n");
  crash.stage = stage;
  if (hosted() && answer.reply.failure == cuda_runner::Failure::kEntry) {
    WrongResult wrong;
    wrong.cause = WrongResult::Cause::kEntryStatus;
    wrong.entry_status = answer.reply.cuda_error;
    return Settle(std::move(wrong));
  }
  if (hosted() && answer.end == End::kForged) {
    return Settle(MakeExploit(Exploit::Kind::kForgedResult, text));
  }
  if (hosted() && answer.end == End::kTooLarge) {
    crash.cause = Crash::Cause::kMemoryLimit;
  }
  if (hosted() && answer.end == End::kGone) {
    const ChildExit& exit = answer.exit;
    crash.cause = exit.output_limit  ? Crash::Cause::kOutputLimit
                  : exit.signal != 0 ? Crash::Cause::kSignal
                                     : Crash::Cause::kExit;
    crash.signal = exit.signal;
    crash.exit_code = exit.exit_code;
    crash.output_tail = exit.output;
  }
  return Settle(std::move(crash));
}

bool Judgement::LoadCandidate() {
  const int64_t limit_ns = options_.load_limit_ns;
  CudaRunner& runner = *runners_.candidate;
  running_.reset();
  const uint64_t workspace_bytes = programs_.max_workspace_bytes;
  absl::Status reserved = prepared_.ReserveScratch(workspace_bytes, *runners_.reference, cancel_);
  if (absl::IsResourceExhausted(reserved)) {
    Crash crash;
    crash.cause = Crash::Cause::kMemoryLimit;
    crash.output_tail = absl::StrCat("the device has no room for a workspace of ", workspace_bytes,
                                     " bytes: ", reserved.message(), "\n");
    return Settle(std::move(crash));
  }
  // The kernels that fill memory must be loaded before a shared object takes over the process.
  if (!Must(std::move(reserved)) || !Must(prepared_.ClearOutputs()) ||
      !Must(kernels_.hostile().Attach(runner, cancel_)) || (hosted() && !NoteInputs())) {
    return false;
  }
  // The address of code depends on what was loaded before, and affects the kernel's time.
  const bool reference_first = hosted() || plan_random_.Below(2) == 0;
  if ((reference_first && !LoadReference()) || !LoadModule() ||
      (!reference_first && !LoadReference())) {
    return false;
  }
  auto taken = runner.SetPrograms(cuda_runner::kCandidate, programs_.programs, limit_ns, cancel_);
  if (!taken.ok()) {
    return Fail(taken.status());
  }
  ++runner.candidates;
  if (prepared_.task() != nullptr) {
    runner.BeginTiming();
    runners_.reference->BeginTiming();
  }
  return Accept(*taken, Side::kCandidate, "load", limit_ns);
}

bool Judgement::LoadReference() {
  return Must(prepared_.LoadReference(*runners_.reference, OutputsOf(Side::kReference), cancel_));
}

bool Judgement::LoadedAhead() {
  const std::optional<CudaRunner::Answer>& loaded = runners_.candidate->load_answer();
  return !hosted() || !loaded ||
         Accept(*loaded, Side::kCandidate, "load", options_.python_load_limit_ns);
}

bool Judgement::LoadModule() {
  CudaRunner& runner = *runners_.candidate;
  const int64_t limit_ns =
      prepared_.task() != nullptr ? options_.python_load_limit_ns : options_.load_limit_ns;
  // Loaded ahead.
  if (hosted() && runner.load_answer()) {
    return Accept(*runner.load_answer(), Side::kCandidate, "load", limit_ns);
  }
  auto loaded = hosted() ? runner.LoadObject(program_.object, limit_ns, cancel_)
                         : runner.Load(cuda_runner::kCandidate, program_.cubin,
                                       program_.KernelNames(), limit_ns, cancel_);
  if (!loaded.ok()) {
    return Fail(loaded.status());
  }
  return Accept(*loaded, Side::kCandidate, "load", limit_ns);
}

bool Judgement::NoteInputs() {
  auto fingerprint = prepared_.InputsFingerprint();
  if (!fingerprint.ok()) {
    return Fail(fingerprint.status());
  }
  inputs_fingerprint_ = *fingerprint;
  return true;
}

// Device code cannot write to inputs; host code could remap them as writable.
bool Judgement::CheckInputs() {
  if (!hosted()) {
    return true;
  }
  const uint64_t before = inputs_fingerprint_;
  if (!NoteInputs()) {
    return false;
  }
  return inputs_fingerprint_ == before ||
         Settle(MakeExploit(Exploit::Kind::kMutatedInput, "changed the values of its inputs"));
}

uint32_t Judgement::PlausiblePattern(const CudaExpected& expected) {
  const double scale = std::isfinite(expected.rms) && expected.rms > 0 ? expected.rms : 1;
  const double value =
      scale * (0.25 + patterns_random_.Uniform()) * (patterns_random_.Next() & 1 ? 1 : -1);
  switch (expected.dtype) {
    case DataType::kFloat32: {
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    }
    // The upper half of a double determines its magnitude.
    case DataType::kFloat64: return static_cast<uint32_t>(std::bit_cast<uint64_t>(value) >> 32);
    case DataType::kFloat16:
    case DataType::kBfloat16: return EncodeNarrow(expected.dtype, value) * 0x00010001u;
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2: return EncodeNarrow(expected.dtype, value) * 0x01010101u;
    default: return static_cast<uint32_t>(patterns_random_.Below(100)) + 1;
  }
}

bool Judgement::Verify(const std::vector<Looked>& looks, Side side, uint32_t poison, bool timed,
                       std::vector<TensorComparison>& found) {
  found.assign(looks.size(), {});
  const std::vector<Case>& cases = prepared_.cases();
  for (size_t i = 0; i < looks.size(); ++i) {
    const Looked& look = looks[i];
    const CudaExpected& expected = *look.expected;
    if (!Must(
            kernels_.Compare({.dtype = expected.dtype,
                              .got = prepared_.OutputAddress(
                                  OutputsOf(side), cases[look.index].outputs[look.output]),
                              .expected = expected.values,
                              .count = expected.count,
                              .absolute = expected.absolute,
                              .rtol = expected.tolerance.rtol,
                              .poison = poison,
                              .result = comparisons_.address() + i * sizeof(TensorComparison)}))) {
      return false;
    }
  }
  const CudaApi& api = device_.api();
  if (!Must(device_.Check(
          api.MemcpyDtoHAsync(found.data(), comparisons_.address(),
                              found.size() * sizeof(TensorComparison), device_.stream()),
          "reading comparisons")) ||
      !Must(device_.Synchronize())) {
    return false;
  }
  for (size_t i = 0; i < looks.size(); ++i) {
    const CudaVerdict verdict = JudgeComparison(*looks[i].expected, found[i], true);
    if (verdict.ok) {
      continue;
    }
    if (side == Side::kReference) {
      return Fail(absl::UnavailableError(
          "the reference's results are not what they were before the candidate came"));
    }
    return Wrong(looks[i], found[i], verdict, timed);
  }
  return true;
}

bool Judgement::Wrong(const Looked& look, const TensorComparison& comparison,
                      const CudaVerdict& verdict, bool timed) {
  const Case& at = prepared_.cases()[look.index];
  const CudaExpected& expected = *look.expected;
  WrongResult wrong;
  wrong.cause = timed ? WrongResult::Cause::kTimedOutput : verdict.cause;
  wrong.shape = at.axes;
  wrong.distribution = at.distribution;
  wrong.output = prepared_.problem().outputs[look.output].name;
  wrong.mismatches = comparison.mismatches;
  wrong.elements = static_cast<uint64_t>(expected.count);
  wrong.normwise_error = RoundForReport(verdict.normwise_error);
  if (comparison.mismatches > 0) {
    wrong.index = comparison.first;
    const DataType kept = IsFloat(expected.dtype) ? DataType::kFloat64 : expected.dtype;
    std::array<std::byte, 8> got{};
    std::array<std::byte, 8> right{};
    const auto got_bytes = static_cast<size_t>(SizeBytes(expected.dtype));
    const auto right_bytes = static_cast<size_t>(SizeBytes(kept));
    const CudaApi& api = device_.api();
    const CUdeviceptr output =
        prepared_.OutputAddress(OutputsOf(Side::kCandidate), at.outputs[look.output]);
    if (!Must(device_.Check(api.MemcpyDtoHAsync(got.data(), output + wrong.index * got_bytes,
                                                got_bytes, device_.stream()),
                            "reading a value")) ||
        !Must(device_.Check(
            api.MemcpyDtoHAsync(right.data(), expected.values + wrong.index * right_bytes,
                                right_bytes, device_.stream()),
            "reading a value")) ||
        !Must(device_.Synchronize())) {
      return false;
    }
    wrong.got = ElementAt(expected.dtype, got, 0);
    wrong.expected = ElementAt(kept, right, 0);
    RoundForReport(wrong.got, wrong.expected);
  }
  if (timed && comparison.mismatches > 0 && comparison.unwritten == comparison.mismatches) {
    return Settle(
        MakeExploit(Exploit::Kind::kSkippedWork,
                    absl::StrCat("in a timed call ", comparison.unwritten, " of ", expected.count,
                                 " values of output ", wrong.output, " were not written")));
  }
  return Settle(std::move(wrong));
}

bool Judgement::CheckCorrectness() {
  const std::vector<Case>& cases = prepared_.cases();
  std::vector<Looked> looks;
  int64_t reference_ns = 0;
  for (const CudaPreparedProblem::CheckCase& check : prepared_.check_cases()) {
    reference_ns += cases[check.index].reference_ns;
    for (size_t i = 0; i < check.expected.size(); ++i) {
      looks.push_back({check.index, i, &check.expected[i]});
    }
    if (!Must(prepared_.ResetGuards(cases[check.index]))) {
      return false;
    }
  }
  // A kernel as slow as the reference must not be stopped, however long it takes.
  const int64_t limit_ns = prepared_.CallLimitNs(reference_ns);
  for (const bool plausible : {false, true}) {
    const uint32_t pattern =
        plausible && !looks.empty() ? PlausiblePattern(*looks[0].expected) : NextNanPattern();
    for (const CudaPreparedProblem::CheckCase& check : prepared_.check_cases()) {
      // Overwrite what the reference has left.
      if (!Must(prepared_.FillOutputs(OutputsOf(Side::kCandidate), cases[check.index], pattern))) {
        return false;
      }
    }
    if (!Must(prepared_.FillWorkspace(programs_.max_workspace_bytes, pattern)) ||
        !RunChecks(/*finite_first=*/!plausible, limit_ns) || !CheckInputs()) {
      return false;
    }
    correctness_cases_ += static_cast<uint32_t>(prepared_.check_cases().size());
    std::vector<TensorComparison> found;
    if (!Verify(looks, Side::kCandidate, pattern, false, found)) {
      return false;
    }
  }
  return CheckGuards();
}

// Each case counts the changed words of its guards.
bool Judgement::CheckGuards() {
  const std::vector<CudaPreparedProblem::CheckCase>& checks = prepared_.check_cases();
  std::vector<uint64_t> counts(checks.size());
  const size_t bytes = counts.size() * sizeof(uint64_t);
  const CudaApi& api = device_.api();
  if (!Must(device_.Check(api.MemsetD8Async(guard_counts_.address(), 0, bytes, device_.stream()),
                          "clearing counters"))) {
    return false;
  }
  for (size_t i = 0; i < checks.size(); ++i) {
    for (const CudaPreparedProblem::Place& place : prepared_.cases()[checks[i].index].outputs) {
      for (const CUdeviceptr guard : prepared_.GuardAddresses(place)) {
        if (!Must(kernels_.CountChanged(guard, CudaPreparedProblem::kGuardBytes / 4,
                                        CudaPreparedProblem::kGuardPattern,
                                        guard_counts_.address() + i * sizeof(uint64_t)))) {
          return false;
        }
      }
    }
  }
  if (!Must(device_.Check(
          api.MemcpyDtoHAsync(counts.data(), guard_counts_.address(), bytes, device_.stream()),
          "reading counters")) ||
      !Must(device_.Synchronize())) {
    return false;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    running_ = checks[i].index;
    return Settle(MakeExploit(Exploit::Kind::kWriteOutOfBounds,
                              "wrote beyond the end or before the start of an output"));
  }
  return true;
}

bool Judgement::RunChecks(bool finite_first, int64_t limit_ns) {
  HostileMemory& hostile = kernels_.hostile();
  std::vector<size_t> indices;
  std::vector<RunRecord> runs;
  for (const CudaPreparedProblem::CheckCase& check : prepared_.check_cases()) {
    const bool finite = (indices.size() % 2 == 0) == finite_first;
    indices.push_back(check.index);
    runs.push_back(HostileMemory::Fill(finite ? HostileMemory::kFinite : HostileMemory::kNan));
    runs.push_back({cuda_runner::kCandidate, static_cast<uint32_t>(check.index)});
  }
  if (!Must(hostile.ResetCount()) || !Must(device_.Synchronize())) {
    return false;
  }
  CudaRunner& runner = *runners_.candidate;
  if (hosted()) {
    // Host code can fail before the device has begun a call, so run the cases one by one.
    for (size_t i = 0; i < indices.size(); ++i) {
      running_ = indices[i];
      const int64_t call_ns = prepared_.CallLimitNs(prepared_.cases()[indices[i]].reference_ns);
      if (!Accept(runner.Run(std::span(runs).subspan(2 * i, 2), call_ns, cancel_), Side::kCandidate,
                  "check", call_ns)) {
        return false;
      }
    }
    return true;
  }
  const CudaRunner::Answer answer = runner.Run(runs, limit_ns, cancel_);
  if (!answer.ok()) {
    // Device code could change the count, but it only affects the name of the case in a message.
    const absl::StatusOr<uint32_t> begun = hostile.Count();
    if (begun.ok() && *begun >= 1 && *begun <= indices.size()) running_ = indices[*begun - 1];
  }
  return Accept(answer, Side::kCandidate, "check", limit_ns);
}

bool Judgement::TimeCalls(size_t shape_index, Side side, size_t calls,
                          std::vector<double>& calls_ns, uint32_t& pattern) {
  const CudaPreparedProblem::BenchShape& shape = prepared_.bench_shapes()[shape_index];
  const CudaPreparedProblem::Programs& programs = ProgramsOf(side);
  std::vector<SampleRecord> samples;
  std::vector<PoisonRecord> poisons;
  running_ = shape.slots.front();
  calls = std::min(calls, shape.slots.size());
  pattern = NextNanPattern();
  uint64_t poisoned_bytes = 0;
  const auto add = [&](size_t program, const std::function<void()>& add_poisons) {
    SampleRecord sample{SlotOf(side), static_cast<uint32_t>(program),
                        static_cast<uint32_t>(poisons.size()), 0};
    add_poisons();
    sample.poisons = static_cast<uint32_t>(poisons.size()) - sample.first_poison;
    samples.push_back(sample);
  };
  std::vector<size_t> order(calls);
  std::iota(order.begin(), order.end(), size_t{0});
  // Fill from this process: a candidate's host code controls what its runner writes.
  for (size_t i = 0; i + 1 < calls; ++i) {
    std::swap(order[i], order[i + plan_random_.Below(calls - i)]);
  }
  if (side == Side::kCandidate && hosted()) {
    // From here: what the runner overwrites is the candidate's word.
    for (const size_t slot : order) {
      if (!Must(prepared_.FillOutputs(OutputsOf(side), prepared_.cases()[shape.slots[slot]],
                                      pattern))) {
        return false;
      }
    }
    if (!Must(device_.Synchronize())) {
      return false;
    }
  } else if (!hosted()) {
    // A program that does nothing goes first, so that the first call finds the device in the same
    // state as the others, on both sides. For a candidate it also overwrites the reference's
    // results.
    add(NothingProgram(), [&] {
      for (const size_t index : shape.slots) {
        if (side == Side::kCandidate)
          prepared_.AddPoisons(OutputsOf(side), index, pattern, poisons);
      }
    });
  }
  const size_t first_call = samples.size();
  for (const size_t slot : order) {
    const size_t index = shape.slots[slot];
    add(index, [&] {
      prepared_.AddPoisons(OutputsOf(side), index, pattern, poisons);
      poisoned_bytes = CudaPreparedProblem::AddWorkspacePoison(programs.workspace_bytes[index],
                                                               pattern, patterns_random_, poisons);
    });
  }
  const int64_t limit_ns =
      prepared_.CallLimitNs(shape.reference_ns) + 50 * shape.reference_ns * std::ssize(samples);
  CudaRunner::Answer answer;
  double explained_us = 0;
  double wall_us = 0;
  bool explained = false;
  // The times of events are in memory that device code might reach and that host code controls.
  // They must be valid and add up to the time on the host. A single mismatch may mean that this
  // process waited for a core; repeated ones mean that the times are forged.
  for (int attempt = 0; attempt < kTimingAttempts && !explained; ++attempt) {
    answer = RunnerOf(side).Time(samples, poisons, true, limit_ns, cancel_, replays_);
    if (!Accept(answer, side, "timing", limit_ns)) {
      return false;
    }
    const std::vector<float>& values_us = answer.values_us;
    explained_us = std::accumulate(values_us.begin(), values_us.end(), 0.0);
    wall_us = 1e-3 * static_cast<double>(hosted() ? answer.wall_ns : answer.reply.wall_ns);
    explained =
        std::all_of(values_us.begin(), values_us.end(), [](float value) { return value >= 0; }) &&
        std::abs(wall_us - explained_us) <= kUnexplainedShare * wall_us + kUnexplainedUs;
  }
  if (side == Side::kCandidate && !explained) {
    return Settle(
        MakeExploit(Exploit::Kind::kBackgroundWork,
                    absl::StrCat("its timed calls took ", std::llround(wall_us),
                                 " us on the host, of which the device's events explain ",
                                 std::isfinite(explained_us) ? std::llround(explained_us) : 0)));
  }
  std::vector<double> between_us;
  for (size_t i = first_call; i < samples.size(); ++i) {
    between_us.push_back(answer.values_us[2 * i]);
  }
  double charged_us = 0;
  if (side == Side::kReference) {
    reference_between_us_ = Median(between_us);
  } else if (reference_between_us_ > 0) {
    // The work between calls is the same for both sides. If it takes much longer for the candidate,
    // the excess is charged to its calls.
    const double expected_us =
        reference_between_us_ + static_cast<double>(poisoned_bytes) / kSlowestFillBytesPerUs;
    const double excess_us = Median(between_us) - expected_us;
    charged_us = excess_us > kBetweenSlackShare * expected_us + kBetweenSlackUs ? excess_us : 0;
  }
  std::vector<double> calls_us;
  for (size_t i = first_call; i < samples.size(); ++i) {
    calls_us.push_back(answer.values_us[2 * i + 1] + charged_us);
  }
  // One call may have done the work of the others, whose outputs are only checked afterwards.
  const double mean_us =
      std::accumulate(calls_us.begin(), calls_us.end(), 0.0) / static_cast<double>(calls_us.size());
  if (mean_us > kUnevenShare * Median(calls_us) + kUnevenUs) {
    std::fill(calls_us.begin(), calls_us.end(), mean_us);
  }
  for (const double call_us : calls_us) {
    const TimedShape& result = replays_ ? graphs_[shape_index] : results_[shape_index];
    calls_ns.push_back(std::max(1.0, 1000 * call_us - result.overhead_ns));
  }
  return side == Side::kReference || CheckInputs();
}

bool Judgement::MeasureOverhead(double& overhead_ns) {
  const SampleRecord nothing{cuda_runner::kReference, static_cast<uint32_t>(NothingProgram()), 0,
                             0};
  const std::vector<SampleRecord> samples(kEmptySamples, nothing);
  const int64_t limit_ns = options_.min_call_limit_ns;
  const CudaRunner::Answer answer =
      runners_.reference->Time(samples, {}, true, limit_ns, cancel_, replays_);
  if (!Accept(answer, Side::kReference, "warm_up", limit_ns)) {
    return false;
  }
  std::vector<double> calls_ns;
  for (size_t i = 0; i < samples.size(); ++i) {
    calls_ns.push_back(1000.0 * answer.values_us[2 * i + 1]);
  }
  overhead_ns = Median(calls_ns);
  return true;
}

bool Judgement::WarmUp(size_t shape_index, double& candidate_ns, double& reference_ns) {
  const size_t slots = prepared_.bench_shapes()[shape_index].slots.size();
  const bool warm = monitor_.IsWarm();
  for (const Side side : {Side::kReference, Side::kCandidate}) {
    std::vector<double> calls_ns;
    const int64_t start_ns = NowNs();
    int64_t spent_ns = 0;
    uint32_t pattern = 0;
    do {
      if (!TimeCalls(shape_index, side, slots, calls_ns, pattern)) {
        return false;
      }
      spent_ns = NowNs() - start_ns;
    } while (!warm &&
             (std::ssize(calls_ns) < options_.warm_up_calls || spent_ns < options_.warm_up_ns));
    (side == Side::kCandidate ? candidate_ns : reference_ns) = Quantile(calls_ns, 0.1);
  }
  // Processes that confirm a screening count their blocks by the first one's clock.
  double& warm_hz = warm_clock_hz_[shape_index];
  if (warm_hz == 0 || level_ == MeasureLevel::kFinal) warm_hz = monitor_.ClockHz();
  clock_hz_ = warm_hz;
  return true;
}

bool Judgement::RunBlock(size_t shape_index, const TimingSession::Block& block,
                         TimingSession::BlockTimes& times) {
  const size_t slots = prepared_.bench_shapes()[shape_index].slots.size();
  const size_t wanted =
      std::min<size_t>(static_cast<size_t>(block.calls), kMaxRequestsInBlock * slots);
  std::vector<double> calls_ns;
  const int64_t start_ns = NowNs();
  uint32_t pattern = 0;
  size_t last = 0;
  while (calls_ns.size() < wanted && times.elapsed_ns < block.max_ns) {
    last = std::min(slots, wanted - calls_ns.size());
    if (!TimeCalls(shape_index, block.side, last, calls_ns, pattern)) {
      return false;
    }
    times.elapsed_ns = std::max<int64_t>(1, NowNs() - start_ns);
  }
  const double hz = monitor_.Look();
  const bool slowed = hz > 0 && hz < kLeastClockShare * clock_hz_;
  (slowed ? times.disturbed_calls_ns : times.calls_ns) = std::move(calls_ns);
  return VerifySlots(shape_index, block.side, last, Bank::kBase, pattern, std::nullopt);
}

std::optional<TimingSession> Judgement::RunSession(size_t shape_index,
                                                   const PrecisionOptions& precision,
                                                   TimedShape& result) {
  double candidate_ns = 0;
  double reference_ns = 0;
  if (!MeasureOverhead(result.overhead_ns) || !WarmUp(shape_index, candidate_ns, reference_ns)) {
    return std::nullopt;
  }
  TimingSession session(options_, precision, candidate_ns, reference_ns);
  for (TimingSession::Block block = session.Next(); !block.finished; block = session.Next()) {
    TimingSession::BlockTimes times;
    if (!RunBlock(shape_index, block, times)) {
      return std::nullopt;
    }
    session.Add(times);
  }
  return session;
}

bool Judgement::RunFreshRounds(size_t shape_index, const TimingSession& session, TimedShape& result,
                               NewValuesFound& found) {
  const bool going = FreshRound(shape_index, Bank::kAltered, session, result, found) &&
                     FreshRound(shape_index, Bank::kOther, session, result, found);
  // Finish copying, so that it does not overlap with the next timing.
  if (status_.ok() &&
      (!Must(prepared_.PutBank(prepared_.bench_shapes()[shape_index], Bank::kBase)) ||
       !Must(device_.Synchronize()) || (hosted() && !NoteInputs()))) {
    return false;
  }
  monitor_.NoteWork();
  return going;
}

bool Judgement::TimeShape(size_t shape_index) {
  TimedShape& result = results_[shape_index];
  const int64_t start_ns = NowNs();
  const bool has_graphs = !graphs_.empty() && no_graphs_[shape_index].empty();
  std::optional<TimingSession> session =
      RunSession(shape_index, has_graphs ? EagerPrecision(precision_) : precision_, result);
  if (!session) {
    return false;
  }
  const int64_t timed_ns = NowNs();
  times_.timing_ns += timed_ns - start_ns;
  NewValuesFound found;
  const bool going = RunFreshRounds(shape_index, *session, result, found);
  // Graphs run no host code that could remember results, and theirs are the figures that count.
  if (has_graphs) found.cached.clear();
  // A kernel's time is its time on new values.
  sessions_[shape_index].push_back(
      {*std::move(session), ChargeFor(found.slowdowns), std::move(found.cached)});
  times_.fresh_ns += NowNs() - timed_ns;
  return going;
}

bool Judgement::CaptureGraphs(size_t shape_index) {
  const CudaPreparedProblem::BenchShape& shape = prepared_.bench_shapes()[shape_index];
  std::vector<RunRecord> runs;
  for (const Side side : {Side::kReference, Side::kCandidate}) {
    runs.clear();
    for (const size_t slot : shape.slots) {
      runs.push_back({SlotOf(side), static_cast<uint32_t>(slot)});
    }
    const int64_t limit_ns = options_.max_call_limit_ns;
    const CudaRunner::Answer answer = RunnerOf(side).Run(runs, limit_ns, cancel_, /*replay=*/true);
    if (answer.end == End::kFailed && answer.reply.failure == cuda_runner::Failure::kEntry) {
      no_graphs_[shape_index] =
          absl::StrCat("a call of the ", side == Side::kReference ? "reference" : "candidate",
                       " cannot be captured");
      return false;
    }
    if (!Accept(answer, side, "graph", limit_ns)) return false;
  }
  return true;
}

bool Judgement::TimeGraphs(size_t shape_index) {
  std::string& why = no_graphs_[shape_index];
  if (!why.empty()) return true;
  const int64_t start_ns = NowNs();
  TimedShape& result = graphs_[shape_index];
  NewValuesFound found;
  bool going = false;
  replays_ = true;
  const std::optional<TimingSession> session =
      CaptureGraphs(shape_index) ? RunSession(shape_index, precision_, result) : std::nullopt;
  if (session) {
    going = RunFreshRounds(shape_index, *session, result, found);
    if (going && !found.cached.empty()) {
      why = absl::StrCat("its graphs: ", found.cached);
      going = false;
    }
  }
  replays_ = false;
  times_.timing_ns += NowNs() - start_ns;
  if (going) {
    result.Add(*session, ChargeFor(found.slowdowns));
    return true;
  }
  if (why.empty() && outcome_) {
    why = absl::StrCat("its graphs: ", std::string(OutcomeName(*outcome_)));
  }
  if (why.empty()) why = std::string(status_.message());
  outcome_.reset();
  status_ = cancel_.Check();
  if (!status_.ok()) return false;
  if (!runners_.alive()) {
    // The calls themselves are timed in other processes.
    auto renewed = renew_();
    if (!renewed.ok()) return Fail(renewed.status());
    runners_ = *renewed;
    return LoadCandidate();
  }
  // It may have ended with other values in place.
  return Must(prepared_.PutBank(prepared_.bench_shapes()[shape_index], Bank::kBase)) &&
         Must(device_.Synchronize()) && NoteInputs();
}

MeasureOutcome Judgement::ConcludeTask() {
  MeasureOptions eager_options = options_;
  eager_options.spread = SpreadOptions::Cpu();
  RunnerSpread eager_spread(eager_options.spread);
  const std::string& problem_id = prepared_.problem().problem_id;
  MeasureOutcome eager =
      Conclude(results_, eager_options, problem_id, correctness_cases_, eager_spread);
  const auto lacking = std::find_if(no_graphs_.begin(), no_graphs_.end(),
                                    [](const std::string& why) { return !why.empty(); });
  const auto* const eager_ok = std::get_if<MeasuredOk>(&eager);
  MeasureOutcome outcome = eager;
  if (lacking == no_graphs_.end()) {
    MeasureOptions options = options_;
    for (const TimedShape& shape : graphs_) {
      options.spread.runner_deviation =
          std::max(options.spread.runner_deviation,
                   kGraphDeviation + kGraphDeviationNs / Median(shape.reference_ns));
    }
    RunnerSpread spread(options.spread);
    outcome = Conclude(graphs_, options, problem_id, correctness_cases_, spread);
  }
  if (auto* const ok = std::get_if<MeasuredOk>(&outcome); ok != nullptr && eager_ok != nullptr) {
    for (size_t i = 0; i < ok->shapes.size(); ++i) {
      const ShapeTiming& shape = eager_ok->shapes[i];
      ok->shapes[i].eager = {shape.candidate, shape.reference, shape.speedup,
                             lacking == no_graphs_.end() ? "" : *lacking};
    }
  }
  return outcome;
}

// Times new values at the addresses of the timed calls. The cache is equally cold, so a kernel that
// does not cache results takes as long as before.
bool Judgement::FreshRound(size_t shape_index, Bank bank, const TimingSession& session,
                           TimedShape& result, NewValuesFound& found) {
  const CudaPreparedProblem::BenchShape& shape = prepared_.bench_shapes()[shape_index];
  const size_t slots = shape.slots.size();
  if (!Must(prepared_.PutBank(shape, bank)) || !Must(device_.Synchronize()) ||
      (hosted() && !NoteInputs())) {
    return false;
  }
  std::vector<double> candidate_ns;
  std::vector<double> reference_ns;
  uint32_t pattern = 0;
  if (!TimeCalls(shape_index, Side::kCandidate, slots, candidate_ns, pattern) ||
      !VerifySlots(shape_index, Side::kCandidate, slots, bank, pattern, Bank::kBase) ||
      !TimeCalls(shape_index, Side::kReference, slots, reference_ns, pattern)) {
    return false;
  }
  if (bank == Bank::kOther) {
    result.candidate_cold_ns.insert(result.candidate_cold_ns.end(), candidate_ns.begin(),
                                    candidate_ns.end());
    result.reference_cold_ns.insert(result.reference_cold_ns.end(), reference_ns.begin(),
                                    reference_ns.end());
  }
  const double factor = bank == Bank::kAltered ? options_.altered_slowdown : options_.new_slowdown;
  Rounds known(kRoundDeviation);
  known.Add({session.call_ns(Side::kCandidate), session.call_ns(Side::kReference)});
  Rounds fresh(kRoundDeviation);
  fresh.Add({Mean(candidate_ns), Mean(reference_ns)});
  found.slowdowns.push_back(SlowdownOf(known, fresh));
  const std::vector<double> timed_ns = session.CallTimes(Side::kCandidate);
  if (found.cached.empty() &&
      LooksCached(timed_ns, candidate_ns, session.CallTimes(Side::kReference), reference_ns,
                  factor)) {
    found.cached = absl::StrCat(
        "calls on inputs seen before take ", std::llround(Median(timed_ns) / 1000),
        " us, calls on ",
        bank == Bank::kAltered ? "the same inputs with a few values replaced " : "new ones ",
        std::llround(Median(candidate_ns) / 1000), " us");
  }
  return true;
}

bool Judgement::VerifySlots(size_t shape_index, Side side, size_t slots, Bank bank, uint32_t poison,
                            std::optional<Bank> stale) {
  const CudaPreparedProblem::BenchShape& shape = prepared_.bench_shapes()[shape_index];
  std::vector<Looked> looks;
  std::vector<Looked> stale_looks;
  slots = std::min(slots, shape.slots.size());
  size_t first = 0;
  if (side == Side::kReference && slots > 0) {
    // The reference can only be wrong if a candidate has damaged it, which would last. One slot
    // suffices.
    first = plan_random_.Below(slots);
    slots = first + 1;
  }
  for (size_t slot = first; slot < slots; ++slot) {
    const std::vector<CudaExpected>& expected = shape.sets[slot][bank].expected;
    for (size_t i = 0; i < expected.size(); ++i) {
      looks.push_back({shape.slots[slot], i, &expected[i]});
      if (stale) {
        stale_looks.push_back({shape.slots[slot], i, &shape.sets[slot][*stale].expected[i]});
      }
    }
  }
  std::vector<TensorComparison> found;
  if (Verify(looks, side, poison, true, found)) {
    return true;
  }
  // Wrong for the new values but right for the previous ones: the output was cached.
  if (stale && status_.ok() && outcome_) {
    const MeasureOutcome wrong = *std::move(outcome_);
    outcome_.reset();
    if (Verify(stale_looks, side, poison, true, found)) {
      return Settle(MakeExploit(Exploit::Kind::kCachedOutput,
                                "after the inputs had changed, outputs were those of the inputs "
                                "before"));
    }
    outcome_ = wrong;
  }
  return false;
}

}  // namespace

absl::StatusOr<MeasureOutcome> JudgeCuda(CudaPreparedProblem& prepared,
                                         const CudaProgram& candidate, MeasureLevel level,
                                         CudaDevice& device, JudgeKernels& kernels,
                                         CudaRunners runners, const RenewRunners& renew,
                                         DeviceMonitor& monitor, RunnerSpread& spread,
                                         const CancelToken& cancel, CudaJudgeTimes& times,
                                         const Clock& clock) {
  return Judgement(prepared, candidate, level, device, kernels, runners, renew, monitor, spread,
                   cancel, times, clock)
      .Run();
}

}  // namespace kernelcast::worker
