#include "services/worker/judge/new_values_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

// Rounds on known values that a suspected candidate is compared with.
constexpr int kKnownRounds = 3;

// Whether the calls of `fresh` are slower than `known` calls by `factor` more than the reference.
bool SlowerThan(const NewValuesRound& known, const NewValuesRound& fresh, double factor) {
  const auto calls = [](const NewValuesRound& round, const std::vector<double>& calls_ns,
                        double bound_ns) {
    return round.held_up ? std::vector<double>{bound_ns} : calls_ns;
  };
  return LooksCached(calls(known, known.candidate_ns, known.most.candidate_ns),
                     calls(fresh, fresh.candidate_ns, fresh.least.candidate_ns),
                     calls(known, known.reference_ns, known.least.reference_ns),
                     calls(fresh, fresh.reference_ns, fresh.most.reference_ns), factor);
}

}  // namespace

std::vector<NewValuesCheck::Kind> NewValuesCheck::KindsOf(const Problem& problem,
                                                          const MeasureOptions& options,
                                                          bool draws_altered) {
  std::vector<Kind> kinds;
  if (CanAlter(problem) || draws_altered) {
    kinds.push_back(
        {CasePlan::kAltered, options.altered_slowdown,
         CanAlter(problem) ? "the same inputs with a few values replaced" : "other ones"});
  }
  kinds.push_back({CasePlan::kOther, options.new_slowdown, "new ones"});
  return kinds;
}

void NewValuesCheck::AddSession(TimingSession session) {
  const std::vector<RoundTimes> groups = session.GroupTimes();
  for (const RoundTimes& group : groups) timed_.Add(group);
  if (groups.empty()) {
    timed_.Add({session.call_ns(Side::kCandidate), session.call_ns(Side::kReference)});
  }
  sessions_.push_back(std::move(session));
}

bool NewValuesCheck::Run(NewValuesRounds& rounds, TimedShape& result) {
  ++processes_;
  const NewValuesRound timed{.candidate_ns = sessions_.back().CallTimes(Side::kCandidate),
                             .reference_ns = sessions_.back().CallTimes(Side::kReference)};
  bool reused = false;
  for (Kind& kind : kinds_) {
    NewValuesRound fresh;
    if (!rounds.Time(kind.bank, fresh)) return false;
    if (!fresh.counts) continue;
    kind.rounds.Add(fresh.least, fresh.most);
    if (kind.bank == CasePlan::kOther && !fresh.held_up) {
      result.candidate_cold_ns.insert(result.candidate_cold_ns.end(), fresh.candidate_ns.begin(),
                                      fresh.candidate_ns.end());
      result.reference_cold_ns.insert(result.reference_cold_ns.end(), fresh.reference_ns.begin(),
                                      fresh.reference_ns.end());
    }
    if (reused || !SlowerThan(timed, fresh, kind.allowed_slowdown)) continue;
    slowed_ = true;
    // The pause before a round may cost as much. Then calls on known values are as slow, under the
    // same conditions. The first of them let the candidate remember these values again.
    NewValuesRound known;
    if (!rounds.Time(CasePlan::kBase, known)) return false;
    double slowest_ns = 0;
    reused = true;
    for (int i = 0; i < kKnownRounds && reused; ++i) {
      known = {};
      if (!rounds.Time(CasePlan::kBase, known)) return false;
      reused = known.counts && SlowerThan(known, fresh, kind.allowed_slowdown);
      slowest_ns = std::max(slowest_ns, known.most.candidate_ns);
    }
    if (!reused) continue;
    reused_.push_back(absl::StrCat("calls on inputs seen before take ",
                                   std::llround(slowest_ns / 1000), " us, calls on ", kind.values,
                                   " ", std::llround(fresh.least.candidate_ns / 1000), " us"));
  }
  return true;
}

std::vector<Slowdown> NewValuesCheck::Slowdowns() const {
  std::vector<Slowdown> slowdowns;
  for (const Kind& kind : kinds_) {
    if (!kind.rounds.empty()) slowdowns.push_back(SlowdownOf(timed_, kind.rounds, noise_));
  }
  return slowdowns;
}

bool NewValuesCheck::complete() const {
  return std::ranges::none_of(kinds_, [](const Kind& kind) { return kind.rounds.empty(); });
}

bool NewValuesCheck::Suspects() const {
  return !complete() || !reused_.empty() ||
         std::ranges::any_of(Slowdowns(), [this](const Slowdown& slowdown) {
           return slowdown.most_log_value > noise_;
         });
}

std::optional<Exploit> NewValuesCheck::Refusal() const {
  if (2 * std::ssize(reused_) <= processes_) return std::nullopt;
  return MakeExploit(Exploit::Kind::kCachedOutput, reused_.front());
}

void NewValuesCheck::AddTo(TimedShape& result, double doubt) const {
  for (const TimingSession& session : sessions_) result.Add(session, Charge(), doubt);
}

}  // namespace kernelcast::worker
