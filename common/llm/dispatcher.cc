#include "common/llm/dispatcher.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/trace_context.h"
#include "common/llm/request_body.h"
#include "common/tracing/tracer.h"

namespace kernelcast::llm {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// Upper limit of the delay that an endpoint can request.
constexpr int64_t kMaxPauseNs = 3600LL * 1'000'000'000;
// A call that reaches its caller's deadline counts against the endpoint only if the endpoint had at
// least this long.
constexpr int64_t kFairChanceNs = 1'000'000'000;
constexpr size_t kMinKeyToRedact = 6;

double Cost(const Prices& prices, const TokenUsage& usage) {
  const int64_t fresh = usage.prompt_tokens - usage.cached_prompt_tokens;
  return (static_cast<double>(fresh) * prices.prompt +
          static_cast<double>(usage.cached_prompt_tokens) * prices.cached_prompt +
          static_cast<double>(usage.completion_tokens) * prices.completion) /
         1e6;
}

// "60 s", "0.3 s"
std::string SecondsText(int64_t duration_ns) {
  return absl::StrCat(static_cast<double>(duration_ns / 1'000'000) / 1000, " s");
}

ChatError MakeError(ErrorKind kind, std::string message) {
  ChatError error;
  error.kind = kind;
  error.message = std::move(message);
  return error;
}

void Redact(std::string& text, const std::string& key) {
  if (key.size() < kMinKeyToRedact) return;
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
    text.replace(at, key.size(), "[key]");
  }
}

}  // namespace

struct Dispatcher::Attempt final : TransferSink {
  Attempt(Dispatcher& d, Call& c, EndpointState& e, const AnswerLimits& limits, int64_t wall_ns)
      : dispatcher(d), call(&c), endpoint(e), reader(limits, wall_ns) {}

  // Receiving headers does not count as progress: many servers send them long before the model
  // starts.
  void OnStatus(int http_status) override { reader.OnStatus(http_status); }
  void OnHeader(std::string_view name, std::string_view value) override {
    reader.OnHeader(name, value);
  }
  bool OnBody(std::string_view bytes) override {
    last_byte_ns = dispatcher.clock_.MonotonicNs();
    saw_byte = true;
    const bool had_token = reader.has_token();
    const bool more = reader.OnBody(bytes);
    if (!more || had_token != reader.has_token()) Touch();
    return more;
  }
  void OnEnd(TransferEnd end, std::string_view message) override {
    transfer_ended = true;
    reader.OnEnd(end, message);
    Touch();
  }
  void Touch() {
    if (touched) return;
    touched = true;
    dispatcher.touched_.push_back(this);
  }

  // Names the endpoint that was asked, and how.
  void Describe(ChatOutcome& outcome) const {
    outcome.endpoint_index = endpoint.index;
    outcome.endpoint = endpoint.config.name;
    outcome.model = model;
    outcome.shape_tag = shape_tag;
  }

  Dispatcher& dispatcher;
  Call* call;  // null once retired
  EndpointState& endpoint;
  ResponseReader reader;
  TransferId transfer = 0;
  std::string model;
  int shape_tag = 0;
  bool hedge = false;
  EndpointPool::Slot slot;
  int64_t last_byte_ns = 0;
  bool saw_byte = false;  // of the body
  bool first_token_reported = false;
  bool transfer_ended = false;
  bool touched = false;
  Span span;  // without a trace if the call has none
};

struct Dispatcher::Call {
  uint64_t id = 0;
  ChatRequest request;
  Done done;
  int64_t submitted_ns = 0;
  int64_t bytes = 0;
  int64_t deadline_ns = 0;

  // Queued, waiting to be queued again, or in flight with one or two attempts.
  bool queued = false;
  std::list<Call*>::iterator queue_place;
  int64_t ready_ns = 0;  // when a waiting call becomes ready; 0: not waiting
  std::vector<std::unique_ptr<Attempt>> attempts;

  std::multimap<int64_t, Call*>::iterator timer;
  bool has_timer = false;

  int tries = 0;  // attempts without hedges
  int sent = 0;   // all attempts
  bool hedged = false;
  bool hedge_considered = false;
  int last_endpoint = -1;
  uint64_t excluded = 0;  // bit set of endpoints that will not serve it
  bool first_token_reported = false;
  // Information about the last attempt that reported something.
  ChatOutcome outcome;
};

