#include "services/worker/cpu/new_values_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

// Rounds continue while the candidate looks slower than in timed calls. Charging it takes
// kChargedRounds, and refusing it takes kMostRounds.
constexpr int kChargedRounds = 8;
constexpr int kMostRounds = 16;
// The later rounds pause for longer, because the machine may be in a slow phase.
constexpr int kQuickRounds = 6;
constexpr int64_t kQuickPauseNs = 1'000'000;
constexpr int64_t kLongPauseNs = 12'000'000;
// A candidate whose process does not sleep between its calls is refused after this many rounds. It
// runs on in each of them.
constexpr int kMostAwakeRounds = 3;
constexpr int kTouches = 2;
// A burst takes about this long where there are enough slots. All its outputs are verified, so
// longer bursts would cost more than they show.
constexpr double kCheckBurstNs = 1'500'000;
constexpr size_t kFewestSlots = 3;
// A candidate that is slower than the reference by this factor does not get all rounds if they do
// not fit its budget.
constexpr double kSlowFactor = 2;
// With more doubt, as a logarithm, a candidate has no valid measurement: it could remember results.
const double kMostDoubt = std::log(2);
// The conditions of a round alone may cause a charge of up to this, as a logarithm: the process has
// slept, and other programs have used its caches. Short calls of a candidate equal to the reference
// were charged up to 1.4 on a busy machine. The interval then also covers the time without it.
const double kOwnCharge = std::log(1.5);
// The share of an output's elements that may differ from the reference. A right candidate differs
// where both are within the oracle's tolerance, or where it breaks a tie differently.
constexpr double kUnsureShare = 0.01;

Tolerance Doubled(Tolerance tolerance) {
  tolerance.atol *= 2;
  tolerance.rtol *= 2;
  tolerance.normwise *= 2;
  return tolerance;
}

// The expected outputs for inputs on which only the reference was called, with room for those of
// another correct kernel.
PreparedProblem::Set AsReference(const PreparedProblem& prepared, size_t index) {
  const PreparedProblem::Set& alike = prepared.set(index, CasePlan::kBase);
  PreparedProblem::Set set;
  for (size_t output = 0; output < alike.expected.size(); ++output) {
    const ExpectedTensor& kind = alike.expected[output];
    const std::span<const std::byte> got =
        prepared.Output(PreparedProblem::Owner::kReference, index, output);
    if (!kind.is_float()) {
      set.expected.emplace_back(kind.layout(), Doubled(kind.tolerance()), got, kind.noise());
      continue;
    }
    const std::vector<double> values = Elements(kind.layout().dtype, got);
    set.expected.emplace_back(kind.layout(), Doubled(kind.tolerance()),
                              std::as_bytes(std::span(values)), kind.noise());
  }
  return set;
}

EnvironmentUnstable Unstable(std::string reason) {
  EnvironmentUnstable unstable;
  unstable.reason = std::move(reason);
  return unstable;
}

}  // namespace

size_t NewValuesCheck::SlotsOfRound(const PreparedProblem::BenchShape& shape) const {
  if (brief_) return 1;
  const double calls = kCheckBurstNs / std::max(1.0, static_cast<double>(shape.reference_ns));
  return std::min(shape.slots.size(), std::max(kFewestSlots, static_cast<size_t>(calls)));
}

std::vector<size_t> NewValuesCheck::SecretSlots(const PreparedProblem::BenchShape& shape) {
  std::vector<size_t> slots = plan_random_.Order(shape.slots.size());
  slots.resize(SlotsOfRound(shape));
  return slots;
}

bool NewValuesCheck::CallCandidate(const PreparedProblem::BenchShape& shape,
                                   std::span<const size_t> slots) {
  const int64_t limit_ns = prepared_.options().CallLimitNs(shape.reference_ns);
  for (size_t i = 0; i < slots.size(); ++i) {
    RunnerProcess::Result result;
    if (!calls_.Call(Side::kCandidate, runner::kRun, shape.slots[slots[i]],
                     /*linger=*/i + 1 < slots.size(), limit_ns, "timing", result)) {
      return false;
    }
  }
  return true;
}

void NewValuesCheck::Touch(const PreparedProblem::BenchShape& shape, std::span<const size_t> slots,
                           Side side) {
  const PreparedProblem::Owner owner = side == Side::kCandidate
                                           ? PreparedProblem::Owner::kCandidate
                                           : PreparedProblem::Owner::kReference;
  runner_core_.Run([&] {
    for (int i = 0; i < kTouches; ++i) {
      for (const size_t slot : slots) prepared_.Touch(owner, shape.slots[slot]);
    }
  });
}

void NewValuesCheck::Pause() {
  const int64_t least_ns = rounds_ < kQuickRounds ? kQuickPauseNs : kLongPauseNs;
  cancel_.SleepFor(least_ns + static_cast<int64_t>(plan_random_.Below(least_ns)));
}

