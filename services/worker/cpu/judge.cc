#include "services/worker/cpu/judge.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/secret_random.h"
#include "common/base/status.h"
#include "services/worker/core/judgement_budget.h"
#include "services/worker/core/new_values.h"
#include "services/worker/core/roofline.h"
#include "services/worker/core/statistics.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/core/verdict.h"
#include "services/worker/core/verification.h"
#include "services/worker/cpu/cpu_rounds.h"
#include "services/worker/cpu/runner_calls.h"

namespace kernelcast::worker {
namespace {

using Owner = PreparedProblem::Owner;

// Longer bursts are disturbed more often.
constexpr double kBurstNs = 500'000;
// Bursts of empty calls per side during warm-up.
constexpr int kWarmUpBursts = 8;
// A candidate that may be slower on new values is called on them in as many processes as a final
// figure has.
constexpr int kProcessesToCharge = 5;
// With more doubt, as a logarithm, a candidate has no valid measurement: it could remember results.
const double kMostDoubt = std::log(2);
// The conditions of a round alone may cause a charge of up to this, as a logarithm: the process has
// slept, and other programs have used its caches. Short calls of a candidate equal to the reference
// were charged up to 1.4 on a busy machine. The interval then also covers the time without it.
const double kOwnCharge = std::log(1.5);

class CpuJudge final : public JudgeSequence {
 public:
  CpuJudge(PreparedProblem& prepared, const Program& candidate, MeasureSpec spec,
           RunnerSpread& spread, const CancelToken& cancel, JudgeTimes& times)
      : JudgeSequence({.prepared = prepared,
                       .target = kCpuTargetName,
                       .spec = spec,
                       .spread = spread,
                       .times = times,
                       .check = {NewValuesCheck::KindsOf(prepared.problem(), prepared.options(),
                                                         /*draws_altered=*/false),
                                 kAsQuickLog},
                       .processes_to_charge = kProcessesToCharge}),
        prepared_(prepared),
        program_(candidate),
        behind_({spec.StopBelow(prepared.bench_shapes().size()),
                 spread.Of(prepared.problem().problem_id)}),
        cancel_(cancel),
        times_(times),
        budget_(prepared.BudgetOf(spec.level)),
        calls_(prepared, budget_, cancel) {
    for (const PreparedProblem::BenchShape& shape : prepared_.bench_shapes()) {
      rounds_.emplace_back(prepared_, shape, calls_, runner_core_, plan_random_, cancel_);
    }
  }

 private:
  JudgementEnd& end() override { return calls_; }
  bool Start(int process) override;
  bool CheckCases() override;
  bool CheckLargest(uint64_t& outputs) override;
  bool TimeShape(size_t shape_index) override;
  bool CheckAgain(size_t shape_index) override;
  bool AddSessions(size_t shape_index) override;
  bool Suspects(size_t shape_index) const override;
  void End() override { calls_.Stop(); }
  const OutputRules& rules() const override { return calls_.rules(); }
  const Tolerance& FirstTolerance() const override {
    return prepared_.set(prepared_.check_cases().front().index, CasePlan::kBase)
        .expected.front()
        .tolerance();
  }
  uint32_t checked_cases() const override { return correctness_cases_; }

  bool CheckCase(size_t index, PoisonKind poison);
  // `call_ns`: the time of an undisturbed call.
  bool WarmUp(const PreparedProblem::BenchShape& shape, Side side, double& call_ns);
  // `call_ns`: approximate time of one call.
  bool RunBlock(const PreparedProblem::BenchShape& shape, const TimingSession::Block& block,
                double call_ns, TimingSession::BlockTimes& times);
  bool RunBursts(const PreparedProblem::BenchShape& shape, const TimingSession::Block& block,
                 double call_ns, TimingSession::BlockTimes& times);
  bool ShareWorkEvenly();

  // A timed call that was not disturbed.
  struct SlotTime {
    size_t slot;
    double ns;
  };
  using SlotTimes = std::vector<SlotTime>;
  static std::vector<RelativeTimes> BySlot(const std::vector<SlotTimes>& blocks, size_t slots);

  static size_t Index(Side side) { return side == Side::kCandidate ? 0 : 1; }