Dispatcher::Dispatcher(const LlmConfig& config, Transport& transport, const Clock& clock,
                       Random random, StatsBoard& stats, LlmObserver* observer)
    : config_(config),
      transport_(transport),
      clock_(clock),
      random_(std::move(random)),
      stats_(stats),
      observer_(observer),
      endpoints_(config, random_, stats, observer),
      budget_(config.retry_budget_ratio, config.retry_budget_reserve) {}

Dispatcher::~Dispatcher() {
  for (const auto& [id, call] : calls_) {
    for (const std::unique_ptr<Attempt>& attempt : call->attempts) {
      if (!attempt->transfer_ended) transport_.Cancel(attempt->transfer);
    }
  }
}

void Dispatcher::Submit(uint64_t id, ChatRequest request, Done done, int64_t submitted_ns,
                        int64_t bytes) {
  now_ns_ = clock_.MonotonicNs();
  auto owned = std::make_unique<Call>();
  Call& call = *owned;
  call.id = id;
  call.request = std::move(request);
  call.done = std::move(done);
  call.submitted_ns = submitted_ns;
  call.bytes = bytes;
  call.deadline_ns =
      call.request.deadline_ns != 0 ? call.request.deadline_ns : submitted_ns + config_.total_ns;
  calls_.emplace(id, std::move(owned));
  budget_.OnCall();
  SetTimer(call, call.deadline_ns);
  Enqueue(call);
  if (call.deadline_ns <= now_ns_) {
    End(call, MakeError(ErrorKind::kDeadlineExceeded, "the deadline has passed"));
  } else if (WhyHopeless(call) != ErrorKind::kNone) {
    look_for_hopeless_ = true;
  }
}

void Dispatcher::Cancel(uint64_t id) {
  now_ns_ = clock_.MonotonicNs();
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  End(*found->second, MakeError(ErrorKind::kCancelled, "cancelled"));
}

void Dispatcher::CancelAll() {
  now_ns_ = clock_.MonotonicNs();
  while (!calls_.empty()) {
    End(*calls_.begin()->second, MakeError(ErrorKind::kCancelled, "the client is shutting down"));
  }
}

int64_t Dispatcher::NextWakeNs() const {
  if (!touched_.empty() || !notices_.empty() || look_for_hopeless_ || endpoints_.lost()) return 0;
  const int64_t wake_ns = timers_.empty() ? kNever : timers_.begin()->first;
  return queue_.empty() ? wake_ns : std::min(wake_ns, endpoints_.NextRoomNs(now_ns_));
}

void Dispatcher::Step() {
  now_ns_ = clock_.MonotonicNs();
  // Handling may cancel transfers, but that calls no sinks, so touched_ does not grow here.
  for (Attempt* const attempt : touched_) {
    attempt->touched = false;
    if (attempt->call != nullptr) OnTouched(*attempt);
  }
  touched_.clear();
  while (!timers_.empty() && timers_.begin()->first <= now_ns_) {
    OnTimer(*timers_.begin()->second);
  }
  if (look_for_hopeless_ || endpoints_.lost()) EndHopeless();
  Pump();
  retired_attempts_.clear();
  if (observer_ != nullptr) observer_->OnLoad(stats_.Load());

  std::vector<std::function<void()>> notices;
  notices.swap(notices_);
  for (const std::function<void()>& notice : notices) notice();
}

int Dispatcher::Choose(const Call& call, int other_than) const {
  return endpoints_.Choose({call.request.preferred_endpoint, call.excluded, other_than}, now_ns_);
}

ErrorKind Dispatcher::WhyHopeless(const Call& call) const {
  return endpoints_.WhyHopeless({call.excluded, call.request.wait_for_recovery, call.deadline_ns},
                                now_ns_);
}

void Dispatcher::Pump() {
  for (auto place = queue_.begin(); place != queue_.end();) {
    if (!endpoints_.HasRoom(now_ns_)) return;
    Call& call = **place++;
    const int endpoint = Choose(call, call.last_endpoint);
    if (endpoint < 0) continue;
    Unqueue(call);
    Send(call, endpoint, /*hedge=*/false);
  }
}