bool NewValuesCheck::TimeReference(const PreparedProblem::BenchShape& shape,
                                   std::span<const size_t> slots, RunnerCalls::Burst& burst) {
  calls_.Plant(shape, Side::kReference, slots, prepared_.sets(shape, CasePlan::kBase));
  Touch(shape, slots, Side::kReference);
  calls_.MarkRound(Side::kReference);
  return calls_.Wake(Side::kReference) &&
         calls_.RunMeteredBurst(shape, Side::kReference, slots, burst) &&
         calls_.EndRound(Side::kReference, overhead_, burst);
}

void NewValuesCheck::Bursts::AddTo(Rounds& rounds) const {
  rounds.Add({candidate.least_ns, std::min(reference.least_ns, reference_after.least_ns)},
             {candidate.most_ns, std::max(reference.most_ns, reference_after.most_ns)});
}

bool NewValuesCheck::Round(const PreparedProblem::BenchShape& shape, const Plan& plan,
                           Bursts& bursts) {
  const std::vector<size_t>& slots = plan.slots;
  // The candidate is called on the known values, as the round before may have made it forget them.
  calls_.ForgetIdle();
  if (!CallCandidate(shape, slots) || !calls_.MarkIdle()) {
    return false;
  }
  Pause();
  calls_.MarkAtRest();
  for (size_t i = 0; i < slots.size(); ++i) prepared_.Put(shape.slots[slots[i]], *plan.inputs[i]);
  Pause();
  if (!TimeReference(shape, slots, bursts.reference)) {
    return false;
  }
  // Also where the plan has them: the time until the candidate's calls is the same in every round.
  std::vector<Set> as_reference(shape.slots.size());
  std::vector<const Set*> expected = plan.sets;
  const bool certain = !expected.empty();
  for (const size_t slot : slots) {
    as_reference[slot] = AsReference(prepared_, shape.slots[slot]);
  }
  for (size_t slot = 0; !certain && slot < as_reference.size(); ++slot) {
    expected.push_back(&as_reference[slot]);
  }
  std::vector<const Set*> stale = prepared_.sets(shape, CasePlan::kBase);
  if (expected == stale) stale.clear();
  calls_.Plant(shape, Side::kCandidate, slots, expected);
  Touch(shape, slots, Side::kCandidate);
  const bool rested = calls_.Rested();
  if (!calls_.Wake(Side::kCandidate) ||
      !calls_.RunMeteredBurst(shape, Side::kCandidate, slots, bursts.candidate) ||
      !calls_.LookAtPlanted(shape, slots, expected, stale, certain)) {
    return false;
  }
  for (const size_t slot : slots) {
    if (!calls_.VerifySlot(shape, slot, *expected[slot], stale.empty() ? nullptr : stale[slot],
                           certain ? 0 : kUnsureShare)) {
      return false;
    }
  }
  if (!calls_.EndRound(Side::kCandidate, overhead_, bursts.candidate)) {
    return false;
  }
  // Before the candidate, the reference's process had slept longer. Now it has slept for less time,
  // while the other one ran. The candidate must not hold it up.
  calls_.MarkAtRest();
  if (!TimeReference(shape, slots, bursts.reference_after)) {
    return false;
  }
  const bool let_the_reference_run = calls_.Rested();
  for (const size_t slot : slots) {
    prepared_.Put(shape.slots[slot], prepared_.set(shape.slots[slot], CasePlan::kBase).inputs);
  }
  if (!rested || !let_the_reference_run) {
    bursts = {};
    return ++awake_rounds_ < kMostAwakeRounds || calls_.JudgeAwake();
  }
  return true;
}

bool NewValuesCheck::KnownRound(const PreparedProblem::BenchShape& shape) {
  Plan plan;
  plan.slots = SecretSlots(shape);
  plan.sets = prepared_.sets(shape, CasePlan::kBase);
  for (const size_t slot : plan.slots) plan.inputs.push_back(&plan.sets[slot]->inputs);
  Bursts bursts;
  if (!Round(shape, plan, bursts)) {
    return false;
  }
  if (bursts.counts()) {
    bursts.AddTo(known_);
  }
  return true;
}

absl::Status NewValuesCheck::Draw(const PreparedProblem::BenchShape& shape, Bank bank,
                                  std::span<const size_t> slots,
                                  std::vector<std::vector<std::string>>& inputs) {
  // The few values that altered inputs take can come from one drawing for all slots.
  std::vector<std::string> unseen;
  for (const size_t slot : slots) {
    const size_t index = shape.slots[slot];
    if (inputs.empty() || bank == CasePlan::kOther) {
      KC_ASSIGN_OR_RETURN(unseen, prepared_.DrawInputs(prepared_.cases()[index]));
    }
    inputs.push_back(bank == CasePlan::kOther ? unseen : prepared_.Altered(index, unseen));
  }
  return absl::OkStatus();
}

