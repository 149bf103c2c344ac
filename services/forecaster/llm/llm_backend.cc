#include "services/forecaster/llm/llm_backend.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/work_queue.h"
#include "services/forecaster/core/anchoring.h"
#include "services/forecaster/core/answer_parser.h"
#include "services/forecaster/llm/chat_reply.h"
#include "services/forecaster/llm/feedback_log.h"
#include "services/forecaster/llm/forecast_samples.h"
#include "services/forecaster/llm/recent_answers.h"
#include "services/forecaster/llm/request_shape.h"
#include "services/forecaster/llm/token_budgets.h"

namespace kernelcast::forecaster {
namespace {

constexpr std::string_view kVersion = "llm/1";
// For estimating requests in progress: bytes of a prompt per token, and tokens per answer.
constexpr uint64_t kBytesPerToken = 3;
constexpr uint64_t kUsualAnswerTokens = 1024;
// A question is repeated for a caller who joined it if that caller's deadline is this much later.
constexpr int64_t kWorthAskingAgainNs = 500'000'000;
// The part of the time before the deadline that is kept for the reply is 1 / kReserveDivisor.
constexpr int64_t kReserveDivisor = 20;
constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();

using Cause = Abstention::Cause;

// Whether the same request would get the same unreadable answer.
bool IsLasting(AnswerFault fault) {
  return fault == AnswerFault::kCutOff || fault == AnswerFault::kRefused ||
         fault == AnswerFault::kContentFilter;
}

}  // namespace

// Members are used by the backend's thread unless stated otherwise.
class LlmBackend::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(LlmBackendOptions options, llm::ChatClient* client, ForecastCache* cache,
       LlmMetrics* metrics, const Clock& clock)
      : options_(std::move(options)),
        version_(absl::StrCat(std::string(kVersion), ";prompt=", options_.prompt.version(),
                              ";samples=", options_.samples)),
        shapes_(options_.prompt.form(), options_.prompt.may_defer()),
        client_(client),
        cache_(cache),
        metrics_(metrics),
        clock_(clock),
        ladder_(LadderOf(options_)),
        budgets_(options_.max_problem_tokens) {}

  void Stop() {
    std::unique_ptr<WorkQueue> events;
    {
      std::lock_guard lock(events_mutex_);
      events = std::move(events_);
    }
    stopped_ = true;
    events.reset();
    for (auto& [id, flight] : flights_) CancelCalls(*flight);
    flights_.clear();
  }

  // Post and the next two functions are thread-safe. Stop drops events that have not begun.
  void Post(std::function<void()> event) {
    std::lock_guard lock(events_mutex_);
    if (events_ == nullptr) return;
    events_->Submit([this, event = std::move(event)] {
      if (!stopped_) event();
    });
  }

  absl::StatusOr<RenderedPrompt> Render(const ForecastInput& input) const {
    std::vector<FeedbackEntry> feedback;
    {
      std::lock_guard lock(feedback_mutex_);
      feedback = feedback_.For(input.candidate, input.device_model);
    }
    return options_.prompt.Render(input, feedback, options_.max_prompt_bytes);
  }

  void Learn(const std::vector<ObservedLabel>& labels) {
    std::lock_guard lock(feedback_mutex_);
    for (const ObservedLabel& observed : labels) feedback_.Add(observed.label);
  }

  void Ask(ForecastInput input, const ForecastCall& call, Done done);

  const LlmBackendOptions& options() const { return options_; }
  const std::string& version() const { return version_; }
  ModelUse use() const {
    std::lock_guard lock(use_mutex_);
    return use_;
  }

 private:
  using LeaveCallback = std::stop_callback<std::function<void()>>;