void Dispatcher::EndHopeless() {
  look_for_hopeless_ = false;
  endpoints_.ClearLoss();
  for (auto place = queue_.begin(); place != queue_.end();) {
    Call& call = **place++;
    const ErrorKind why = WhyHopeless(call);
    if (why == ErrorKind::kNone) continue;
    ChatError error = call.outcome.error;
    // The error seen earlier is more informative than "no more attempts".
    if (error.kind == ErrorKind::kNone || MayPass(error.kind)) {
      const std::string before =
          error.kind == ErrorKind::kNone ? "" : absl::StrCat("; before: ", error.message);
      error.kind = why;
      error.message = absl::StrCat(why == ErrorKind::kCircuitOpen
                                       ? "every endpoint is down"
                                       : "every endpoint requests a delay beyond the deadline",
                                   before);
      error.retry_after_ns = endpoints_.WaitNs(why, now_ns_);
    }
    End(call, std::move(error));
  }
}

void Dispatcher::Enqueue(Call& call) {
  call.ready_ns = 0;
  call.queued = true;
  // Retries go to the front of the queue.
  call.queue_place =
      call.tries > 0 ? queue_.insert(queue_.begin(), &call) : queue_.insert(queue_.end(), &call);
}

void Dispatcher::Unqueue(Call& call) {
  if (!call.queued) return;
  queue_.erase(call.queue_place);
  call.queued = false;
}

void Dispatcher::Send(Call& call, int index, bool hedge) {
  EndpointState& endpoint = endpoints_.at(index);
  AnswerLimits limits;
  limits.max_answer_bytes =
      call.request.max_answer_bytes > 0 ? call.request.max_answer_bytes : config_.max_answer_bytes;
  limits.max_whitespace_run = call.request.max_whitespace_run;
  auto owned = std::make_unique<Attempt>(*this, call, endpoint, limits, clock_.WallNs());
  Attempt& attempt = *owned;
  attempt.model = call.request.model.empty() ? endpoint.config.model : call.request.model;
  attempt.hedge = hedge;
  attempt.last_byte_ns = now_ns_;
  const ResponseShape shape = call.request.shape_for
                                  ? call.request.shape_for(endpoints_.Ref(index, attempt.model))
                                  : call.request.shape;
  attempt.shape_tag = shape.tag;

  attempt.slot = endpoints_.Start(index, now_ns_);
  if (call.sent == 0) call.outcome.queued_ns = now_ns_ - call.submitted_ns;
  ++call.sent;
  if (!hedge) ++call.tries;
  const bool was_queued = call.attempts.empty();
  call.last_endpoint = index;
  call.hedge_considered = hedge || call.hedged;
  stats_.Update([&](ClientStats& stats) {
    ++stats.endpoints[index].attempts_started;
    if (hedge) ++stats.endpoints[index].hedges;
    if (was_queued) --stats.calls_queued;
  });
  endpoints_.ReportConcurrency(index);
  call.attempts.push_back(std::move(owned));
  // Attributes follow OpenTelemetry's conventions for generative AI, without any texts.
  attempt.span =
      StartSpan(absl::StrCat("chat ", attempt.model), SpanKind::kClient, &call.request.trace);
  if (attempt.span.recording()) {
    attempt.span.Set("gen_ai.operation.name", std::string("chat"));
    attempt.span.Set("gen_ai.request.model", attempt.model);
    attempt.span.Set("kernelcast.endpoint", endpoint.config.name);
    attempt.span.Set("kernelcast.attempt", int64_t{call.sent});
    attempt.span.Set("kernelcast.hedge", hedge);
  }
  const TraceScope scope(&attempt.span.context());
  attempt.transfer =
      transport_.Start(index, BuildRequestBody(endpoint.config, call.request, shape), &attempt);
  SetTimer(call, DueNs(call));
}

void Dispatcher::SetTimer(Call& call, int64_t at_ns) {
  if (call.has_timer) {
    // A later time is handled when the earlier timer fires.
    if (call.timer->first <= at_ns) return;
    timers_.erase(call.timer);
  }
  call.timer = timers_.emplace(at_ns, &call);
  call.has_timer = true;
}

