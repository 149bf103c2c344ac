#include "services/worker/cpu/runner_calls.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "services/worker/core/problem_faults.h"
#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

using End = RunnerProcess::End;

// Empty calls in a row.
constexpr int kEmptyCalls = 9;
// The overhead is this quantile of the bursts. A low one, because subtracting too much from a time
// is worse than subtracting too little.
constexpr double kOverheadQuantile = 0.25;
constexpr int64_t kNopLimitNs = 5'000'000'000;
constexpr int64_t kSharedCoreWaitNs = 100'000;
// The processor time that a runner may use while it has nothing to do.
constexpr int64_t kIdleRunNs = 100'000;
constexpr int64_t kSleepLimitNs = 2'000'000'000;
// In how many of the times between calls the process may be awake: this number, or this share of
// all, whichever is more.
constexpr int kAwakeTimes = 2;
constexpr double kAwakeShare = 0.1;

}  // namespace

bool RunnerCalls::Start(const Program& program) {
  candidate_.reset();  // two candidates never share their output memory
  auto started = prepared_.StartCandidate(program);
  if (!started.ok()) {
    return Fail(started.status());
  }
  candidate_ = *std::move(started);
  const End end = candidate_->WaitReady(prepared_.start_limit_ns(), cancel_);
  if (end == End::kDone) {
    return true;
  }
  if (end == End::kStopped) {
    return Fail(cancel_.Check());
  }
  set_running(std::nullopt);
  auto outcome = candidate_->Failure(end, "load", prepared_.start_limit_ns());
  return outcome.ok() ? Settle(*std::move(outcome)) : Fail(outcome.status());
}

bool RunnerCalls::Call(Side side, runner::Command command, size_t index, bool linger,
                       int64_t limit_ns, const std::string& stage, RunnerProcess::Result& result) {
  if (side == Side::kCandidate && budget_.exceeded()) {
    return Settle(budget_.Exceeded());
  }
  RunnerProcess& process = Process(side);
  result = process.Call(command, static_cast<uint32_t>(index), linger, limit_ns, cancel_);
  if (side == Side::kCandidate) budget_.Spend(result.ns);
  if (result.end == End::kDone) {
    return true;
  }
  if (result.end == End::kStopped) {
    return Fail(cancel_.Check());
  }
  auto outcome = process.Failure(result.end, stage, limit_ns);
  if (side == Side::kReference) {
    if (!outcome.ok()) return Fail(outcome.status());
    return Fail(ReferenceFailed(OutcomeFeedback(*std::move(outcome))));
  }
  if (outcome.ok()) {
    if (auto* const crash = std::get_if<Crash>(&*outcome)) crash->stage = stage;
  }
  return outcome.ok() ? Settle(*std::move(outcome)) : Fail(outcome.status());
}

bool RunnerCalls::Wake(Side side) {
  judge_waited_ns_ = own_waits_.WaitedNs();
  RunnerProcess::Result result;
  return Call(side, runner::kNop, 0, true, kNopLimitNs, "timing", result);
}

bool RunnerCalls::TimeEmptyCalls(Side side, bool linger, const std::string& stage) {
  std::vector<double> times;
  int64_t before_ns = 0;
  for (int i = 0; i < kEmptyCalls; ++i) {
    RunnerProcess::Result result;
    if (!Call(side, runner::kNop, 0, linger || i + 1 < kEmptyCalls, kNopLimitNs, stage, result)) {
      return false;
    }
    const int64_t end_ns = result.start_ns + result.ns;
    if (i > 0) {
      times.push_back(static_cast<double>(end_ns - before_ns));
    }
    before_ns = end_ns;
  }
  std::vector<double>& bursts = empty_ns_[Index(side)];
  bursts.push_back(Median(times));
  overhead_ns_[Index(side)] = Quantile(bursts, kOverheadQuantile);
  return true;
}

double RunnerCalls::Overhead(Side side) const {
  const double reference_ns = overhead_ns_[Index(Side::kReference)];
  return side == Side::kReference ? reference_ns
                                  : std::min(overhead_ns_[Index(side)], reference_ns);
}