  // A caller of a question.
  struct Waiter {
    uint64_t id = 0;
    std::string candidate_id;
    std::string baseline_candidate_id;
    std::string question;  // RecentAnswers::QuestionOf
    ForecastCall call;
    Done done;
    std::unique_ptr<LeaveCallback> on_leave;
  };
  // Shared with the client's thread, which requests a shape before each attempt. Guarded by
  // ladder_mutex_.
  struct SharedWalk {
    ResponseLadder::Walk walk;
  };
  struct Sample {
    ForecastSample result;  // when done
    std::shared_ptr<SharedWalk> walk = std::make_shared<SharedWalk>();
    std::optional<llm::CallId> call;
    bool done = false;
    int unreadable = 0;
    size_t prompt_bytes = 0;  // of the latest request
  };
  // A question in progress.
  struct Flight {
    uint64_t id = 0;
    std::string key;
    std::string problem_id;
    ForecastInput input;
    std::string prompt_version;
    TraceContext trace;  // of the first caller
    std::shared_ptr<const llm::Prompt> prompt;
    bool shortened = false;  // the prompt exceeded a model's context and was rendered again
    int64_t deadline_ns = kNoDeadline;
    std::vector<Waiter> waiters;
    std::vector<Sample> samples;
    bool rest_sent = false;
    bool late = false;  // an answer did not arrive before the deadline
    int preferred_endpoint = -1;
    kernelcast::TokenUsage usage;
    std::string model;
    TokenBudgets::Reservation reserved;
  };

  static LadderOptions LadderOf(const LlmBackendOptions& options) {
    LadderOptions ladder = options.ladder;
    ladder.rungs = options.prompt.rungs();
    return ladder;
  }

  std::string KeyOf(const RenderedPrompt& prompt, const ForecastInput& input) const;
  void Join(Flight& flight, Waiter waiter);
  void Cancel(uint64_t flight_id, uint64_t waiter_id);
  void CancelCalls(Flight& flight);
  void Submit(Flight& flight, size_t index);
  void SendRest(Flight& flight);
  void OnOutcome(uint64_t flight_id, size_t index, llm::ChatOutcome outcome);
  // Handles the outcome. Returns true if the sample must be requested again.
  bool Take(Flight& flight, Sample& sample, llm::ChatOutcome outcome);
  bool Report(Sample& sample, const llm::ChatOutcome& outcome, RungOutcome verdict);
  // After a prompt that was too long: makes it shorter, if it can be. Returns whether the sample
  // has a shorter prompt to send.
  bool Shorten(Flight& flight, const Sample& sample);
  // Ends the flight if none of its samples is in progress.
  void Conclude(uint64_t flight_id);
  PooledSamples Pool(const Flight& flight) const;
  void Forget(Flight& flight);
  // `usage` and `repairs`: those of the question if this waiter is charged for it.
  void Settle(Waiter& waiter, ForecastResult result, const kernelcast::TokenUsage& usage,
              const std::set<Repair>& repairs = {});

  const LlmBackendOptions options_;
  const std::string version_;
  const RequestShapes shapes_;
  llm::ChatClient* const client_;
  ForecastCache* const cache_;
  LlmMetrics* const metrics_;
  const Clock& clock_;

  std::mutex ladder_mutex_;
  ResponseLadder ladder_;  // guarded by ladder_mutex_

  mutable std::mutex feedback_mutex_;
  FeedbackLog feedback_;  // guarded by feedback_mutex_

  mutable std::mutex use_mutex_;
  ModelUse use_;  // guarded by use_mutex_

  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, std::unique_ptr<Flight>> flights_;
  std::unordered_map<std::string, uint64_t> by_key_;
  TokenBudgets budgets_;
  RecentAnswers said_;  // by question

  std::atomic<bool> stopped_ = false;
  std::mutex events_mutex_;
  // Guarded by events_mutex_. Null after Stop. Last: its thread uses the other members.
  std::unique_ptr<WorkQueue> events_ = std::make_unique<WorkQueue>();
};

std::string LlmBackend::Core::KeyOf(const RenderedPrompt& prompt,
                                    const ForecastInput& input) const {
  ContentHasher hasher;
  hasher.Add(kVersion)
      .Add(options_.prompt.hash())
      .Add(prompt.system)
      .Add(prompt.user)
      .Add(input.bin_scheme->id())
      .Add(options_.samples)
      .Add(options_.max_answer_tokens)
      .Add(options_.temperature.value_or(-1))
      .Add(absl::StrJoin(options_.models, "\n"));
  return hasher.Hex128();
}