int64_t Dispatcher::DueNs(Call& call) {
  int64_t due_ns = call.deadline_ns;
  if (call.ready_ns != 0) due_ns = std::min(due_ns, call.ready_ns);
  for (const std::unique_ptr<Attempt>& attempt : call.attempts) {
    due_ns =
        std::min(due_ns, attempt->saw_byte ? attempt->last_byte_ns + config_.silence_timeout_ns
                                           : attempt->slot.sent_ns + config_.first_byte_timeout_ns);
  }
  if (!call.hedge_considered && call.attempts.size() == 1 && config_.hedge &&
      call.request.may_hedge && !call.attempts[0]->first_token_reported) {
    const int64_t p95_ns = call.attempts[0]->endpoint.first_tokens.P95Ns();
    if (p95_ns > 0) {
      due_ns = std::min(
          due_ns, call.attempts[0]->slot.sent_ns + std::max(p95_ns, config_.hedge_min_delay_ns));
    }
  }
  return due_ns;
}

void Dispatcher::OnTimer(Call& call) {
  timers_.erase(call.timer);
  call.has_timer = false;
  if (now_ns_ >= call.deadline_ns) {
    ChatError error = call.outcome.error;
    const std::string before =
        error.kind == ErrorKind::kNone ? "" : absl::StrCat("; before: ", error.message);
    error.kind = ErrorKind::kDeadlineExceeded;
    error.message = absl::StrCat(
        call.attempts.empty() ? "no endpoint had room" : "no complete answer came",
        " before the deadline, within ", SecondsText(now_ns_ - call.submitted_ns), before);
    return End(call, std::move(error));
  }
  if (call.ready_ns != 0 && now_ns_ >= call.ready_ns) {
    Enqueue(call);
    if (WhyHopeless(call) != ErrorKind::kNone) look_for_hopeless_ = true;
  }
  const uint64_t id = call.id;
  for (size_t i = call.attempts.size(); i-- > 0;) {
    Attempt& attempt = *call.attempts[i];
    ChatError error;
    if (!attempt.saw_byte && now_ns_ >= attempt.slot.sent_ns + config_.first_byte_timeout_ns) {
      error.kind = ErrorKind::kFirstByteTimeout;
      error.message =
          absl::StrCat("no byte of an answer came within ",
                       SecondsText(config_.first_byte_timeout_ns), " (timeouts.first_byte_ms)");
    } else if (attempt.saw_byte && now_ns_ >= attempt.last_byte_ns + config_.silence_timeout_ns) {
      error.kind = ErrorKind::kSilenceTimeout;
      error.message =
          absl::StrCat("the answer stopped coming for ", SecondsText(config_.silence_timeout_ns),
                       " (timeouts.silence_ms)");
    } else {
      continue;
    }
    OnFailure(attempt, std::move(error), /*retry_is_useless=*/false);
    if (!calls_.contains(id)) return;
  }
  if (!call.hedge_considered && call.attempts.size() == 1 && DueNs(call) <= now_ns_) {
    call.hedge_considered = true;
    TryHedge(call);
  }
  // Never in the past: everything that is due now has been done.
  SetTimer(call, std::max(DueNs(call), now_ns_ + 1));
}

void Dispatcher::TryHedge(Call& call) {
  const int endpoint = Choose(call, call.attempts[0]->endpoint.index);
  if (endpoint < 0) return;
  // A hedge must not be the probe of a breaker.
  if (endpoints_.at(endpoint).breaker.state() != BreakerState::kClosed) return;
  if (!budget_.Take()) {
    stats_.Update([](ClientStats& stats) { ++stats.retries_denied; });
    return;
  }
  call.hedged = true;
  if (observer_ != nullptr) observer_->OnHedge(endpoint);
  Send(call, endpoint, /*hedge=*/true);
}

void Dispatcher::OnTouched(Attempt& attempt) {
  if (attempt.reader.has_token() && !attempt.first_token_reported) OnFirstToken(attempt);
  if (!attempt.reader.ended()) return;
  if (attempt.reader.error().kind == ErrorKind::kNone) return OnAnswer(attempt);
  OnFailure(attempt, attempt.reader.error(), attempt.reader.retry_is_useless());
}