RunnerCalls::Waited RunnerCalls::WaitedNow(Side side) {
  const int64_t its_ns = Process(side).wait_meter().WaitedNs();
  const int64_t own_ns = own_waits_.WaitedNs();
  const int64_t its_wait_ns = its_ns - std::exchange(waited_ns_[Index(side)], its_ns);
  const int64_t own_wait_ns = own_ns - std::exchange(own_waited_ns_, own_ns);
  const int64_t most_ns = std::max(its_wait_ns, own_wait_ns);
  const int64_t usual_ns = prepared_.placement().alone() ? kSharedCoreWaitNs : 0;
  if (most_ns <= usual_ns) {
    return {.its_ns = its_wait_ns};
  }
  return {most_ns, its_wait_ns + own_wait_ns, its_wait_ns};
}

bool RunnerCalls::EntrySucceeded(const RunnerProcess::Result& result) {
  if (result.status == 0) {
    return true;
  }
  WrongResult wrong;
  wrong.cause = WrongResult::Cause::kEntryStatus;
  wrong.entry_status = result.status;
  return Settle(wrong);
}

void RunnerCalls::Plant(const BenchShape& shape, Side side, std::span<const size_t> slots,
                        Bank bank) {
  sentinels_.resize(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const std::vector<ExpectedTensor>& expected =
        prepared_.set(shape.slots[slots[i]], bank).expected;
    sentinels_[i].resize(expected.size());
    for (size_t output = 0; output < expected.size(); ++output) {
      sentinels_[i][output].Plant(expected[output], options_.sentinels, sentinels_random_,
                                  prepared_.Output(OwnerOf(side), shape.slots[slots[i]], output));
    }
  }
}

bool RunnerCalls::RunBurst(const BenchShape& shape, Side side, std::span<const size_t> slots,
                           bool linger, Burst& burst) {
  const int64_t limit_ns = prepared_.options().CallLimitNs(shape.reference_ns);
  burst.calls_ns.clear();
  WaitedNow(side);
  int64_t before_ns = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    RunnerProcess::Result result;
    if (!Call(side, runner::kRun, shape.slots[slots[i]], linger || i + 1 < slots.size(), limit_ns,
              "timing", result)) {
      return false;
    }
    const int64_t end_ns = result.start_ns + result.ns;
    const int64_t from_ns = i == 0 ? result.start_ns : before_ns;
    burst.calls_ns.push_back(std::max(1.0, static_cast<double>(end_ns - from_ns) - Overhead(side)));
    before_ns = end_ns;
    if (side == Side::kCandidate && !EntrySucceeded(result)) {
      return false;
    }
  }
  const Waited waited = WaitedNow(side);
  burst.waited_ns = waited.most_ns;
  burst.waited_sum_ns = waited.sum_ns;
  burst.its_wait_ns = waited.its_ns;
  return true;
}

bool RunnerCalls::RunMeteredBurst(const BenchShape& shape, Side side, std::span<const size_t> slots,
                                  Burst& burst) {
  burst = Burst();
  double quickest_ns = 0;  // of the calls that did not wait
  std::vector<double> least_ns;
  for (const size_t& slot : slots) {
    Burst call;
    if (!RunBurst(shape, side, {&slot, 1}, &slot != &slots.back(), call)) {
      return false;
    }
    const double ns = call.calls_ns[0];
    burst.calls_ns.push_back(ns);
    burst.waited_ns += call.waited_ns;
    burst.waited_sum_ns += call.waited_sum_ns;
    burst.its_wait_ns += call.its_wait_ns;
    burst.most_ns += std::max(1.0, ns - static_cast<double>(call.waited_ns));
    least_ns.push_back(ns - static_cast<double>(call.waited_sum_ns));
    if (!call.disturbed()) {
      quickest_ns = quickest_ns == 0 ? ns : std::min(quickest_ns, ns);
    }
  }
  for (const double ns : least_ns) burst.least_ns += std::max({1.0, quickest_ns, ns});
  burst.least_ns = std::min(burst.least_ns, burst.most_ns) / static_cast<double>(slots.size());
  burst.most_ns /= static_cast<double>(slots.size());
  burst.judge_wait_ns = own_waits_.WaitedNs() - judge_waited_ns_;
  return true;
}

