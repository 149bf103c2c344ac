#include "services/worker/cpu/judge.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/id.h"
#include "common/base/status.h"
#include "services/worker/core/statistics.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/core/verdict.h"
#include "services/worker/core/verification.h"

namespace kernelcast::worker {
namespace {

using Owner = PreparedProblem::Owner;
using End = RunnerProcess::End;

// Empty calls in a row, and bursts of them over a side's warm-up.
constexpr int kEmptyCalls = 9;
constexpr int kWarmUpBursts = 8;
// Where among the bursts the overhead lies: a time from which too much is taken away is worse than
// one that is a little too long.
constexpr double kOverheadQuantile = 0.25;
// Of calls on new values: too few undisturbed ones tell nothing, and more rounds are run.
constexpr size_t kFewestNewTimes = 3;
constexpr int kConfirmRounds = 6;
constexpr int kTouchRounds = 2;
constexpr int64_t kSharedCoreWaitNs = 100'000;
// Processor time that a runner may use while it has nothing to do. A tick is 10 ms at most.
constexpr int64_t kIdleRunNs = 100'000;
constexpr int64_t kTickNs = 12'000'000;
constexpr int64_t kSleepLimitNs = 2'000'000'000;
constexpr int64_t kNopLimitNs = 5'000'000'000;

int64_t NowNs() { return Clock::Real().MonotonicNs(); }

class Judgement {
 public:
  Judgement(PreparedProblem& prepared, const LoadableObject& candidate, MeasureLevel level,
            const CancelToken& cancel, JudgeTimes& times)
      : prepared_(prepared),
        object_(candidate),
        options_(prepared.options()),
        precision_(options_.Precision(level)),
        level_(level),
        cancel_(cancel),
        times_(times),
        random_(SecretSeed()) {}

  absl::StatusOr<MeasureOutcome> Run();

 private:
  // Calls on values seen for the first time.
  struct NewTimes {
    std::vector<double> candidate_ns;
    std::vector<double> reference_ns;
  };

  // Each step returns true to go on; false when `outcome_` or `status_` says how it ended.
  bool StartRunner();
  bool CheckCorrectness();
  bool CheckCase(PreparedProblem::CheckCase& check, PoisonKind poison);
  bool TimeShape(PreparedProblem::BenchShape& shape, TimedShape& result);
  bool TimeEmptyCalls(Side side, bool linger, const std::string& stage);
  bool WarmUp(const PreparedProblem::BenchShape& shape, double& candidate_ns, double& reference_ns);
  bool RunBlock(const PreparedProblem::BenchShape& shape, const TimingSession::Block& block,
                TimingSession::BlockTimes& times);
  bool WaitedNow(Side side);
  bool MarkIdle();
  bool WasIdle(bool marked_at_rest);
  bool NewValuesRound(const PreparedProblem::BenchShape& shape, PreparedProblem::NewValues values,
                      TimedShape& result);
  bool CallSlots(const PreparedProblem::BenchShape& shape, Side side, std::vector<double>* times);
  bool TimeNewValues(const PreparedProblem::BenchShape& shape,
                     const std::function<absl::Status()>& put, NewTimes& times);
  static size_t FewestNewTimes(const PreparedProblem::BenchShape& shape);
  bool LooksRemembered(PreparedProblem::NewValues values, const TimedShape& result,
                       const NewTimes& times) const;
  bool ConfirmCached(const PreparedProblem::BenchShape& shape, PreparedProblem::NewValues values,
                     const TimedShape& result);
  bool TimeQuickestRound(const PreparedProblem::BenchShape& shape,
                         const std::function<absl::Status()>& put, NewTimes& quickest);
  bool EntrySucceeded(const PreparedProblem::BenchShape& shape,
                      const RunnerProcess::Result& result);

  bool Call(Side side, runner::Command command, uint32_t index, bool linger, int64_t limit_ns,
            const std::string& stage, RunnerProcess::Result& result);
  bool VerifySlot(const PreparedProblem::BenchShape& shape, size_t slot,
                  const PreparedProblem::Set& set, const PreparedProblem::Set* stale);