bool NewValuesCheck::FreshRound(const PreparedProblem::BenchShape& shape, Kind& kind,
                                TimedShape& result) {
  Plan plan;
  plan.slots = SecretSlots(shape);
  std::vector<std::vector<std::string>> drawn;
  if (rounds_ == 0) {
    plan.sets = prepared_.sets(shape, kind.bank);
    for (const size_t slot : plan.slots) plan.inputs.push_back(&plan.sets[slot]->inputs);
  } else {
    if (absl::Status status = Draw(shape, kind.bank, plan.slots, drawn); !status.ok()) {
      return calls_.Fail(std::move(status));
    }
    for (const std::vector<std::string>& inputs : drawn) plan.inputs.push_back(&inputs);
  }
  Bursts bursts;
  if (!Round(shape, plan, bursts)) {
    return false;
  }
  if (!bursts.counts()) {
    return true;
  }
  bursts.AddTo(kind.rounds);
  if (kind.bank == CasePlan::kOther && !bursts.candidate.disturbed() &&
      !bursts.reference.disturbed()) {
    result.candidate_cold_ns.insert(result.candidate_cold_ns.end(),
                                    bursts.candidate.calls_ns.begin(),
                                    bursts.candidate.calls_ns.end());
    result.reference_cold_ns.insert(result.reference_cold_ns.end(),
                                    bursts.reference.calls_ns.begin(),
                                    bursts.reference.calls_ns.end());
  }
  return true;
}

bool NewValuesCheck::Undecided(const Kind& kind) const {
  if (known_.empty() || kind.rounds.empty()) {
    return true;
  }
  if (brief_) {
    return false;
  }
  const Slowdown slowdown = SlowdownOf(timed_, kind.rounds);
  if (slowdown.most_log_value <= kAsQuickLog) {
    return false;
  }
  return rounds_ < kChargedRounds || !slowdown.certain ||
         SlowdownOf(known_, kind.rounds).log_value > std::log(kind.allowed_slowdown) ||
         DoubtOf({&slowdown, 1}) > kMostDoubt;
}

bool NewValuesCheck::MayChargeKnown() const {
  return !brief_ && rounds_ < kChargedRounds &&
         SlowdownOf(timed_, known_).most_log_value > kAsQuickLog;
}

bool NewValuesCheck::TooSlowForAllRounds(const PreparedProblem::BenchShape& shape,
                                         const TimingSession& session) const {
  const double kinds = 3;
  const double calls_of_round = 2.0 * static_cast<double>(SlotsOfRound(shape));
  const double all_rounds_ns =
      kMostRounds * kinds * calls_of_round * session.call_ns(Side::kCandidate);
  return session.call_ns(Side::kCandidate) > kSlowFactor * session.call_ns(Side::kReference) &&
         all_rounds_ns > static_cast<double>(calls_.budget().left_ns());
}

bool NewValuesCheck::Run(const PreparedProblem::BenchShape& shape, const TimingSession& session,
                         TimedShape& result, Charge& charge) {
  for (const RoundTimes& group : session.GroupTimes()) timed_.Add(group);
  if (timed_.empty()) {
    timed_.Add({session.call_ns(Side::kCandidate), session.call_ns(Side::kReference)});
  }
  std::vector<Kind> kinds = {Kind{CasePlan::kOther, options_.new_slowdown}};
  if (prepared_.has_altered()) kinds.push_back({CasePlan::kAltered, options_.altered_slowdown});
  brief_ = TooSlowForAllRounds(shape, session);
  for (rounds_ = 0; rounds_ < kMostRounds; ++rounds_) {
    std::vector<bool> wanted;
    for (const Kind& kind : kinds) wanted.push_back(Undecided(kind));
    if (std::ranges::find(wanted, true) == wanted.end() && !MayChargeKnown()) {
      break;
    }
    // In any order, so that nothing that comes again and again hits one kind alone.
    for (const size_t which : plan_random_.Order(kinds.size() + 1)) {
      const bool going = which == kinds.size()
                             ? KnownRound(shape)
                             : !wanted[which] || FreshRound(shape, kinds[which], result);
      if (!going) {
        return false;
      }
    }
  }
  if (known_.empty() ||
      std::ranges::any_of(kinds, [](const Kind& kind) { return kind.rounds.empty(); })) {
    return calls_.JudgeAwake();
  }
  std::vector<Slowdown> found = {SlowdownOf(timed_, known_)};
  for (const Kind& kind : kinds) {
    found.push_back(SlowdownOf(timed_, kind.rounds));
    if (!SurelySlowerBy(kind.allowed_slowdown, known_, kind.rounds)) {
      continue;
    }
    return calls_.Settle(MakeExploit(
        Exploit::Kind::kCachedOutput,
        absl::StrCat("calls on inputs seen before take ",
                     std::llround(known_.least().candidate_ns / 1000), " us, calls on ",
                     kind.bank == CasePlan::kAltered ? "the same inputs with a few values replaced "
                                                     : "new ones ",
                     std::llround(kind.rounds.least().candidate_ns / 1000), " us")));
  }
  charge = {ChargeFor(found), DoubtOf(found)};
  const double doubt = charge.doubt;
  charge.doubt += std::min(std::log(charge.factor), kOwnCharge);
  if (doubt > kMostDoubt && !brief_) {
    return calls_.Settle(
        Unstable("other processes held up too many calls to rule out that the candidate reuses "
                 "results of earlier calls"));
  }
  return true;
}

}  // namespace kernelcast::worker