bool RunnerCalls::LookAtPlanted(const BenchShape& shape, std::span<const size_t> slots, Bank bank,
                                std::optional<Bank> stale) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const PreparedProblem::Set& set = prepared_.set(shape.slots[slots[i]], bank);
    for (size_t output = 0; output < set.expected.size(); ++output) {
      const Sentinels& sentinels = sentinels_[i][output];
      const Sentinels::Check look = sentinels.Look(
          set.expected[output],
          prepared_.Output(PreparedProblem::Owner::kCandidate, shape.slots[slots[i]], output));
      // A planted integer may be a right result where several results are right.
      const bool may_be_right = prepared_.has_checker() && !set.expected[output].is_float();
      if (look.untouched > 0 && !may_be_right) {
        return Settle(MakeExploit(
            Exploit::Kind::kSkippedWork,
            absl::StrCat("in a timed call ", look.untouched, " of ", sentinels.planted(),
                         " values planted in output ", prepared_.OutputName(output, shape.axes),
                         " were still there when the call returned")));
      }
      if (look.wrong > 0) {
        // Wrong as a whole, or right by now.
        if (!VerifySlot(shape, slots[i], bank, stale)) {
          return false;
        }
        if (MayDiffer(set.expected[output])) continue;
        return Settle(MakeExploit(Exploit::Kind::kBackgroundWork,
                                  absl::StrCat("output ", prepared_.OutputName(output, shape.axes),
                                               " was still being written after a timed call had "
                                               "returned")));
      }
    }
  }
  return true;
}

OutputRules::Output RunnerCalls::OutputOf(size_t index, size_t output,
                                          const ExpectedTensor& expected) const {
  const CaseSpec& spec = prepared_.cases()[index].spec;
  return {.axes = spec.axes,
          .distribution = spec.distribution(),
          .index = output,
          .draw = index,
          .name = prepared_.OutputName(output, spec.axes),
          .dtype = expected.layout().dtype,
          .tolerance = expected.tolerance(),
          .noise = expected.noise(),
          .elements = static_cast<uint64_t>(expected.elements())};
}

bool RunnerCalls::VerifySlot(const BenchShape& shape, size_t slot, Bank bank,
                             std::optional<Bank> stale) {
  const size_t index = shape.slots[slot];
  const PreparedProblem::Set& set = prepared_.set(index, bank);
  if (!prepared_.GuardsHold(index)) {
    return Settle(MakeExploit(Exploit::Kind::kWriteOutOfBounds,
                              "wrote beyond the end or before the start of an output"));
  }
  std::optional<std::string> refusal;
  if (!AskChecker(index, refusal)) {
    return false;
  }
  const bool by_checker = prepared_.has_checker() && !refusal;
  for (size_t i = 0; i < set.expected.size(); ++i) {
    const std::span<const std::byte> bytes =
        prepared_.Output(PreparedProblem::Owner::kCandidate, index, i);
    const ExpectedTensor& expected = set.expected[i];
    if (by_checker && !expected.is_float()) continue;
    const TensorVerdict verdict = CompareTensor(expected, bytes, std::nullopt);
    const OutputRules::Output output = OutputOf(index, i, expected);
    const bool last = i + 1 == set.expected.size();
    std::optional<WrongResult> wrong =
        rules_.Judge(output, verdict,
                     {.by_checker = prepared_.has_checker(),
                      .refusal = verdict.ok && !last ? std::nullopt : refusal,
                      .timed = true});
    if (!wrong) continue;
    if (stale && rules_.Fits(output, CompareTensor(prepared_.set(index, *stale).expected[i], bytes,
                                                   std::nullopt))) {
      return Settle(MakeExploit(Exploit::Kind::kCachedOutput,
                                absl::StrCat("after the inputs had changed, output ", output.name,
                                             " was that of the inputs before")));
    }
    return Settle(*std::move(wrong));
  }
  return true;
}