void LlmBackend::Core::Ask(ForecastInput input, const ForecastCall& call, Done done) {
  Waiter waiter;
  waiter.id = next_id_++;
  waiter.candidate_id = input.candidate.candidate_id;
  waiter.baseline_candidate_id = input.baseline_candidate_id;
  waiter.question = RecentAnswers::QuestionOf(input);
  waiter.call = call;
  waiter.done = std::move(done);
  if (call.cancelled.stop_requested()) {
    return Settle(waiter, Abstain(Cause::kEndpointUnavailable, "the caller has left"), {});
  }
  // The candidate is the anchor itself, and would compare as equally fast.
  if (input.anchor != nullptr &&
      input.anchor->candidate.candidate_id == input.candidate.candidate_id) {
    input.anchor = nullptr;
  }
  if (call.again) {
    const ForecastResult* const said = said_.Find(waiter.question);
    const auto* forecast = said == nullptr ? nullptr : std::get_if<kernelcast::Forecast>(said);
    const bool blind = forecast != nullptr && input.anchor != nullptr &&
                       IsBlindAt(*input.bin_scheme, *forecast, input.anchor->speedup.value);
    if (!blind) {
      return Settle(
          waiter,
          said != nullptr ? *said : ForecastResult(Abstain(Cause::kNotCovered, kNotAskedAgain)),
          {});
    }
    if (call.remembered_only) {
      return Settle(waiter, Abstain(Cause::kNotCovered, kNotAskedAgain), {});
    }
    waiter.call.again = false;
  }
  absl::StatusOr<RenderedPrompt> prompt = Render(input);
  if (!prompt.ok() && input.anchor != nullptr) {
    input.anchor = nullptr;
    prompt = Render(input);
  }
  if (!prompt.ok()) {
    return Settle(waiter, Abstain(Cause::kNotCovered, std::string(prompt.status().message())), {});
  }
  const std::string key = KeyOf(*prompt, input);
  if (const auto under_way = by_key_.find(key); under_way != by_key_.end()) {
    if (metrics_ != nullptr) metrics_->Cache(CacheUse::kCoalesced);
    return Join(*flights_.at(under_way->second), std::move(waiter));
  }
  if (cache_ != nullptr) {
    if (std::optional<ForecastResult> known = cache_->Find(key)) {
      if (metrics_ != nullptr) metrics_->Cache(CacheUse::kHit);
      return Settle(waiter, *std::move(known), {});
    }
  }
  if (metrics_ != nullptr) metrics_->Cache(CacheUse::kMiss);
  auto flight = std::make_unique<Flight>();
  flight->id = next_id_++;
  flight->key = key;
  flight->problem_id = input.candidate.problem_id;
  flight->input = std::move(input);
  flight->prompt_version = prompt->version;
  flight->deadline_ns = call.deadline_ns;
  flight->trace = call.trace;
  const uint64_t estimate =
      ((prompt->system.size() + prompt->user.size()) / kBytesPerToken + kUsualAnswerTokens) *
      static_cast<uint64_t>(options_.samples);
  absl::StatusOr<TokenBudgets::Reservation> reserved =
      budgets_.Reserve(flight->problem_id, call, estimate);
  if (!reserved.ok()) {
    return Settle(waiter, Abstain(Cause::kBudget, std::string(reserved.status().message())), {});
  }
  flight->reserved = *std::move(reserved);
  flight->prompt = std::make_shared<const llm::Prompt>(MessagesOf(*prompt));
  flight->samples.resize(1);
  Flight& started = *flight;
  by_key_.emplace(key, started.id);
  flights_.emplace(started.id, std::move(flight));
  const uint64_t id = started.id;
  Join(started, std::move(waiter));
  Submit(started, 0);
  Conclude(id);
}

void LlmBackend::Core::Join(Flight& flight, Waiter waiter) {
  const uint64_t waiter_id = waiter.id;
  const std::stop_token cancelled = waiter.call.cancelled;
  flight.waiters.push_back(std::move(waiter));
  // May post at once, if the caller has left in the meantime.
  flight.waiters.back().on_leave = std::make_unique<LeaveCallback>(
      cancelled, [core = weak_from_this(), flight_id = flight.id, waiter_id] {
        if (const std::shared_ptr<Core> alive = core.lock()) {
          alive->Post(
              [raw = alive.get(), flight_id, waiter_id] { raw->Cancel(flight_id, waiter_id); });
        }
      });
}

void LlmBackend::Core::Cancel(uint64_t flight_id, uint64_t waiter_id) {
  const auto found = flights_.find(flight_id);
  if (found == flights_.end()) return;
  Flight& flight = *found->second;
  const auto waiter = std::ranges::find(flight.waiters, waiter_id, &Waiter::id);
  if (waiter == flight.waiters.end()) return;
  Waiter leaving = std::move(*waiter);
  flight.waiters.erase(waiter);
  if (flight.waiters.empty()) {
    CancelCalls(flight);
    Forget(flight);
  }
  Settle(leaving, Abstain(Cause::kEndpointUnavailable, "the caller has left"), {});
}