void Dispatcher::OnFirstToken(Attempt& attempt) {
  Call& call = *attempt.call;
  attempt.first_token_reported = true;
  const int64_t since_sent_ns = now_ns_ - attempt.slot.sent_ns;
  attempt.endpoint.first_tokens.Add(since_sent_ns);
  if (observer_ != nullptr) observer_->OnFirstToken(attempt.endpoint.index, since_sent_ns);
  // The race is decided: cancel the other attempts.
  for (size_t i = call.attempts.size(); i-- > 0;) {
    if (call.attempts[i].get() != &attempt) CancelAttempt(*call.attempts[i], ErrorKind::kCancelled);
  }
  if (attempt.hedge) {
    stats_.Update(
        [&](ClientStats& stats) { ++stats.endpoints[attempt.endpoint.index].hedges_won; });
    if (observer_ != nullptr) observer_->OnHedgeWon(attempt.endpoint.index);
  }
  call.outcome.first_token_ns = now_ns_ - call.submitted_ns;
  if (call.first_token_reported) return;
  call.first_token_reported = true;
  if (!call.request.on_first_token) return;
  notices_.emplace_back([tell = std::move(call.request.on_first_token), model = attempt.model,
                         endpoint = endpoints_.Ref(attempt.endpoint.index, "")]() mutable {
    endpoint.model = model;
    tell(endpoint);
  });
}

void Dispatcher::OnAnswer(Attempt& attempt) {
  Call& call = *attempt.call;
  ChatOutcome outcome = std::move(call.outcome);
  outcome.error = ChatError{};
  outcome.answer = attempt.reader.TakeAnswer();
  attempt.Describe(outcome);
  const TokenUsage& usage = outcome.answer.usage;
  if (usage.known) {
    attempt.span.Set("gen_ai.usage.input_tokens", usage.prompt_tokens);
    attempt.span.Set("gen_ai.usage.output_tokens", usage.completion_tokens);
  }
  outcome.cost = usage.known ? Cost(attempt.endpoint.config.prices, usage) : 0;
  stats_.Update([&](ClientStats& stats) {
    EndpointStats& endpoint = stats.endpoints[attempt.endpoint.index];
    endpoint.prompt_tokens += usage.prompt_tokens;
    endpoint.cached_prompt_tokens += usage.cached_prompt_tokens;
    endpoint.completion_tokens += usage.completion_tokens;
    endpoint.cost += outcome.cost;
    if (!usage.known) ++endpoint.answers_without_usage;
  });
  if (observer_ != nullptr) {
    observer_->OnUsage(attempt.endpoint.index, usage, outcome.cost);
  }
  if (!attempt.transfer_ended) {
    if (attempt.reader.may_drain()) {
      transport_.Drain(attempt.transfer);
    } else {
      transport_.Cancel(attempt.transfer);
    }
    attempt.transfer_ended = true;
  }
  Close(attempt, ErrorKind::kNone);
  Retire(attempt);
  Finish(call, std::move(outcome));
}

void Dispatcher::OnFailure(Attempt& attempt, ChatError error, bool retry_is_useless) {
  Call& call = *attempt.call;
  EndpointState& endpoint = attempt.endpoint;
  Redact(error.message, endpoint.config.api_key);
  Redact(error.code, endpoint.config.api_key);
  call.outcome.error = std::move(error);
  call.outcome.answer = attempt.reader.TakeAnswer();
  attempt.Describe(call.outcome);
  const ErrorKind kind = call.outcome.error.kind;

  if (!attempt.transfer_ended) {
    transport_.Cancel(attempt.transfer);
    attempt.transfer_ended = true;
  }
  if (IsOverload(kind) && call.outcome.error.retry_after_ns > 0) {
    const int64_t pause_ns = std::min(call.outcome.error.retry_after_ns, kMaxPauseNs);
    endpoints_.Pause(endpoint.index, now_ns_ + pause_ns);
  }
  if (IsEndpointFault(kind)) call.excluded |= uint64_t{1} << endpoint.index;
  Close(attempt, kind);
  Retire(attempt);
  // The other attempt may still answer.
  if (!call.attempts.empty()) return;
  RetryOrEnd(call, retry_is_useless);
}