bool RunnerCalls::AskChecker(size_t index, std::optional<std::string>& refusal) {
  if (!prepared_.has_checker()) {
    return true;
  }
  auto reason = prepared_.AskChecker(PreparedProblem::Owner::kCandidate, index, cancel_);
  if (!reason.ok()) {
    return Fail(reason.status());
  }
  refusal = *std::move(reason);
  return true;
}

bool RunnerCalls::AwaitSleep(Side side) {
  const int64_t ran_before_ns = Process(side).RanNs();
  if (Process(side).AwaitSleep(kSleepLimitNs)) {
    return true;
  }
  if (side == Side::kReference) {
    return Fail(absl::UnavailableError("the reference's process did not go to sleep"));
  }
  if (Process(side).RanNs() - ran_before_ns < kSleepLimitNs / 4) {
    EnvironmentUnstable unstable;
    unstable.reason = "the candidate's process got no core to go to sleep on";
    return Settle(std::move(unstable));
  }
  return Settle(MakeExploit(Exploit::Kind::kBackgroundWork,
                            "its process did not rest when it had nothing to do"));
}

bool RunnerCalls::EndRound(Side side, RoundOverhead& overhead, Burst& burst) {
  if (!AwaitSleep(side)) {
    return false;
  }
  const auto ran_ns =
      static_cast<double>(Process(side).RanNs() - ran_before_round_ns_[Index(side)]);
  // Where the two share a core, the candidate itself could be what the judge waits for.
  const double judge_wait_ns =
      prepared_.placement().alone() ? 0 : static_cast<double>(burst.judge_wait_ns);
  const auto calls = static_cast<double>(burst.calls_ns.size());
  if (side == Side::kReference) {
    // The clock of a process that is awake is up to a tick late. The time of the reference's calls
    // can be trusted instead.
    const double work_ns = calls * Mean(burst.calls_ns) - static_cast<double>(burst.its_wait_ns);
    overhead.AddReference(std::clamp(ran_ns - work_ns, 0.0, ran_ns), judge_wait_ns);
    return true;
  }
  // The candidate's cannot: it may work outside its calls.
  const double each_ns = overhead.WorkNs(ran_ns, judge_wait_ns) / calls;
  const double missing_ns = std::max(0.0, each_ns - Mean(burst.calls_ns));
  for (double& call_ns : burst.calls_ns) call_ns += missing_ns;
  burst.least_ns = std::max(burst.least_ns, each_ns);
  burst.most_ns = std::max(burst.most_ns, each_ns);
  return true;
}

bool RunnerCalls::MarkIdle() {
  if (ran_when_idle_ns_) {
    return true;
  }
  if (!AwaitSleep(Side::kCandidate)) {
    return false;
  }
  ran_when_idle_ns_ = candidate_->RanNs();
  ++idle_times_;
  return true;
}

bool RunnerCalls::Rested() {
  if (!ran_when_idle_ns_) {
    return true;
  }
  const int64_t ran_ns = candidate_->RanNs() - *std::exchange(ran_when_idle_ns_, std::nullopt);
  if (ran_ns <= kIdleRunNs) {
    return true;
  }
  ran_unasked_ns_ = ran_ns;
  return false;
}

bool RunnerCalls::WasIdle() {
  if (Rested()) {
    return true;
  }
  ++awake_times_;
  return awake_times_ <= kAwakeTimes || awake_times_ <= kAwakeShare * idle_times_ || JudgeAwake();
}

bool RunnerCalls::JudgeAwake() {
  return Settle(MakeExploit(Exploit::Kind::kBackgroundWork,
                            absl::StrCat("its process used ", ran_unasked_ns_ / 1000,
                                         " us of processor time between calls")));
}

}  // namespace kernelcast::worker