  bool Settle(MeasureOutcome outcome) {
    outcome_ = std::move(outcome);
    return false;
  }
  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  RunnerProcess& Process(Side side) {
    return side == Side::kCandidate ? *candidate_ : prepared_.reference();
  }
  static size_t Index(Side side) { return side == Side::kCandidate ? 0 : 1; }
  // What a call of it takes without the kernel. The candidate's process could be slow on purpose
  // when it has nothing to run, so that it is never more than the reference's.
  double Overhead(Side side) const {
    const double reference_ns = overhead_ns_[Index(Side::kReference)];
    return side == Side::kReference ? reference_ns
                                    : std::min(overhead_ns_[Index(side)], reference_ns);
  }
  double AllowedSlowdown(PreparedProblem::NewValues values) const {
    return values == PreparedProblem::NewValues::kAltered ? options_.altered_slowdown
                                                          : options_.new_slowdown;
  }

  PreparedProblem& prepared_;
  const LoadableObject& object_;
  const MeasureOptions& options_;
  const PrecisionOptions& precision_;
  const MeasureLevel level_;
  const CancelToken& cancel_;
  JudgeTimes& times_;
  Random random_;

  std::unique_ptr<RunnerProcess> candidate_;
  std::vector<double> empty_ns_[2];  // a shape's bursts of empty calls: the median of each
  double overhead_ns_[2] = {0, 0};
  std::vector<TimedShape> results_;
  uint32_t correctness_cases_ = 0;
  std::optional<MeasureOutcome> outcome_;
  absl::Status status_;
  size_t rotation_[2] = {0, 0};
  const WaitMeter own_waits_ = WaitMeter::OfThisThread();
  std::optional<int64_t> ran_when_idle_ns_;
  int restless_times_ = 0;
  int64_t waited_ns_[2] = {0, 0};
};

absl::StatusOr<MeasureOutcome> Judgement::Run() {
  for (const PreparedProblem::BenchShape& shape : prepared_.bench_shapes()) {
    results_.push_back({.axes = shape.axes, .bytes = shape.bytes, .flops = shape.flops});
  }
  bool going = true;
  for (int round = 0; round < precision_.runners && going; ++round) {
    if (level_ == MeasureLevel::kFinal) {
      // A pair of fresh processes on fresh memory: addresses and placement differ from pair to
      // pair, and the interval is to span that.
      candidate_.reset();
      KC_RETURN_IF_ERROR(prepared_.RenewProcesses(cancel_));
    }
    const int64_t start_ns = NowNs();
    going = StartRunner();
    const int64_t ready_ns = NowNs();
    times_.start_ns += ready_ns - start_ns;
    if (going && round == 0) {
      going = CheckCorrectness();
      times_.check_ns += NowNs() - ready_ns;
    }
    for (size_t i = 0; i < results_.size() && going; ++i) {
      going = TimeShape(prepared_.bench_shapes()[i], results_[i]);
    }
  }
  candidate_.reset();
  KC_RETURN_IF_ERROR(status_);
  if (outcome_) {
    return *std::move(outcome_);
  }
  return Conclude(results_, options_, level_, correctness_cases_);
}

bool Judgement::StartRunner() {
  candidate_.reset();  // two candidates never share their output memory
  auto started = prepared_.StartCandidate(object_);
  if (!started.ok()) {
    return Fail(started.status());
  }
  candidate_ = *std::move(started);
  const End end = candidate_->WaitReady(options_.load_limit_ns, cancel_);
  if (end == End::kDone) {
    return true;
  }
  if (end == End::kStopped) {
    return Fail(cancel_.Check());
  }
  auto outcome = candidate_->Failure(end, "load", options_.load_limit_ns);
  return outcome.ok() ? Settle(*std::move(outcome)) : Fail(outcome.status());
}

bool Judgement::Call(Side side, runner::Command command, uint32_t index, bool linger,
                     int64_t limit_ns, const std::string& stage, RunnerProcess::Result& result) {
  RunnerProcess& process = Process(side);
  result = process.Call(command, index, linger, limit_ns, cancel_);
  if (result.end == End::kDone) {
    return true;
  }
  if (result.end == End::kStopped) {
    return Fail(cancel_.Check());
  }
  auto outcome = process.Failure(result.end, stage, limit_ns);
  if (side == Side::kReference) {
    return Fail(
        absl::UnavailableError("the reference's process ended while a candidate was timed"));
  }
  return outcome.ok() ? Settle(*std::move(outcome)) : Fail(outcome.status());
}

bool Judgement::CheckCorrectness() {
  bool first = true;
  for (PreparedProblem::CheckCase& check : prepared_.check_cases()) {
    const bool odd = (correctness_cases_ & 1) != 0;
    if (!CheckCase(check, odd ? PoisonKind::kPlausible : PoisonKind::kNonFinite)) {
      return false;
    }
    // The same call on other poison: what was not written differs.
    if (first && !CheckCase(check, PoisonKind::kPlausible)) {
      return false;
    }
    first = false;
  }
  return true;
}

bool Judgement::CheckCase(PreparedProblem::CheckCase& check, PoisonKind kind) {
  const Problem& problem = prepared_.problem();
  ++correctness_cases_;
  std::vector<Poison> poisons;
  for (size_t i = 0; i < problem.outputs.size(); ++i) {
    poisons.push_back({kind, random_.Next()});
    FillPoison(kind, poisons.back().seed, check.expected[i],
               prepared_.Output(Owner::kCandidate, check.index, i));
  }
  prepared_.ResetGuards(check.index);

  RunnerProcess::Result result;
  if (!Call(Side::kCandidate, runner::kRun, check.index, true,
            prepared_.CallLimitNs(check.reference_ns), "check", result)) {
    return false;
  }
  if (!prepared_.GuardsHold(check.index)) {
    return Settle(MakeExploit(Exploit::Kind::kWriteOutOfBounds,
                              "wrote beyond the end or before the start of an output"));
  }
  WrongResult wrong;
  wrong.shape = check.spec.axes;
  wrong.distribution = check.spec.distribution();
  if (result.status != 0) {
    wrong.cause = WrongResult::Cause::kEntryStatus;
    wrong.entry_status = result.status;
    return Settle(wrong);
  }
  for (size_t i = 0; i < problem.outputs.size(); ++i) {
    const TensorVerdict verdict = CompareTensor(
        check.expected[i], prepared_.Output(Owner::kCandidate, check.index, i), poisons[i]);
    if (!verdict.ok) {
      wrong.cause = verdict.cause;
      wrong.output = problem.outputs[i].name;
      wrong.mismatches = verdict.mismatches;
      wrong.elements = static_cast<uint64_t>(check.expected[i].elements());
      wrong.index = verdict.index;
      wrong.got = verdict.got;
      wrong.expected = verdict.expected;
      RoundForReport(wrong.got, wrong.expected);
      wrong.normwise_error = RoundForReport(verdict.normwise_error);
      return Settle(wrong);
    }
  }
  return true;
}

// What an empty call takes changes while a shape is timed, above all where the machine's cores are
// another's as well: asked in each block, it is known of the same minutes as the calls.
bool Judgement::TimeEmptyCalls(Side side, bool linger, const std::string& stage) {
  std::vector<double> times;
  for (int i = 0; i < kEmptyCalls; ++i) {
    RunnerProcess::Result result;
    if (!Call(side, runner::kNop, 0, linger || i + 1 < kEmptyCalls, kNopLimitNs, stage, result)) {
      return false;
    }
    times.push_back(static_cast<double>(result.ns));
  }
  std::vector<double>& bursts = empty_ns_[Index(side)];
  bursts.push_back(Median(times));
  overhead_ns_[Index(side)] = Quantile(bursts, kOverheadQuantile);
  return true;
}

bool Judgement::WarmUp(const PreparedProblem::BenchShape& shape, double& candidate_ns,
                       double& reference_ns) {
  for (const Side side : {Side::kReference, Side::kCandidate}) {
    std::vector<double> times;
    int64_t spent_ns = 0;
    int64_t burst_at_ns = 0;
    empty_ns_[Index(side)].clear();
    const int64_t limit_ns = prepared_.CallLimitNs(shape.reference_ns);
    for (int i = 0; i < options_.warm_up_calls || spent_ns < options_.warm_up_ns; ++i) {
      RunnerProcess::Result result;
      const uint32_t slot = shape.slots[static_cast<size_t>(i) % shape.slots.size()];
      if (!Call(side, runner::kRun, slot, true, limit_ns, "warm_up", result)) {
        return false;
      }
      if (side == Side::kCandidate && !EntrySucceeded(shape, result)) {
        return false;
      }
      times.push_back(static_cast<double>(result.ns));
      spent_ns += result.ns;
      if (spent_ns >= burst_at_ns) {
        if (!TimeEmptyCalls(side, true, "warm_up")) {
          return false;
        }
        burst_at_ns = spent_ns + options_.warm_up_ns / kWarmUpBursts;
      }
      // A slow kernel is warm after fewer calls.
      if (spent_ns > 10 * options_.warm_up_ns && i >= 2) {
        break;
      }
    }
    if (!TimeEmptyCalls(side, false, "warm_up")) {
      return false;
    }
    // What an undisturbed call takes.
    (side == Side::kCandidate ? candidate_ns : reference_ns) = Quantile(times, 0.1);
  }
  return true;
}

// Whether the side's process or this thread has waited for a core since the last question. Where
// the two share one they wait for each other at the ends of each call.
bool Judgement::WaitedNow(Side side) {
  const int64_t waited_ns = Process(side).wait_meter().WaitedNs() + own_waits_.WaitedNs();
  const int64_t before_ns = std::exchange(waited_ns_[Index(side)], waited_ns);
  return waited_ns - before_ns > (prepared_.placement().alone() ? kSharedCoreWaitNs : 0);
}

// The candidate's process has nothing to do from now on until its next call.
bool Judgement::MarkIdle() {
  if (ran_when_idle_ns_) {
    return true;
  }
  if (!candidate_->AwaitSleep(kSleepLimitNs)) {
    return Settle(MakeExploit(Exploit::Kind::kBackgroundWork,
                              "its process did not rest when it had nothing to do"));
  }
  ran_when_idle_ns_ = candidate_->RanNs();
  return true;
}

// Whether it has rested since. `marked_at_rest`: it surely slept when that was asked for. Else,
// where the machine's host has taken the core from it as it went to sleep, its work before that is
// told late, as work since. That is forgiven once: what works beside the reference does so each
// time.
bool Judgement::WasIdle(bool marked_at_rest) {
  if (!ran_when_idle_ns_) {
    return true;
  }
  const int64_t ran_ns = candidate_->RanNs() - *std::exchange(ran_when_idle_ns_, std::nullopt);
  if (ran_ns <= kIdleRunNs || (!marked_at_rest && ++restless_times_ == 1)) {
    return true;
  }
  return Settle(MakeExploit(
      Exploit::Kind::kBackgroundWork,
      absl::StrCat("its process used ", ran_ns / 1000, " us of processor time between calls")));
}

bool Judgement::RunBlock(const PreparedProblem::BenchShape& shape,
                         const TimingSession::Block& block, TimingSession::BlockTimes& times) {
  const Problem& problem = prepared_.problem();
  const Side side = block.side;
  const Owner owner = side == Side::kCandidate ? Owner::kCandidate : Owner::kReference;
  const int64_t limit_ns = prepared_.CallLimitNs(shape.reference_ns);
  size_t& rotation = rotation_[Index(side)];
  std::vector<Sentinels> sentinels(problem.outputs.size());

  RunnerProcess::Result result;
  const bool candidate_idle =
      side == Side::kReference ? MarkIdle() : WasIdle(/*marked_at_rest=*/false);
  if (!candidate_idle || !TimeEmptyCalls(side, true, "timing")) {
    return false;
  }
  const int64_t start_ns = NowNs();
  const auto goes_on = [&] {
    times.elapsed_ns = std::max<int64_t>(1, NowNs() - start_ns);
    return std::ssize(times.calls_ns) < block.calls &&
           times.elapsed_ns < (times.calls_ns.empty() ? block.give_up_ns : block.max_ns);
  };
  WaitedNow(side);
  const size_t first = rotation;
  while (goes_on()) {
    const size_t slot = rotation++ % shape.slots.size();
    const uint32_t index = shape.slots[slot];
    const PreparedProblem::Set& set = shape.current()[slot];
    for (size_t output = 0; output < sentinels.size(); ++output) {
      sentinels[output].Plant(set.expected[output], options_.sentinels, random_,
                              prepared_.Output(owner, index, output));
    }
    const bool linger = std::ssize(times.calls_ns) + 1 < block.calls;
    if (!Call(side, runner::kRun, index, linger, limit_ns, "timing", result)) {
      return false;
    }
    (WaitedNow(side) ? times.disturbed_calls_ns : times.calls_ns)
        .push_back(std::max(1.0, static_cast<double>(result.ns) - Overhead(side)));
    if (side == Side::kReference) {
      continue;
    }
    if (!EntrySucceeded(shape, result)) {
      return false;
    }
    for (size_t output = 0; output < sentinels.size(); ++output) {
      const Sentinels::Check look =
          sentinels[output].Look(set.expected[output], prepared_.Output(owner, index, output));
      if (look.wrong == 0) {
        continue;
      }
      if (look.untouched > 0) {
        return Settle(MakeExploit(
            Exploit::Kind::kSkippedWork,
            absl::StrCat("in a timed call ", look.untouched, " of ", sentinels[output].planted(),
                         " values planted in output ", problem.outputs[output].name,
                         " were still there when the call returned")));
      }
      // Wrong as a whole, or right by now.
      return VerifySlot(shape, slot, set, nullptr) &&
             Settle(MakeExploit(Exploit::Kind::kBackgroundWork,
                                absl::StrCat("output ", problem.outputs[output].name,
                                             " was still being written after a timed call had "
                                             "returned")));
    }
  }
  if (side == Side::kCandidate) {
    // One of the calls of this block, in full.
    const size_t ran = std::min<size_t>(rotation - first, shape.slots.size());
    const size_t slot = (rotation - 1 - random_.Below(ran)) % shape.slots.size();
    return VerifySlot(shape, slot, shape.current()[slot], nullptr);
  }
  return true;
}

bool Judgement::EntrySucceeded(const PreparedProblem::BenchShape& shape,
                               const RunnerProcess::Result& result) {
  if (result.status == 0) {
    return true;
  }
  WrongResult wrong;
  wrong.cause = WrongResult::Cause::kEntryStatus;
  wrong.shape = shape.axes;
  wrong.distribution = "declared";
  wrong.entry_status = result.status;
  return Settle(wrong);
}

// Compares all of a slot's outputs with what the current inputs call for. `stale`: the slot's
// former contents; outputs that fit those were remembered.
bool Judgement::VerifySlot(const PreparedProblem::BenchShape& shape, size_t slot,
                           const PreparedProblem::Set& set, const PreparedProblem::Set* stale) {
  const Problem& problem = prepared_.problem();
  const uint32_t index = shape.slots[slot];
  if (!prepared_.GuardsHold(index)) {
    return Settle(MakeExploit(Exploit::Kind::kWriteOutOfBounds,
                              "wrote beyond the end or before the start of an output"));
  }
  for (size_t i = 0; i < problem.outputs.size(); ++i) {
    const std::span<const std::byte> output = prepared_.Output(Owner::kCandidate, index, i);
    const ExpectedTensor& expected = set.expected[i];
    const TensorVerdict verdict = CompareTensor(expected, output, std::nullopt);
    if (verdict.ok) {
      continue;
    }
    if (stale != nullptr && CompareTensor(stale->expected[i], output, std::nullopt).ok) {
      return Settle(
          MakeExploit(Exploit::Kind::kCachedOutput,
                      absl::StrCat("after the inputs had changed, output ", problem.outputs[i].name,
                                   " was that of the inputs before")));
    }
    WrongResult wrong;
    wrong.cause = WrongResult::Cause::kTimedOutput;
    wrong.shape = shape.axes;
    wrong.distribution = "declared";
    wrong.output = problem.outputs[i].name;
    wrong.mismatches = verdict.mismatches;
    wrong.elements = static_cast<uint64_t>(expected.elements());
    wrong.index = verdict.index;
    wrong.got = verdict.got;
    wrong.expected = verdict.expected;
    RoundForReport(wrong.got, wrong.expected);
    wrong.normwise_error = RoundForReport(verdict.normwise_error);
    return Settle(wrong);
  }
  return true;
}

bool Judgement::TimeShape(PreparedProblem::BenchShape& shape, TimedShape& result) {
  const int64_t start_ns = NowNs();
  double candidate_ns = 0;
  double reference_ns = 0;
  if (!WarmUp(shape, candidate_ns, reference_ns)) {
    return false;
  }

  ran_when_idle_ns_.reset();
  TimingSession session(options_, precision_, candidate_ns, reference_ns);
  for (TimingSession::Block block = session.Next(); !block.finished; block = session.Next()) {
    TimingSession::BlockTimes times;
    if (!RunBlock(shape, block, times)) {
      return false;
    }
    session.Add(times);
  }
  result.Add(session);
  result.overhead_ns = Overhead(Side::kCandidate);
  const int64_t timed_ns = NowNs();
  times_.timing_ns += timed_ns - start_ns;

  const bool going = NewValuesRound(shape, PreparedProblem::NewValues::kAltered, result) &&
                     NewValuesRound(shape, PreparedProblem::NewValues::kOther, result);
  prepared_.Swap(shape);
  times_.fresh_ns += NowNs() - timed_ns;
  return going;
}

// One call on each slot. Disturbed calls give no time.
bool Judgement::CallSlots(const PreparedProblem::BenchShape& shape, Side side,
                          std::vector<double>* times) {
  const int64_t limit_ns = prepared_.CallLimitNs(shape.reference_ns);
  WaitedNow(side);
  for (const uint32_t slot : shape.slots) {
    const bool linger = slot != shape.slots.back();
    RunnerProcess::Result result;
    if (!Call(side, runner::kRun, slot, linger, limit_ns, "timing", result) ||
        (side == Side::kCandidate && !EntrySucceeded(shape, result))) {
      return false;
    }
    if (!WaitedNow(side) && times != nullptr) {
      times->push_back(std::max(1.0, static_cast<double>(result.ns) - Overhead(side)));
    }
  }
  return true;
}

// Times both sides on values that they have not seen, with the memory in the core's caches as it is
// in repeated calls: outputs because each side has just written them, inputs because the
// reference's process, on the same core, reads them. The candidate's process does not run between
// the appearance of the new values and its calls on them.
bool Judgement::TimeNewValues(const PreparedProblem::BenchShape& shape,
                              const std::function<absl::Status()>& put, NewTimes& times) {
  ran_when_idle_ns_.reset();
  if (!CallSlots(shape, Side::kCandidate, nullptr) ||
      !CallSlots(shape, Side::kReference, nullptr)) {
    return false;
  }
  if (!MarkIdle()) {
    return false;
  }
  cancel_.SleepFor(kTickNs);
  ran_when_idle_ns_ = candidate_->RanNs();
  if (absl::Status status = put(); !status.ok()) {
    return Fail(std::move(status));
  }
  cancel_.SleepFor(kTickNs);
  for (int round = 0; round < kTouchRounds; ++round) {
    for (const uint32_t slot : shape.slots) {
      RunnerProcess::Result result;
      if (!Call(Side::kReference, runner::kTouch, slot, slot != shape.slots.back(), kNopLimitNs,
                "timing", result)) {
        return false;
      }
    }
  }
  return WasIdle(/*marked_at_rest=*/true) &&
         CallSlots(shape, Side::kCandidate, &times.candidate_ns) &&
         CallSlots(shape, Side::kReference, &times.reference_ns);
}

// New values at the addresses of those that the timed calls were on, verified in full. A kernel
// that remembered is wrong on them, or slower.
bool Judgement::NewValuesRound(const PreparedProblem::BenchShape& shape,
                               PreparedProblem::NewValues values, TimedShape& result) {
  const std::vector<PreparedProblem::Set>* sets = nullptr;
  NewTimes times;
  const auto put = [&] {
    sets = &prepared_.Put(shape, values);
    return absl::OkStatus();
  };
  if (!TimeNewValues(shape, put, times)) {
    return false;
  }
  for (size_t slot = 0; slot < shape.slots.size(); ++slot) {
    if (!VerifySlot(shape, slot, (*sets)[slot], &shape.current()[slot])) {
      return false;
    }
  }
  if (values == PreparedProblem::NewValues::kOther) {
    result.candidate_cold_ns.insert(result.candidate_cold_ns.end(), times.candidate_ns.begin(),
                                    times.candidate_ns.end());
    result.reference_cold_ns.insert(result.reference_cold_ns.end(), times.reference_ns.begin(),
                                    times.reference_ns.end());
  }
  const bool unknown = times.candidate_ns.size() < FewestNewTimes(shape);
  return (!unknown && !LooksRemembered(values, result, times)) ||
         ConfirmCached(shape, values, result);
}

size_t Judgement::FewestNewTimes(const PreparedProblem::BenchShape& shape) {
  return std::min<size_t>(shape.slots.size(), kFewestNewTimes);
}

bool Judgement::LooksRemembered(PreparedProblem::NewValues values, const TimedShape& result,
                                const NewTimes& times) const {
  return LooksCached(result.candidate_ns, times.candidate_ns, result.reference_ns,
                     times.reference_ns, AllowedSlowdown(values));
}

// A slow round may be due to memory that was just written by someone else: it counts against what
// calls take after the same has happened with values that are known. These must not be much slower
// than the timed calls were, or a kernel could pass by being slow after every pause. A machine
// whose host takes its cores away slows whole rounds, of either kind: only the quickest of several
// count. A kernel that remembered is slow on all new values, or on all that are known.
bool Judgement::ConfirmCached(const PreparedProblem::BenchShape& shape,
                              PreparedProblem::NewValues values, const TimedShape& result) {
  const double factor = AllowedSlowdown(values);
  const double timed_ns = Median(result.candidate_ns);
  const double cold_ns =
      1e9 * static_cast<double>(shape.set_bytes) / options_.cold_bytes_per_second;
  prepared_.Restore(shape);
  NewTimes known;
  NewTimes unseen;
  std::string evidence;
  for (int round = 0; round < kConfirmRounds; ++round) {
    if (!TimeQuickestRound(
            shape, [&] { return prepared_.Restore(shape), absl::OkStatus(); }, known) ||
        !TimeQuickestRound(
            shape, [&] { return prepared_.PutUnseen(shape, values); }, unseen)) {
      return false;
    }
    if (known.candidate_ns.empty() || known.reference_ns.empty() || unseen.candidate_ns.empty() ||
        unseen.reference_ns.empty()) {
      continue;
    }
    const double known_ns = Median(known.candidate_ns);
    if (known_ns > factor * timed_ns + cold_ns) {
      evidence = absl::StrCat("timed calls take ", std::llround(timed_ns / 1000),
                              " us, calls after the same inputs were written anew ",
                              std::llround(known_ns / 1000), " us, more than cold memory explains");
    } else if (LooksCached(known.candidate_ns, unseen.candidate_ns, known.reference_ns,
                           unseen.reference_ns, factor)) {
      evidence = absl::StrCat("calls on inputs seen before take ", std::llround(known_ns / 1000),
                              " us, calls on ",
                              values == PreparedProblem::NewValues::kAltered
                                  ? "the same inputs with a few values replaced "
                                  : "new ones ",
                              std::llround(Median(unseen.candidate_ns) / 1000), " us");
    } else {
      return true;
    }
  }
  return evidence.empty() || Settle(MakeExploit(Exploit::Kind::kCachedOutput, std::move(evidence)));
}

// Times one more round, of which each side keeps what is quicker than what it had.
bool Judgement::TimeQuickestRound(const PreparedProblem::BenchShape& shape,
                                  const std::function<absl::Status()>& put, NewTimes& quickest) {
  NewTimes times;
  if (!TimeNewValues(shape, put, times)) {
    return false;
  }
  const auto keep = [&](std::vector<double>& best, std::vector<double>& now) {
    if (now.size() >= FewestNewTimes(shape) && (best.empty() || Mean(now) < Mean(best))) {
      best = std::move(now);
    }
  };
  keep(quickest.candidate_ns, times.candidate_ns);
  keep(quickest.reference_ns, times.reference_ns);
  return true;
}

}  // namespace

absl::StatusOr<MeasureOutcome> Judge(PreparedProblem& prepared, const LoadableObject& candidate,
                                     MeasureLevel level, const CancelToken& cancel,
                                     JudgeTimes& times) {
  return Judgement(prepared, candidate, level, cancel, times).Run();
}

}  // namespace kernelcast::worker