void LlmBackend::Core::CancelCalls(Flight& flight) {
  for (const Sample& sample : flight.samples) {
    if (sample.call.has_value()) client_->Cancel(*sample.call);
  }
}

void LlmBackend::Core::Forget(Flight& flight) {
  budgets_.Charge(flight.reserved, flight.usage.input_tokens + flight.usage.output_tokens);
  by_key_.erase(flight.key);
  flights_.erase(flight.id);
}

void LlmBackend::Core::Submit(Flight& flight, size_t index) {
  Sample& sample = flight.samples[index];
  llm::ChatRequest request;
  request.prompt = flight.prompt;
  sample.prompt_bytes = flight.prompt->json().size();
  request.max_tokens = options_.max_answer_tokens;
  request.temperature = options_.temperature;
  // The caller must still get the reason if there is no answer.
  request.deadline_ns =
      flight.deadline_ns == kNoDeadline
          ? 0
          : flight.deadline_ns -
                std::max<int64_t>(0, flight.deadline_ns - clock_.MonotonicNs()) / kReserveDivisor;
  request.wait_for_recovery = options_.wait_for_recovery;
  request.trace = flight.trace;
  request.preferred_endpoint = flight.preferred_endpoint;
  request.shape_for = [core = shared_from_this(), walk = sample.walk,
                       scheme = flight.input.bin_scheme](const llm::EndpointRef& endpoint) {
    const ResponseLadder::Key key = {std::string(endpoint.name), std::string(endpoint.model)};
    std::lock_guard lock(core->ladder_mutex_);
    const Rung rung = core->ladder_.Next(key, walk->walk, core->clock_.MonotonicNs());
    return core->shapes_.At(rung, *scheme);
  };
  if (index == 0 && !flight.rest_sent && options_.samples > 1) {
    request.on_first_token = [core = shared_from_this(),
                              id = flight.id](const llm::EndpointRef& endpoint) {
      core->Post([raw = core.get(), id, endpoint_index = endpoint.index] {
        const auto found = raw->flights_.find(id);
        if (found == raw->flights_.end()) return;
        found->second->preferred_endpoint = endpoint_index;
        raw->SendRest(*found->second);
      });
    };
  }
  const absl::StatusOr<llm::CallId> call =
      client_->Submit(std::move(request),
                      [core = shared_from_this(), id = flight.id, index](llm::ChatOutcome outcome) {
                        // Shared because the function must be copyable.
                        auto shared = std::make_shared<llm::ChatOutcome>(std::move(outcome));
                        core->Post([raw = core.get(), id, index, shared] {
                          raw->OnOutcome(id, index, std::move(*shared));
                        });
                      });
  if (call.ok()) {
    sample.call = *call;
    return;
  }
  sample.done = true;
  sample.result.failure =
      Abstain(Cause::kEndpointUnavailable, std::string(call.status().message()));
}

void LlmBackend::Core::SendRest(Flight& flight) {
  if (flight.rest_sent) return;
  flight.rest_sent = true;
  const size_t first = flight.samples.size();
  flight.samples.resize(static_cast<size_t>(options_.samples));
  for (size_t index = first; index < flight.samples.size(); ++index) Submit(flight, index);
}

void LlmBackend::Core::OnOutcome(uint64_t flight_id, size_t index, llm::ChatOutcome outcome) {
  const auto found = flights_.find(flight_id);
  if (found == flights_.end()) return;
  Flight& flight = *found->second;
  Sample& sample = flight.samples[index];
  sample.call.reset();
  if (Take(flight, sample, std::move(outcome))) {
    Submit(flight, index);
  } else {
    sample.done = true;
    // Even if no first token was reported, the prompt is in the cache by now.
    if (index == 0 && sample.result.answer.has_value()) SendRest(flight);
  }
  Conclude(flight_id);
}

bool LlmBackend::Core::Report(Sample& sample, const llm::ChatOutcome& outcome,
                              RungOutcome verdict) {
  if (outcome.endpoint_index < 0) return false;
  const auto rung = static_cast<Rung>(outcome.shape_tag);
  if (metrics_ != nullptr) metrics_->Answered(rung, verdict);
  std::lock_guard lock(ladder_mutex_);
  return ladder_.Report({outcome.endpoint, outcome.model}, sample.walk->walk, rung, verdict,
                        clock_.MonotonicNs());
}