void Dispatcher::Close(Attempt& attempt, ErrorKind result) {
  const bool unheard = result == ErrorKind::kDeadlineExceeded && !attempt.saw_byte &&
                       now_ns_ - attempt.slot.sent_ns >= kFairChanceNs;
  if (result != ErrorKind::kNone) {
    attempt.span.Set("error.type", std::string(ErrorKindName(result)));
    // The loser of a race is not a failure.
    if (result != ErrorKind::kCancelled) attempt.span.Fail(ErrorKindName(result));
  }
  attempt.span.End();
  endpoints_.Close(attempt.slot, result, unheard, now_ns_);
}

void Dispatcher::CancelAttempt(Attempt& attempt, ErrorKind result) {
  if (!attempt.transfer_ended) transport_.Cancel(attempt.transfer);
  attempt.transfer_ended = true;
  Close(attempt, result);
  Retire(attempt);
}

void Dispatcher::Retire(Attempt& attempt) {
  std::vector<std::unique_ptr<Attempt>>& attempts = attempt.call->attempts;
  attempt.call = nullptr;
  const auto place = std::find_if(attempts.begin(), attempts.end(),
                                  [&](const auto& owned) { return owned.get() == &attempt; });
  retired_attempts_.push_back(std::move(*place));
  attempts.erase(place);
}

void Dispatcher::RetryOrEnd(Call& call, bool retry_is_useless) {
  stats_.Update([](ClientStats& stats) { ++stats.calls_queued; });
  const ChatError& error = call.outcome.error;
  const bool elsewhere = endpoints_.HasAnother(call.outcome.endpoint_index, call.excluded, now_ns_);
  const bool worth_it =
      IsEndpointFault(error.kind) ? elsewhere : MayPass(error.kind) && !retry_is_useless;
  if (!worth_it || call.tries >= config_.max_attempts) return End(call, error);

  int64_t wait_ns = 0;
  if (!IsEndpointFault(error.kind)) {
    wait_ns = BackoffNs(call.tries - 1, config_.backoff_base_ns, config_.backoff_cap_ns,
                        elsewhere ? 0 : error.retry_after_ns, random_());
  }
  if (now_ns_ + wait_ns >= call.deadline_ns) return End(call, error);
  if (!budget_.Take()) {
    stats_.Update([](ClientStats& stats) { ++stats.retries_denied; });
    return End(call, error);
  }
  stats_.Update([&](ClientStats& stats) {
    ++stats.endpoints[call.outcome.endpoint_index]
          .retries_by_reason[static_cast<size_t>(error.kind)];
  });
  if (observer_ != nullptr) observer_->OnRetry(call.outcome.endpoint_index, error.kind);
  call.ready_ns = now_ns_ + wait_ns;
  SetTimer(call, call.ready_ns);
}

void Dispatcher::End(Call& call, ChatError error) {
  const ErrorKind attempt_result = error.kind == ErrorKind::kDeadlineExceeded
                                       ? ErrorKind::kDeadlineExceeded
                                       : ErrorKind::kCancelled;
  const bool in_flight = !call.attempts.empty();
  while (!call.attempts.empty()) {
    Attempt& attempt = *call.attempts.back();
    call.outcome.answer = attempt.reader.TakeAnswer();
    attempt.Describe(call.outcome);
    CancelAttempt(attempt, attempt_result);
  }
  if (in_flight) stats_.Update([](ClientStats& stats) { ++stats.calls_queued; });
  ChatOutcome outcome = std::move(call.outcome);
  outcome.error = std::move(error);
  stats_.Update([](ClientStats& stats) { --stats.calls_queued; });
  Finish(call, std::move(outcome));
}

void Dispatcher::Finish(Call& call, ChatOutcome outcome) {
  outcome.attempts = call.sent;
  outcome.hedged = call.hedged;
  outcome.latency_ns = now_ns_ - call.submitted_ns;
  if (call.sent == 0) outcome.queued_ns = outcome.latency_ns;
  Unqueue(call);
  if (call.has_timer) timers_.erase(call.timer);
  stats_.Update([&](ClientStats& stats) {
    --stats.calls_pending;
    stats.pending_bytes -= call.bytes;
    ++stats.calls_by_result[static_cast<size_t>(outcome.error.kind)];
  });
  if (observer_ != nullptr) observer_->OnCall(outcome);
  notices_.emplace_back([done = std::move(call.done), outcome = std::move(outcome)]() mutable {
    done(std::move(outcome));
  });
  calls_.erase(call.id);
}

}  // namespace kernelcast::llm
