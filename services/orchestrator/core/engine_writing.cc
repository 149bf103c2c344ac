// Asks models for kernels.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/domain/niche.h"
#include "services/orchestrator/core/candidate_source.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/engine_inbox.h"
#include "services/orchestrator/core/lesson_use.h"
#include "services/orchestrator/core/novelty.h"

namespace kernelcast::orchestrator {
namespace {

// Number of failed kernels shown to a model.
constexpr size_t kReportedSetbacks = 6;
// Number of lessons shown to it.
constexpr size_t kReportedLessons = 8;

// The kernel that the parent was made from: the reference, or one that the archive has.
std::optional<Attempt> MadeFrom(const Archive& archive, const Attempt& parent,
                                const Problem& problem) {
  const std::string& id = parent.candidate.parent_candidate_id;
  if (const Attempt* found = archive.Find(id)) return *found;
  if (id != archive.reference_id()) return std::nullopt;
  absl::StatusOr<Candidate> reference = ReferenceCandidate(problem, parent.candidate.target);
  if (!reference.ok()) return std::nullopt;
  Attempt attempt;
  attempt.candidate = *std::move(reference);
  attempt.speedup = 1;
  return attempt;
}

}  // namespace

GenerationQuery Engine::QueryFor(const Search& search, uint64_t number) {
  const Generation& generation = *search.generation;
  const Generation::Request& request = generation.in_flight.at(number);
  const std::string& parent_id = request.parent_candidate_id;
  GenerationQuery query;
  query.problem = state_.FindProblem(search.spec.problem_id);
  query.target = search.spec.target;
  query.device_model = search.device_model;
  if (const ReferenceDescribed* reference =
          state_.FindReference(search.spec.problem_id, search.spec.target, search.device_model)) {
    query.reference_facts = reference->facts;
  }
  const Archive& archive = *search.archive;
  if (const Attempt* parent = archive.Find(parent_id)) {
    query.parent = *parent;
    query.grandparent = MadeFrom(archive, *parent, *query.problem);
  }
  if (const Attempt* best = archive.Best();
      best != nullptr && best->candidate.candidate_id != parent_id) {
    query.best = *best;
  }
  query.setbacks = archive.Setbacks(parent_id, kReportedSetbacks);
  query.unusable_answers.assign(generation.reasons.begin(), generation.reasons.end());
  query.advice = request.advice.value_or("");
  query.lessons = MostUseful(search.spec.lessons, query.target, query.device_model,
                             BoundName(query.parent ? query.parent->facts : query.reference_facts),
                             kReportedLessons);
  int64_t left_ns = absl::ToInt64Nanoseconds(options_.generation_timeout);
  if (search.spec.budget.max_wall_time_ns > 0) {
    left_ns =
        std::min(left_ns, search.spec.budget.max_wall_time_ns - (NowNs() - search.started_ns));
  }
  query.deadline_ns = clock_->MonotonicNs() + std::max<int64_t>(left_ns, 1);
  query.stop = writing_stops_[search.search_id].get_token();
  query.request_id = absl::StrCat(search.search_id, "/", number);
  return query;
}

template <class Reply>
void Engine::AskWriter(const Search& search, uint64_t number,
                       void (KernelWriter::*ask)(GenerationQuery, std::function<void(Reply)>),
                       void (Engine::*answered)(const std::string&, uint64_t, Reply)) {
  writing_.emplace(search.search_id, number);
  AfterCommit([this, query = QueryFor(search, number), search_id = search.search_id, number, ask,
               answered, trace = traces_.OfSearch(search.search_id)]() mutable {
    const TraceScope scope(&trace);
    (writer_->*ask)(std::move(query),
                    [this, inbox = inbox_, search_id, number, answered](Reply reply) {
                      inbox->Post([=, this, reply = std::move(reply)]() mutable {
                        (this->*answered)(search_id, number, std::move(reply));
                      });
                    });
  });
}

void Engine::StartGeneration(const Search& search, uint64_t number) {
  AskWriter(search, number, &KernelWriter::Write, &Engine::OnGenerated);
}

void Engine::StartAdvice(const Search& search, uint64_t number) {
  AskWriter(search, number, &KernelWriter::Advise, &Engine::OnAdvised);
}

void Engine::OnAdvised(const std::string& search_id, uint64_t number, AdviceReply reply) {
  writing_.erase({search_id, number});
  const Search* search = state_.FindSearch(search_id);
  if (search == nullptr || search->generation == nullptr ||
      !search->generation->in_flight.contains(number)) {
    return;
  }
  GenerationAdvised advised{.search_id = search_id,
                            .number = number,
                            .advice = std::move(reply.advice),
                            .detail = std::move(reply.detail),
                            .prompt_version = std::move(reply.prompt_version),
                            .model = std::move(reply.model),
                            .endpoint = std::move(reply.endpoint),
                            .usage = reply.usage,
                            .latency_ns = reply.latency_ns};
  if (advised.advice.empty()) {
    Log(LogLevel::kInfo, "the critic gave no advice",
        {{"search_id", search_id}, {"detail", advised.detail}});
  }
  if (!Emit(advised)) return;
  if (observer_ != nullptr) AfterCommit([this, advised] { observer_->OnAdvised(advised); });
  StartCalls(*search, InputsOf(*search));
}

void Engine::OnGenerated(const std::string& search_id, uint64_t number, GenerationReply reply) {
  writing_.erase({search_id, number});
  const Search* search = state_.FindSearch(search_id);
  if (search == nullptr || search->generation == nullptr) return;
  const auto request = search->generation->in_flight.find(number);
  if (request == search->generation->in_flight.end()) return;

  GenerationSettled settled;
  settled.search_id = search_id;
  settled.number = number;
  settled.parent_candidate_id = request->second.parent_candidate_id;
  settled.prompt_version = std::move(reply.prompt_version);
  settled.model = std::move(reply.model);
  settled.endpoint = std::move(reply.endpoint);
  settled.usage = reply.usage;
  settled.latency_ns = reply.latency_ns;
  settled.repairs = std::move(reply.repairs);
  std::string request_id;
  auto* candidate = std::get_if<Candidate>(&reply.result);
  if (candidate != nullptr) {
    candidate->problem_id = search->spec.problem_id;
    candidate->target = search->spec.target;
    candidate->parent_candidate_id = settled.parent_candidate_id;
    candidate->candidate_id.clear();
    const absl::Status valid = ValidateCandidate(*candidate);
    candidate->candidate_id = CandidateId(*candidate);
    const auto& known = search->generation->known;
    if (!valid.ok()) {
      settled.outcome = GenerationOutcome::kUnusable;
      settled.fault = "bad_description";
      settled.detail = std::string(valid.message());
    } else if (const auto same = known.find(NoveltyKey(*candidate)); same != known.end()) {
      settled.outcome = GenerationOutcome::kDuplicate;
      settled.detail = same->second;
    } else {
      request_id = NextRequestId(*search);
      settled.outcome = GenerationOutcome::kWritten;
      settled.detail = request_id;
    }
  } else if (const auto* unusable = std::get_if<GenerationReply::Unusable>(&reply.result)) {
    settled.outcome = GenerationOutcome::kUnusable;
    settled.fault = unusable->fault;
    settled.detail = unusable->reason;
  } else {
    settled.outcome = GenerationOutcome::kUnanswered;
    settled.detail = std::get<GenerationReply::Unanswered>(reply.result).reason;
  }
  if (settled.outcome != GenerationOutcome::kWritten) {
    Log(LogLevel::kInfo, "a request for a kernel failed",
        {{"search_id", search_id},
         {"outcome", std::string(Name(settled.outcome))},
         {"detail", settled.detail}});
  }
  if (!Emit(settled)) return;
  if (observer_ != nullptr) AfterCommit([this, settled] { observer_->OnGenerated(settled); });
  if (request_id.empty()) return;
  Accept(request_id, search_id,
         search->spec.measure_everything ? EvaluateMode::kMeasure : EvaluateMode::kRoute,
         std::move(*candidate), true);
  Advance(request_id);
}

}  // namespace kernelcast::orchestrator