bool LlmBackend::Core::Take(Flight& flight, Sample& sample, llm::ChatOutcome outcome) {
  flight.usage.input_tokens += static_cast<uint64_t>(outcome.answer.usage.prompt_tokens);
  flight.usage.cached_input_tokens +=
      static_cast<uint64_t>(outcome.answer.usage.cached_prompt_tokens);
  flight.usage.output_tokens += static_cast<uint64_t>(outcome.answer.usage.completion_tokens);
  flight.usage.cost_dollars += outcome.cost;

  const llm::ErrorKind kind = outcome.error.kind;
  if (outcome.ok() || kind == llm::ErrorKind::kAnswerTooLarge) {
    flight.model = outcome.model;
    ParsedAnswer answer;
    const std::string excerpt = ExcerptOf(outcome.answer);
    const std::string cut_off = CutOffText(outcome.answer, options_.max_answer_tokens);
    if (outcome.ok()) {
      answer = ParseReply(*flight.input.bin_scheme, ReplyOf(std::move(outcome.answer)));
    } else {
      answer.fault = AnswerFault::kTooLong;
      answer.error = "the answer does not end";
    }
    const bool readable = answer.status != ParseStatus::kUnparsable;
    const bool lasting = !readable && IsLasting(answer.fault);
    // Another form of the question does not help against a limit or a refusal.
    Report(sample, outcome,
           readable  ? RungOutcome::kAnswered
           : lasting ? RungOutcome::kNoVerdict
                     : RungOutcome::kUnparsable);
    if (!readable) {
      if (answer.fault == AnswerFault::kCutOff) answer.error = cut_off;
      sample.result.excerpt = lasting ? answer.error : excerpt;
      if (metrics_ != nullptr) metrics_->Faulted(answer.fault);
      if (++sample.unreadable == 1 && !lasting) return true;
    } else if (metrics_ != nullptr) {
      for (const Repair repair : answer.repairs) metrics_->Mended(repair);
      if (answer.status != ParseStatus::kDeferred) {
        metrics_->ProbabilitySum(answer.forecast.raw_probability_sum);
      }
    }
    sample.result.answer = std::move(answer);
    return false;
  }
  const std::string reason =
      absl::StrCat(outcome.endpoint.empty() ? "" : outcome.endpoint + ": ",
                   std::string(llm::ErrorKindName(kind)), ": ", outcome.error.message);
  if (kind == llm::ErrorKind::kContextTooLong || kind == llm::ErrorKind::kContentFilter) {
    Report(sample, outcome, RungOutcome::kNoVerdict);
    if (kind == llm::ErrorKind::kContextTooLong && Shorten(flight, sample)) return true;
    sample.result.failure = Abstain(Cause::kNotCovered, reason);
    return false;
  }
  if (IsRefusal(outcome.error)) {
    if (Report(sample, outcome, RungOutcome::kRefused)) return true;
    // The endpoint is available but does not support this question in any format.
    sample.result.failure = Abstain(Cause::kNotCovered, reason);
    return false;
  }
  Report(sample, outcome, RungOutcome::kNoVerdict);
  flight.late = flight.late || kind == llm::ErrorKind::kDeadlineExceeded;
  sample.result.failure = Abstain(Cause::kEndpointUnavailable, reason);
  return false;
}

bool LlmBackend::Core::Shorten(Flight& flight, const Sample& sample) {
  if (!flight.shortened) {
    flight.shortened = true;
    ForecastInput input = flight.input;
    // Samples that compare with different kernels cannot be pooled.
    if (flight.samples.size() == 1) input.anchor = nullptr;
    const absl::StatusOr<RenderedPrompt> shorter =
        options_.prompt.Render(input, /*feedback=*/{}, options_.max_prompt_bytes);
    if (!shorter.ok()) return false;
    flight.input.anchor = input.anchor;
    flight.prompt = std::make_shared<const llm::Prompt>(MessagesOf(*shorter));
  }
  return flight.prompt->json().size() < sample.prompt_bytes;
}

