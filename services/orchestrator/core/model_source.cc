#include "services/orchestrator/core/model_source.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/ranking.h"

namespace kernelcast::orchestrator {
namespace {

// Whether a search may ask its model for more, and if not, why.
struct Asking {
  enum class Kind {
    kYes,
    kSpent,    // its limits are reached
    kUseless,  // its answers contain no new kernels
    kAway,     // away for too long to wait; may come back
    kNobody,   // no model is configured
  };
  Kind kind = Kind::kYes;
  std::string reason;
};

Asking AskingOf(const Search& search, const SourceInputs& inputs) {
  const Generation& generation = *search.generation;
  const GenerationCounts& counts = search.counts.generation;
  const GeneratorLimits& limits = search.spec.generator_limits;
  // Unanswered requests cost nothing.
  if (limits.max_requests > 0 && counts.requested - counts.unanswered >= limits.max_requests) {
    return {Asking::Kind::kSpent, "budget: generator_requests"};
  }
  if (limits.max_tokens > 0) {
    const uint64_t spent = counts.input_tokens + counts.output_tokens;
    const uint64_t answered = counts.written + counts.duplicates + counts.unusable;
    // Assume that requests in progress cost as much as the others did.
    const uint64_t pending = answered == 0 ? 0 : spent / answered * generation.in_flight.size();
    if (spent + pending >= limits.max_tokens) {
      return {Asking::Kind::kSpent, "budget: generator_tokens"};
    }
  }
  if (search.spec.budget.max_candidates > 0 &&
      search.counts.considered + generation.in_flight.size() >= search.spec.budget.max_candidates) {
    return {Asking::Kind::kSpent, "budget: max_candidates"};
  }
  if (!inputs.has_writer) {
    return {Asking::Kind::kNobody, "this orchestrator was started without a language model"};
  }
  if (generation.useless_answers >= ModelSource::kMaxUselessAnswers) {
    return {Asking::Kind::kUseless,
            absl::StrCat("the last ", generation.useless_answers,
                         " answers of the model were unusable: ", generation.reasons.back())};
  }
  if (generation.outages > 0 && inputs.now_ns - generation.away_since_ns >=
                                    absl::ToInt64Nanoseconds(inputs.generation_patience)) {
    return {Asking::Kind::kAway, absl::StrCat("the model is unavailable: ", generation.outage)};
  }
  return {};
}

// Whether the delay after an outage is not over yet.
bool WaitsAfterOutage(const Generation& generation, const SourceInputs& inputs) {
  if (generation.outages == 0) return false;
  const int64_t backoff_ns = static_cast<int64_t>(
      std::min(static_cast<double>(absl::ToInt64Nanoseconds(inputs.max_generation_backoff)),
               std::ldexp(static_cast<double>(absl::ToInt64Nanoseconds(inputs.generation_backoff)),
                          static_cast<int>(std::min<uint64_t>(generation.outages - 1, 30)))));
  return inputs.now_ns - generation.last_outage_ns < backoff_ns;
}

// Whether there is room for one more request. Answers take long, so some are requested while others
// are measured, but no more than can be handled when they arrive, because later requests know more.
bool HasRoom(const Search& search, const SourceInputs& inputs) {
  const Generation& generation = *search.generation;
  // During an outage, candidates of the space in flight do not prevent another request.
  if (generation.outages > 0) return generation.in_flight.empty();
  const uint64_t at_once = search.spec.generator_limits.max_in_flight > 0
                               ? search.spec.generator_limits.max_in_flight
                               : kDefaultGenerationsInFlight;
  const uint64_t slots = std::max<uint64_t>(1, inputs.capacity.measure_slots);
  return generation.in_flight.size() < at_once &&
         search.in_flight + generation.in_flight.size() < InFlightLimit(search, inputs.capacity) &&
         search.measuring < 2 * slots;
}

RequestKernel Request(const Search& search) {
  return {search.counts.generation.requested + 1, NextParents(search).first};
}

}  // namespace

absl::Status ModelSource::Check(const SearchSpec& spec, const Problem&, bool has_writer) const {
  if (!has_writer) {
    return absl::FailedPreconditionError(
        "spec.generator: this orchestrator was started without a language model (--llm); "
        "template and external are allowed");
  }
  if (spec.budget == Budget{} && spec.generator_limits.max_requests == 0 &&
      spec.generator_limits.max_tokens == 0) {
    return absl::InvalidArgumentError(
        "spec.budget: at least one limit, of the budget or of the generator, must be set");
  }
  return absl::OkStatus();
}

uint64_t ModelSource::ExpectedDecisions(const Search& search) const {
  const uint64_t most = search.spec.budget.max_candidates;
  const uint64_t requests = search.spec.generator_limits.max_requests;
  if (requests == 0) return most;
  return most == 0 ? requests : std::min(most, requests);
}

std::optional<SourceAction> ModelSource::Next(const State& state, const Search& search,
                                              const SourceInputs& inputs) const {
  if (search.generation == nullptr) return std::nullopt;
  if (std::optional<ProposeCandidate> chosen = Chosen(search)) return *std::move(chosen);
  const Generation& generation = *search.generation;
  const Asking asking = AskingOf(search, inputs);
  const bool may_ask = asking.kind == Asking::Kind::kYes || asking.kind == Asking::Kind::kAway;
  const bool without_space = search.generator == nullptr || asking.kind == Asking::Kind::kSpent;
  const bool none_will_answer =
      asking.kind == Asking::Kind::kAway || asking.kind == Asking::Kind::kNobody;
  const bool over = asking.kind != Asking::Kind::kYes && without_space && search.in_flight == 0 &&
                    (generation.in_flight.empty() || none_will_answer);
  const bool can_ask =
      may_ask && !over && !WaitsAfterOutage(generation, inputs) && HasRoom(search, inputs);
  if (can_ask && MayDerive(search)) return Request(search);
  const bool uses_space = !without_space && (asking.kind != Asking::Kind::kYes ||
                                             generation.outages >= kOutagesBeforeTemplates);
  if (uses_space) {
    return space_.NextOfSpace(state, search, inputs,
                              [&](const char* reason) -> std::optional<SourceAction> {
                                // Waits for a model that is briefly unavailable.
                                if (asking.kind == Asking::Kind::kYes) return std::nullopt;
                                return FinishSearch{absl::StrCat(reason, "; ", asking.reason)};
                              });
  }
  const uint64_t slots = std::max<uint64_t>(1, inputs.capacity.measure_slots);
  const bool compares = search.strategy->batches().has_value() || HasLearnt(search);
  if (search.measuring < slots && compares) {
    const bool ended = asking.kind != Asking::Kind::kYes;
    if (std::optional<RankPruned> ranking = PlanRanking(state, search, inputs, ended)) {
      return *std::move(ranking);
    }
    // Nothing known is worth measuring.
    if (can_ask && IsIdle(state, search, inputs)) return Request(search);
  }
  if (over && !inputs.ranking) return FinishSearch{asking.reason};
  return std::nullopt;
}

}  // namespace kernelcast::orchestrator