  PreparedProblem& prepared_;
  const Program& program_;
  const BehindRule behind_;
  const CancelToken& cancel_;
  JudgeTimes& times_;
  // Choice of what is called and verified, and contents of memory that candidates can see. Separate
  // streams, so that the second reveals nothing about the first.
  SecretRandom plan_random_{"plan"};
  SecretRandom poison_random_{"poison"};
  JudgementBudget budget_;
  RunnerCalls calls_;
  RunnerCore runner_core_{prepared_.placement()};
  std::vector<CpuRounds> rounds_;  // by shape
  uint32_t correctness_cases_ = 0;
  std::vector<SlotTimes> slot_times_[2];  // of the shape being timed, by side and block
};

bool CpuJudge::Start(int) {
  if (spec_.level == MeasureLevel::kFinal) {
    calls_.Stop();
    if (!calls_.Must(prepared_.RenewProcesses(cancel_))) return false;
  }
  return calls_.Start(program_);
}

bool CpuJudge::CheckCases() {
  bool first = true;
  for (const PreparedProblem::CheckCase& check : prepared_.check_cases()) {
    const bool odd = (correctness_cases_ & 1) != 0;
    if (!CheckCase(check.index, odd ? PoisonKind::kPlausible : PoisonKind::kNonFinite)) {
      return false;
    }
    // Repeat the call on other poison: elements that were not written differ.
    if (first && !CheckCase(check.index, PoisonKind::kPlausible)) {
      return false;
    }
    first = false;
  }
  return true;
}

bool CpuJudge::CheckCase(size_t index, PoisonKind kind) {
  ++correctness_cases_;
  const PreparedProblem::Case& at = prepared_.cases()[index];
  const std::vector<ExpectedTensor>& expected = prepared_.set(index, CasePlan::kBase).expected;
  std::vector<Poison> poisons;
  for (size_t i = 0; i < expected.size(); ++i) {
    poisons.push_back({kind, poison_random_.Next()});
    FillPoison(kind, poisons.back().seed, expected[i],
               prepared_.Output(Owner::kCandidate, index, i));
  }
  prepared_.ResetGuards(index);
  calls_.set_running(index);

  // Uninitialised memory is NaN when the outputs hold finite poison, and finite otherwise: a
  // maximum hides NaN, a sum shows it.
  const runner::Command command =
      kind == PoisonKind::kPlausible ? runner::kRunOnNan : runner::kRunOnFinite;
  RunnerProcess::Result result;
  if (!calls_.Call(Side::kCandidate, command, index, true, options_.CallLimitNs(at.reference_ns),
                   "check", result)) {
    return false;
  }
  if (!prepared_.GuardsHold(index)) {
    return calls_.Settle(MakeExploit(Exploit::Kind::kWriteOutOfBounds,
                                     "wrote beyond the end or before the start of an output"));
  }
  if (!calls_.EntrySucceeded(result)) {
    return false;
  }
  std::optional<std::string> refusal;
  if (!calls_.AskChecker(index, refusal)) {
    return false;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const TensorVerdict verdict =
        CompareTensor(expected[i], prepared_.Output(Owner::kCandidate, index, i), poisons[i]);
    const bool last = i + 1 == expected.size();
    std::optional<WrongResult> wrong =
        calls_.rules().Judge(calls_.OutputOf(index, i, expected[i]), verdict,
                             {.by_checker = prepared_.has_checker(),
                              .refusal = verdict.ok && !last ? std::nullopt : refusal});
    if (wrong) return calls_.Settle(*std::move(wrong));
  }
  return true;
}

bool CpuJudge::CheckLargest(uint64_t& outputs) {
  const size_t index = prepared_.plan().LargestCheck().index;
  if (!CheckCase(index, PoisonKind::kPlausible)) return false;
  for (size_t i = 0; i < prepared_.cases()[index].outputs.size(); ++i) {
    const std::span<std::byte> output = prepared_.Output(Owner::kCandidate, index, i);
    outputs = 31 * outputs + std::hash<std::string_view>()(std::string_view(
                                 reinterpret_cast<const char*>(output.data()), output.size()));
  }
  return true;
}

bool CpuJudge::WarmUp(const PreparedProblem::BenchShape& shape, Side side, double& call_ns) {
  std::vector<double> times;
  double spent_ns = 0;
  double burst_at_ns = 0;
  calls_.ForgetEmptyCalls(side);
  for (int i = 0; i < options_.warm_up_calls || spent_ns < static_cast<double>(options_.warm_up_ns);
       ++i) {
    const size_t slot = static_cast<size_t>(i) % shape.slots.size();
    RunnerCalls::Burst call;
    if (!calls_.RunBurst(shape, side, {&slot, 1}, true, call)) {
      return false;
    }
    times.push_back(call.calls_ns[0]);
    spent_ns += call.calls_ns[0];
    if (spent_ns >= burst_at_ns) {
      if (!calls_.TimeEmptyCalls(side, true, "warm_up")) {
        return false;
      }
      burst_at_ns = spent_ns + static_cast<double>(options_.warm_up_ns / kWarmUpBursts);
    }
    // A slow kernel is warm after fewer calls.
    if (spent_ns > 10 * static_cast<double>(options_.warm_up_ns) && i >= 2) {
      break;
    }
  }
  call_ns = Quantile(times, 0.1);
  return calls_.TimeEmptyCalls(side, false, "warm_up");
}

bool CpuJudge::RunBlock(const PreparedProblem::BenchShape& shape, const TimingSession::Block& block,
                        double call_ns, TimingSession::BlockTimes& times) {
  const bool candidate_idle = block.side == Side::kReference ? calls_.MarkIdle() : calls_.WasIdle();
  return candidate_idle && calls_.TimeEmptyCalls(block.side, true, "timing") &&
         RunBursts(shape, block, call_ns, times);
}

bool CpuJudge::RunBursts(const PreparedProblem::BenchShape& shape,
                         const TimingSession::Block& block, double call_ns,
                         TimingSession::BlockTimes& times) {
  const Side side = block.side;
  const int64_t start_ns = NowNs();
  SlotTimes& slot_times = slot_times_[Index(side)].emplace_back();
  const auto most = static_cast<size_t>(std::max(1.0, kBurstNs / std::max(1.0, call_ns)));
  std::vector<size_t> slots;
  bool verified = side == Side::kReference;
  for (;;) {
    times.elapsed_ns = std::max<int64_t>(1, NowNs() - start_ns);
    const int64_t wanted = block.calls - std::ssize(times.calls_ns);
    if (wanted <= 0 ||
        times.elapsed_ns >= (times.calls_ns.empty() ? block.give_up_ns : block.max_ns)) {
      break;
    }
    slots = plan_random_.Order(shape.slots.size());
    slots.resize(std::min({slots.size(), static_cast<size_t>(wanted), most}));
    calls_.Plant(shape, side, slots, CasePlan::kBase);
    const bool last = std::ssize(slots) == wanted;
    RunnerCalls::Burst burst;
    if (!calls_.RunBurst(shape, side, slots, !last, burst) ||
        (side == Side::kCandidate &&
         !calls_.LookAtPlanted(shape, slots, CasePlan::kBase, std::nullopt))) {
      return false;
    }
    std::vector<double>& to = burst.disturbed() ? times.disturbed_calls_ns : times.calls_ns;
    to.insert(to.end(), burst.calls_ns.begin(), burst.calls_ns.end());
    for (size_t i = 0; i < slots.size() && !burst.disturbed(); ++i) {
      slot_times.push_back({slots[i], burst.calls_ns[i]});
    }
    // Verify one of the block's calls in full, before anything else is called.
    if (!verified && !last &&
        plan_random_.Below(static_cast<uint64_t>(block.calls)) < slots.size()) {
      const size_t slot = slots[plan_random_.Below(slots.size())];
      verified = true;
      if (!calls_.VerifySlot(shape, slot, CasePlan::kBase, std::nullopt) || !calls_.Wake(side)) {
        return false;
      }
    }
  }
  if (verified) {
    return true;
  }
  const size_t slot = slots[plan_random_.Below(slots.size())];
  return calls_.VerifySlot(shape, slot, CasePlan::kBase, std::nullopt);
}

std::vector<RelativeTimes> CpuJudge::BySlot(const std::vector<SlotTimes>& blocks, size_t slots) {
  std::vector<std::vector<double>> of_slot(slots);
  for (const SlotTimes& block : blocks) {
    for (const SlotTime& call : block) of_slot[call.slot].push_back(call.ns);
  }
  std::vector<double> medians;
  for (const std::vector<double>& times : of_slot) {
    medians.push_back(times.empty() ? 1 : std::max(1.0, Median(times)));
  }
  std::vector<RelativeTimes> relative;
  for (const SlotTimes& block : blocks) {
    RelativeTimes& times = relative.emplace_back();
    for (const SlotTime& call : block) times.push_back(call.ns / medians[call.slot]);
  }
  return relative;
}

// The mean already charges a call that does the work of others; doing so is also reported as an
// exploit.
bool CpuJudge::ShareWorkEvenly() {
  size_t slots = 0;
  for (const std::vector<SlotTimes>& blocks : slot_times_) {
    for (const SlotTimes& block : blocks) {
      for (const SlotTime& call : block) slots = std::max(slots, call.slot + 1);
    }
  }
  return !DoOthersWork(BySlot(slot_times_[Index(Side::kCandidate)], slots),
                       BySlot(slot_times_[Index(Side::kReference)], slots)) ||
         calls_.Settle(MakeExploit(Exploit::Kind::kSkippedWork,
                                   "some timed calls on the same inputs did the work of others: "
                                   "their mean is far above their median"));
}

bool CpuJudge::TimeShape(size_t shape_index) {
  const PreparedProblem::BenchShape& shape = prepared_.bench_shapes()[shape_index];
  TimedShape& result = results_[shape_index];
  calls_.set_running(shape.slots.front());
  const int64_t start_ns = NowNs();
  double candidate_ns = 0;
  double reference_ns = 0;
  if (!WarmUp(shape, Side::kReference, reference_ns) ||
      !WarmUp(shape, Side::kCandidate, candidate_ns)) {
    return false;
  }

  calls_.ForgetIdle();
  for (std::vector<SlotTimes>& blocks : slot_times_) blocks.clear();
  TimingSession session(options_, precision_, candidate_ns, reference_ns, behind_);
  if (!session.Run([&](const TimingSession::Block& block, auto& times) {
        return RunBlock(shape, block, session.call_ns(block.side), times);
      })) {
    return false;
  }
  const int64_t timed_ns = NowNs();
  times_.timing_ns += timed_ns - start_ns;

  result.overhead_ns = calls_.Overhead(Side::kCandidate);
  rounds_[shape_index].NoteSession(session);
  checks_[shape_index].AddSession(std::move(session));
  const bool going = checks_[shape_index].Run(rounds_[shape_index], result) && ShareWorkEvenly();
  times_.fresh_ns += NowNs() - timed_ns;
  return going;
}

bool CpuJudge::Suspects(size_t shape_index) const {
  const NewValuesCheck& check = checks_[shape_index];
  return rounds_[shape_index].brief() ? !check.complete() : check.Suspects();
}

bool CpuJudge::CheckAgain(size_t shape_index) {
  if (!Suspects(shape_index)) return true;
  const PreparedProblem::BenchShape& shape = prepared_.bench_shapes()[shape_index];
  calls_.set_running(shape.slots.front());
  const int64_t start_ns = NowNs();
  double call_ns = 0;
  // It must know the values in place by now.
  const bool going = WarmUp(shape, Side::kCandidate, call_ns) &&
                     checks_[shape_index].Run(rounds_[shape_index], results_[shape_index]);
  times_.fresh_ns += NowNs() - start_ns;
  return going;
}

bool CpuJudge::AddSessions(size_t shape_index) {
  const NewValuesCheck& check = checks_[shape_index];
  calls_.set_running(prepared_.bench_shapes()[shape_index].slots.front());
  if (std::optional<Exploit> refusal = check.Refusal()) return calls_.Settle(*std::move(refusal));
  if (!check.complete()) return calls_.JudgeAwake();
  const double doubt = check.Doubt();
  if (doubt > kMostDoubt && !rounds_[shape_index].brief()) {
    EnvironmentUnstable unstable;
    unstable.reason =
        "other processes held up too many calls to rule out that the candidate reuses results of "
        "earlier calls";
    return calls_.Settle(std::move(unstable));
  }
  check.AddTo(results_[shape_index], doubt + std::min(std::log(check.Charge()), kOwnCharge));
  return true;
}

}  // namespace

absl::StatusOr<MeasureOutcome> Judge(PreparedProblem& prepared, const Program& candidate,
                                     MeasureSpec spec, RunnerSpread& spread,
                                     const CancelToken& cancel, JudgeTimes& times) {
  return CpuJudge(prepared, candidate, spec, spread, cancel, times).Run();
}

}  // namespace kernelcast::worker