PooledSamples LlmBackend::Core::Pool(const Flight& flight) const {
  std::vector<const ForecastSample*> samples;
  for (const Sample& sample : flight.samples) samples.push_back(&sample.result);
  PooledSamples pooled = PoolSamples({*flight.input.bin_scheme, flight.input.anchor.get(),
                                      flight.model, flight.prompt_version, version_},
                                     samples);
  // Without a first answer the others were not requested. The answer to a shortened prompt is not
  // the one that the key names.
  pooled.complete = pooled.complete && !flight.shortened &&
                    samples.size() == static_cast<size_t>(options_.samples);
  return pooled;
}

void LlmBackend::Core::Conclude(uint64_t flight_id) {
  const auto found = flights_.find(flight_id);
  if (found == flights_.end()) return;
  Flight& flight = *found->second;
  if (!std::ranges::all_of(flight.samples, &Sample::done)) return;

  const auto [result, complete, repairs] = Pool(flight);
  if (complete && cache_ != nullptr) cache_->Put(flight.key, result);
  std::vector<Waiter> waiters = std::move(flight.waiters);
  const ForecastInput input = std::move(flight.input);
  const kernelcast::TokenUsage usage = flight.usage;
  const int64_t deadline_ns = flight.deadline_ns;
  const bool ask_again = flight.late && std::holds_alternative<Abstention>(result);
  Forget(flight);
  bool first = true;
  for (Waiter& waiter : waiters) {
    if (ask_again && deadline_ns != kNoDeadline &&
        waiter.call.deadline_ns > deadline_ns + kWorthAskingAgainNs) {
      ForecastInput copy = input;
      copy.candidate.candidate_id = waiter.candidate_id;
      copy.baseline_candidate_id = waiter.baseline_candidate_id;
      waiter.on_leave.reset();
      Ask(std::move(copy), waiter.call, std::move(waiter.done));
      continue;
    }
    Settle(waiter, result, first ? usage : kernelcast::TokenUsage(),
           first ? repairs : std::set<Repair>());
    first = false;
  }
}

void LlmBackend::Core::Settle(Waiter& waiter, ForecastResult result,
                              const kernelcast::TokenUsage& usage,
                              const std::set<Repair>& repairs) {
  if (!waiter.call.again) said_.Remember(waiter.question, result);
  std::vector<std::string> mended;
  for (const Repair repair : repairs) mended.emplace_back(kernelcast::Name(repair));
  ModelAnswer model;
  if (auto* forecast = std::get_if<kernelcast::Forecast>(&result)) {
    forecast->candidate_id = waiter.candidate_id;
    forecast->baseline_candidate_id = waiter.baseline_candidate_id;
    forecast->token_usage = usage;
    model.outcome = ModelOutcome::kUsed;
    model.token_usage = usage;
    model.repairs = std::move(mended);
    forecast->model = model;
    if (metrics_ != nullptr) metrics_->Forecasted();
  } else {
    auto& abstention = std::get<Abstention>(result);
    model = abstention.model.value_or(AnswerOf(abstention));
    model.token_usage = usage;
    model.repairs = std::move(mended);
    abstention.model = model;
    if (metrics_ != nullptr) metrics_->Abstained(abstention.cause);
  }
  // A repeated answer was counted the first time.
  if (!waiter.call.again) {
    std::lock_guard lock(use_mutex_);
    use_.Add(model);
  }
  waiter.on_leave.reset();
  waiter.done(std::move(result));
}

LlmBackend::LlmBackend(LlmBackendOptions options, llm::ChatClient* client, ForecastCache* cache,
                       LlmMetrics* metrics, const Clock& clock)
    : core_(std::make_shared<Core>(std::move(options), client, cache, metrics, clock)) {}

LlmBackend::~LlmBackend() { core_->Stop(); }

void LlmBackend::Forecast(ForecastInput input, const ForecastCall& call, Done done) {
  // Shared because the function must be copyable.
  auto shared = std::make_shared<ForecastInput>(std::move(input));
  core_->Post([core = core_.get(), shared, call, done = std::move(done)]() mutable {
    core->Ask(std::move(*shared), call, std::move(done));
  });
}

void LlmBackend::Observe(std::vector<ObservedLabel> labels) { core_->Learn(labels); }

BackendDescription LlmBackend::Describe() const {
  BackendDescription description;
  description.name = kName;
  description.version = core_->version();
  description.prompts.push_back(core_->options().prompt.Describe());
  description.model_use = core_->use();
  return description;
}

absl::StatusOr<RenderedPrompt> LlmBackend::ShowPrompt(const ForecastInput& input) const {
  return core_->Render(input);
}

}  // namespace kernelcast::forecaster
