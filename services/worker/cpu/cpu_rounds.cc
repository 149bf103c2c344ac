#include "services/worker/cpu/cpu_rounds.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kernelcast::worker {
namespace {

using Owner = PreparedProblem::Owner;

// More than the runner takes to go to sleep.
constexpr int64_t kPauseNs = 1'000'000;
// A candidate whose process does not sleep between its calls is refused after this many rounds. It
// runs on in each of them.
constexpr int kMostAwakeRounds = 3;
constexpr int kTouches = 2;
// A burst takes about this long where there are enough slots. All its outputs are verified, so
// longer bursts would cost more than they show.
constexpr double kCheckBurstNs = 1'500'000;
constexpr size_t kFewestSlots = 3;
// A candidate that is slower than the reference by this factor does not get all rounds if they do
// not fit its budget. There are this many at most, in all its processes.
constexpr double kSlowFactor = 2;
constexpr double kMostRounds = 50;

}  // namespace

size_t CpuRounds::SlotsOfRound() const {
  if (brief_) return 1;
  const double calls = kCheckBurstNs / std::max(1.0, static_cast<double>(shape_.reference_ns));
  return std::min(shape_.slots.size(), std::max(kFewestSlots, static_cast<size_t>(calls)));
}

void CpuRounds::NoteSession(const TimingSession& session) {
  brief_ = false;
  const double calls_of_round = 2.0 * static_cast<double>(SlotsOfRound());
  brief_ = session.call_ns(Side::kCandidate) > kSlowFactor * session.call_ns(Side::kReference) &&
           kMostRounds * calls_of_round * session.call_ns(Side::kCandidate) >
               static_cast<double>(calls_.budget().left_ns());
}

bool CpuRounds::CallCandidate(std::span<const size_t> slots) {
  const int64_t limit_ns = prepared_.options().CallLimitNs(shape_.reference_ns);
  for (size_t i = 0; i < slots.size(); ++i) {
    RunnerProcess::Result result;
    if (!calls_.Call(Side::kCandidate, runner::kRun, shape_.slots[slots[i]],
                     /*linger=*/i + 1 < slots.size(), limit_ns, "timing", result)) {
      return false;
    }
  }
  return true;
}

void CpuRounds::Touch(std::span<const size_t> slots, Side side) {
  const Owner owner = side == Side::kCandidate ? Owner::kCandidate : Owner::kReference;
  runner_core_.Run([&] {
    for (int i = 0; i < kTouches; ++i) {
      for (const size_t slot : slots) prepared_.Touch(owner, shape_.slots[slot]);
    }
  });
}

void CpuRounds::Put(std::span<const size_t> slots, CasePlan::Bank bank) {
  for (const size_t slot : slots) prepared_.Put(shape_.slots[slot], bank);
}

void CpuRounds::Pause() {
  cancel_.SleepFor(kPauseNs + static_cast<int64_t>(plan_random_.Below(kPauseNs)));
}

bool CpuRounds::TimeReference(std::span<const size_t> slots, RunnerCalls::Burst& burst) {
  calls_.Plant(shape_, Side::kReference, slots, CasePlan::kBase);
  Touch(slots, Side::kReference);
  calls_.MarkRound(Side::kReference);
  return calls_.Wake(Side::kReference) &&
         calls_.RunMeteredBurst(shape_, Side::kReference, slots, burst) &&
         calls_.EndRound(Side::kReference, overhead_, burst);
}

bool CpuRounds::Time(CasePlan::Bank bank, NewValuesRound& round) {
  std::vector<size_t> slots = plan_random_.Order(shape_.slots.size());
  slots.resize(SlotsOfRound());
  // The candidate is called on the known values, as the round before may have made it forget them.
  calls_.ForgetIdle();
  if (!CallCandidate(slots) || !calls_.MarkIdle()) {
    return false;
  }
  Pause();
  calls_.MarkAtRest();
  Put(slots, bank);
  Pause();
  const bool going = CallBoth(slots, bank, round);
  // Also if the judgement has ended: for the next candidate.
  Put(slots, CasePlan::kBase);
  return going;
}

bool CpuRounds::CallBoth(std::span<const size_t> slots, CasePlan::Bank bank,
                         NewValuesRound& round) {
  // Short calls depend on how long their process has slept, and what ran meanwhile. So the
  // reference is timed before and after the candidate, and what it takes lies between the two.
  RunnerCalls::Burst before;
  RunnerCalls::Burst candidate;
  RunnerCalls::Burst after;
  if (!TimeReference(slots, before)) {
    return false;
  }
  const std::optional<CasePlan::Bank> stale =
      bank == CasePlan::kBase ? std::nullopt : std::optional(CasePlan::kBase);
  calls_.Plant(shape_, Side::kCandidate, slots, bank);
  Touch(slots, Side::kCandidate);
  const bool rested = calls_.Rested();
  if (!calls_.Wake(Side::kCandidate) ||
      !calls_.RunMeteredBurst(shape_, Side::kCandidate, slots, candidate) ||
      !calls_.LookAtPlanted(shape_, slots, bank, stale)) {
    return false;
  }
  for (const size_t slot : slots) {
    if (!calls_.VerifySlot(shape_, slot, bank, stale)) return false;
  }
  if (!calls_.EndRound(Side::kCandidate, overhead_, candidate)) {
    return false;
  }
  // Before the candidate, the reference's process had slept longer. Now it has slept for less time,
  // while the other one ran. The candidate must not hold it up.
  calls_.MarkAtRest();
  if (!TimeReference(slots, after)) {
    return false;
  }
  const bool let_the_reference_run = calls_.Rested();
  round.counts = rested && let_the_reference_run;
  if (!round.counts) return ++awake_rounds_ < kMostAwakeRounds || calls_.JudgeAwake();
  round.held_up = candidate.disturbed() || before.disturbed();
  round.least = {candidate.least_ns, std::min(before.least_ns, after.least_ns)};
  round.most = {candidate.most_ns, std::max(before.most_ns, after.most_ns)};
  round.candidate_ns = std::move(candidate.calls_ns);
  round.reference_ns = std::move(before.calls_ns);
  return true;
}

}  // namespace kernelcast::worker
