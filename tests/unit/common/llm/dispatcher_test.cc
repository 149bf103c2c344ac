#include "common/llm/dispatcher.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kernelcast::llm {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
const char kToken[] = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
const char kEnd[] =
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1000000,\"completion_tokens\":500000,"
    "\"prompt_tokens_details\":{\"cached_tokens\":400000}}}\n\ndata: [DONE]\n\n";

class FakeTransport final : public Transport {
 public:
  struct Transfer {
    TransferId id;
    int endpoint;
    std::string body;
    TransferSink* sink;
  };

  TransferId Start(int endpoint, std::string body, TransferSink* sink) override {
    live.push_back({++last_id, endpoint, std::move(body), sink});
    return last_id;
  }
  void Cancel(TransferId id) override { cancelled += Forget(id) ? 1 : 0; }
  void Drain(TransferId id) override { drained += Forget(id) ? 1 : 0; }

  bool Forget(TransferId id) {
    return std::erase_if(live, [id](const Transfer& t) { return t.id == id; }) > 0;
  }
  Transfer Take(size_t at) {
    const Transfer transfer = live[at];
    live.erase(live.begin() + static_cast<long>(at));
    return transfer;
  }

  std::vector<Transfer> live;
  TransferId last_id = 0;
  int cancelled = 0;
  int drained = 0;
};

// A dispatcher with a fake environment. Endpoint names are "e0", "e1", ...
class World {
 public:
  explicit World(int endpoints = 1) {
    for (int i = 0; i < endpoints; ++i) {
      EndpointConfig endpoint;
      endpoint.name = "e" + std::to_string(i);
      endpoint.url = "http://127.0.0.1:1/v1";
      endpoint.model = "m" + std::to_string(i);
      config.endpoints.push_back(endpoint);
    }
    config.retry_budget_reserve = 1000;
    config.total_ns = 1000 * kSecond;
  }

  Dispatcher& dispatcher() {
    if (!dispatcher_.has_value()) {
      ClientStats stats;
      stats.endpoints.resize(config.endpoints.size());
      board.emplace(stats);
      dispatcher_.emplace(
          config, transport, clock, [this] { return uniform; }, *board, nullptr);
    }
    return *dispatcher_;
  }

  ChatRequest Request() {
    ChatRequest request;
    request.prompt = std::make_shared<const Prompt>(std::vector<ChatMessage>{{"user", "question"}});
    return request;
  }
  uint64_t Ask() { return Ask(Request()); }
  uint64_t Ask(ChatRequest request) {
    dispatcher();
    const uint64_t id = ++last_call;
    REQUIRE(board->Admit(1'000'000, 1 << 30, 100));
    dispatcher().Submit(
        id, std::move(request),
        [this, id](ChatOutcome outcome) {
          CHECK(!outcomes.contains(id));
          outcomes[id] = std::move(outcome);
        },
        clock.MonotonicNs(), 100);
    dispatcher().Step();
    return id;
  }

  // Steps whenever a timer is due.
  void Advance(int64_t delta_ns) {
    const int64_t end_ns = clock.MonotonicNs() + delta_ns;
    while (dispatcher().NextWakeNs() <= end_ns) {
      clock.Advance(std::max<int64_t>(dispatcher().NextWakeNs() - clock.MonotonicNs(), 0));
      dispatcher().Step();
    }
    clock.Advance(end_ns - clock.MonotonicNs());
    dispatcher().Step();
  }
  void Token(size_t at = 0) {
    transport.live.at(at).sink->OnStatus(200);
    transport.live.at(at).sink->OnBody(kToken);
    dispatcher().Step();
  }
  void Answer(size_t at = 0) {
    FakeTransport::Transfer& transfer = transport.live.at(at);
    transfer.sink->OnStatus(200);
    transfer.sink->OnBody(std::string(kToken) + kEnd);
    dispatcher().Step();
  }
  void Status(int status, const std::string& headers = "", const std::string& body = "",
              size_t at = 0) {
    const FakeTransport::Transfer transfer = transport.Take(at);
    transfer.sink->OnStatus(status);
    if (!headers.empty()) {
      transfer.sink->OnHeader(headers.substr(0, headers.find(':')),
                              headers.substr(headers.find(':') + 1));
    }
    if (!body.empty()) transfer.sink->OnBody(body);
    transfer.sink->OnEnd(TransferEnd::kFinished, "");
    dispatcher().Step();
  }
  void Lose(TransferEnd end, size_t at = 0) {
    const FakeTransport::Transfer transfer = transport.Take(at);
    transfer.sink->OnEnd(end, "lost");
    dispatcher().Step();
  }
  // Makes calls until the 95th percentile of the first token is `latency_ns`.
  void Warm(int64_t latency_ns) {
    for (int i = 0; i < 40; ++i) {
      ChatRequest request = Request();
      request.may_hedge = false;
      Ask(request);
      Advance(latency_ns);
      Answer(transport.live.size() - 1);
    }
  }
  ErrorKind Kind(uint64_t id) {
    REQUIRE(outcomes.contains(id));
    return outcomes[id].error.kind;
  }
  ClientStats Stats() { return board->Snapshot(); }
  void CheckSettled() {
    const ClientStats stats = Stats();
    CHECK(stats.calls_pending == 0);
    CHECK(stats.calls_queued == 0);
    CHECK(stats.pending_bytes == 0);
    CHECK(transport.live.empty());
    int64_t ended = 0;
    for (const int64_t count : stats.calls_by_result) ended += count;
    CHECK(ended == stats.calls_submitted);
    CHECK(static_cast<int64_t>(outcomes.size()) == stats.calls_submitted);
    for (const EndpointStats& endpoint : stats.endpoints) {
      CHECK(endpoint.in_flight == 0);
      int64_t attempts = 0;
      for (const int64_t count : endpoint.attempts_by_result) attempts += count;
      CHECK(attempts == endpoint.attempts_started);
    }
  }

  LlmConfig config;
  FakeClock clock;
  FakeTransport transport;
  double uniform = 0.5;
  std::optional<StatsBoard> board;
  std::map<uint64_t, ChatOutcome> outcomes;
  uint64_t last_call = 0;

 private:
  std::optional<Dispatcher> dispatcher_;
};

}  // namespace

TEST_CASE("An answer arrives once, with its endpoint, times, tokens and cost", "[llm]") {
  World world;
  world.config.endpoints[0].prices = {2, 1, 10};
  ChatRequest request = world.Request();
  request.shape.tag = 7;
  std::vector<std::string> first_tokens;
  request.on_first_token = [&](const EndpointRef& endpoint) {
    first_tokens.push_back(std::string(endpoint.name) + "/" + std::string(endpoint.model));
  };
  const uint64_t call = world.Ask(request);
  REQUIRE(world.transport.live.size() == 1);
  world.Advance(30 * kMs);
  world.Token();
  CHECK(first_tokens == std::vector<std::string>{"e0/m0"});
  CHECK(world.outcomes.empty());
  world.Advance(20 * kMs);
  world.Answer();
  REQUIRE(world.outcomes.contains(call));
  const ChatOutcome& outcome = world.outcomes[call];
  CHECK(outcome.ok());
  CHECK(outcome.answer.content == "hihi");
  CHECK(outcome.endpoint == "e0");
  CHECK(outcome.model == "m0");
  CHECK(outcome.shape_tag == 7);
  CHECK(outcome.attempts == 1);
  CHECK(outcome.first_token_ns == 30 * kMs);
  CHECK(outcome.latency_ns == 50 * kMs);
  CHECK(outcome.cost == Approx(0.6 * 2 + 0.4 * 1 + 0.5 * 10));
  CHECK(first_tokens.size() == 1);
  CHECK(world.transport.drained == 1);
  CHECK(world.Stats().endpoints[0].cached_prompt_tokens == 400'000);
  world.CheckSettled();
}

TEST_CASE("Retry-After is a lower bound that also holds for the endpoint's other calls", "[llm]") {
  World world;
  world.uniform = 0;
  const uint64_t first = world.Ask();
  world.Status(429, "Retry-After:10");
  const uint64_t second = world.Ask();
  world.Advance(10 * kSecond - kMs);
  CHECK(world.transport.live.empty());
  world.Advance(2 * kMs);
  REQUIRE(world.transport.live.size() == 2);
  world.Answer(1);
  world.Answer(0);
  CHECK(world.Kind(first) == ErrorKind::kNone);
  CHECK(world.Kind(second) == ErrorKind::kNone);
  CHECK(world.outcomes[first].attempts == 2);
  world.CheckSettled();
}

TEST_CASE("A Retry-After past the deadline ends the call immediately and reports the delay",
          "[llm]") {
  World world;
  ChatRequest request = world.Request();
  request.deadline_ns = world.clock.MonotonicNs() + 5 * kSecond;
  const uint64_t call = world.Ask(request);
  world.Status(429, "Retry-After:10");
  CHECK(world.Kind(call) == ErrorKind::kRateLimited);
  CHECK(world.outcomes[call].error.retry_after_ns == 10 * kSecond);
  // The next one fails the same way, without being sent.
  request.deadline_ns = world.clock.MonotonicNs() + 5 * kSecond;
  const uint64_t next = world.Ask(request);
  world.Advance(0);
  CHECK(world.Kind(next) == ErrorKind::kRateLimited);
  CHECK(world.outcomes[next].attempts == 0);
  world.CheckSettled();
}

TEST_CASE("An exhausted spend limit is not retried there, but elsewhere", "[llm]") {
  World alone;
  const uint64_t call = alone.Ask();
  alone.Status(429, "", R"({"error":{"code":"insufficient_quota","message":"pay"}})");
  CHECK(alone.Kind(call) == ErrorKind::kSpendLimit);
  alone.Advance(kSecond);
  CHECK(alone.transport.last_id == 1);
  alone.CheckSettled();

  World two(2);
  two.config.endpoints[1].weight = 1e-3;
  const uint64_t other = two.Ask();
  CHECK(two.transport.live[0].endpoint == 0);
  two.Status(429, "", R"({"error":{"code":"insufficient_quota"}})");
  two.Advance(0);
  REQUIRE(two.transport.live.size() == 1);
  CHECK(two.transport.live[0].endpoint == 1);
  two.Answer();
  CHECK(two.Kind(other) == ErrorKind::kNone);
  // No other call goes there meanwhile.
  two.Ask();
  CHECK(two.transport.live[0].endpoint == 1);
  two.Answer();
  two.CheckSettled();
}

TEST_CASE("Only transient errors are retried", "[llm]") {
  for (const int status : {500, 502, 503, 429, 408}) {
    World world;
    const uint64_t call = world.Ask();
    world.Status(status);
    CHECK(world.outcomes.empty());
    world.Advance(kSecond);
    REQUIRE(world.transport.live.size() == 1);
    world.Answer();
    CHECK(world.Kind(call) == ErrorKind::kNone);
    world.CheckSettled();
  }
  for (const int status : {400, 401, 402, 403, 404, 413, 422, 302}) {
    World world;
    const uint64_t call = world.Ask();
    world.Status(status);
    CHECK(world.Kind(call) != ErrorKind::kNone);
    CHECK(world.outcomes[call].error.http_status == status);
    world.CheckSettled();
  }
  World stated;
  const uint64_t call = stated.Ask();
  stated.Status(500, "x-should-retry:false");
  CHECK(stated.Kind(call) == ErrorKind::kServerError);
}

TEST_CASE("A call fails after its last attempt with the last error", "[llm]") {
  World world;
  world.config.max_attempts = 3;
  const uint64_t call = world.Ask();
  for (int i = 0; i < 3; ++i) {
    CHECK(world.outcomes.empty());
    REQUIRE(world.transport.live.size() == 1);
    world.Lose(TransferEnd::kBroken);
    world.Advance(10 * kSecond);
  }
  CHECK(world.Kind(call) == ErrorKind::kCutOff);
  CHECK(world.outcomes[call].attempts == 3);
  CHECK(world.Stats().endpoints[0].retries_by_reason[static_cast<size_t>(ErrorKind::kCutOff)] == 2);
  world.CheckSettled();
}

TEST_CASE("Retries stay within the budget", "[llm]") {
  World world;
  world.config.retry_budget_reserve = 2;
  world.config.breaker_consecutive_failures = 1'000'000;
  world.config.breaker_failure_ratio = 1;
  world.config.breaker_min_samples = 1'000'000;
  for (int i = 0; i < 200; ++i) {
    world.Ask();
    while (!world.transport.live.empty()) {
      world.Status(500);
      world.Advance(10 * kSecond);
    }
  }
  CHECK(world.outcomes.size() == 200);
  CHECK(world.transport.last_id <= 200 + 2 + 20);
  CHECK(world.transport.last_id >= 200 + 20);
  CHECK(world.Stats().retries_denied > 0);
  world.CheckSettled();
}

TEST_CASE("The limit delays calls and sends them when there is room", "[llm]") {
  World world;
  world.config.endpoints[0].initial_concurrency = 2;
  world.config.endpoints[0].max_concurrency = 2;
  for (int i = 0; i < 5; ++i) world.Ask();
  CHECK(world.transport.live.size() == 2);
  CHECK(world.Stats().calls_queued == 3);
  for (int i = 0; i < 5; ++i) world.Answer();
  CHECK(world.outcomes.size() == 5);
  world.CheckSettled();
}

TEST_CASE("An overloaded endpoint gets fewer calls", "[llm]") {
  World world;
  world.config.endpoints[0].initial_concurrency = 10;
  for (int i = 0; i < 10; ++i) world.Ask();
  for (int i = 0; i < 10; ++i) world.Status(429);
  CHECK(world.Stats().endpoints[0].concurrency_limit == 7);
  world.dispatcher().CancelAll();
  world.dispatcher().Step();
  world.CheckSettled();
}

TEST_CASE("Each timeout has its own kind", "[llm]") {
  World world;
  world.config.max_attempts = 1;
  world.config.first_byte_timeout_ns = 3 * kSecond;
  world.config.silence_timeout_ns = 2 * kSecond;
  const uint64_t mute = world.Ask();
  world.transport.live[0].sink->OnStatus(200);
  world.Advance(3 * kSecond - kMs);
  CHECK(world.outcomes.empty());
  world.Advance(2 * kMs);
  CHECK(world.Kind(mute) == ErrorKind::kFirstByteTimeout);

  const uint64_t silent = world.Ask();
  for (int i = 0; i < 5; ++i) {
    world.Advance(2 * kSecond - kMs);
    world.Token();
  }
  world.Advance(2 * kSecond + kMs);
  CHECK(world.Kind(silent) == ErrorKind::kSilenceTimeout);
  CHECK(world.outcomes[silent].answer.content == "hihihihihi");

  ChatRequest request = world.Request();
  request.deadline_ns = world.clock.MonotonicNs() + kSecond;
  const uint64_t late = world.Ask(request);
  world.Advance(kSecond);
  CHECK(world.Kind(late) == ErrorKind::kDeadlineExceeded);
  CHECK(world.transport.cancelled == 3);
  request.deadline_ns = world.clock.MonotonicNs();
  const uint64_t too_late = world.Ask(request);
  CHECK(world.Kind(too_late) == ErrorKind::kDeadlineExceeded);
  CHECK(world.outcomes[too_late].attempts == 0);
  world.CheckSettled();
}

TEST_CASE("A dead endpoint is avoided, probed by one call, and used again when it answers",
          "[llm]") {
  World world;
  world.config.max_attempts = 1;
  world.config.breaker_consecutive_failures = 3;
  world.config.breaker_open_ns = kSecond;
  for (int i = 0; i < 3; ++i) {
    world.Ask();
    world.Lose(TransferEnd::kUnreachable);
  }
  const uint64_t refused = world.Ask();
  world.Advance(0);
  CHECK(world.Kind(refused) == ErrorKind::kCircuitOpen);
  CHECK(world.outcomes[refused].error.retry_after_ns == kSecond);
  CHECK(world.transport.last_id == 3);

  ChatRequest patient = world.Request();
  patient.wait_for_recovery = true;
  const uint64_t waiting = world.Ask(patient);
  world.Advance(kSecond - kMs);
  CHECK(world.transport.live.empty());
  world.Advance(kMs);
  REQUIRE(world.transport.live.size() == 1);
  CHECK(world.Stats().endpoints[0].breaker == BreakerState::kHalfOpen);
  const uint64_t beside = world.Ask();
  world.Advance(0);
  CHECK(world.Kind(beside) == ErrorKind::kCircuitOpen);
  const uint64_t patient_too = world.Ask(patient);
  CHECK(world.transport.live.size() == 1);
  world.Answer();
  CHECK(world.Kind(waiting) == ErrorKind::kNone);
  CHECK(world.Stats().endpoints[0].breaker == BreakerState::kClosed);
  CHECK(world.Stats().endpoints[0].breaker_opened == 1);
  CHECK(world.Stats().endpoints[0].breaker_closed == 1);
  REQUIRE(world.transport.live.size() == 1);
  world.Answer();
  CHECK(world.Kind(patient_too) == ErrorKind::kNone);
  world.CheckSettled();
}

TEST_CASE("Queued calls fail immediately with the cause when every endpoint goes down", "[llm]") {
  World world;
  world.config.endpoints[0].initial_concurrency = 1;
  world.config.breaker_consecutive_failures = 1;
  world.config.max_attempts = 1;
  for (int i = 0; i < 100; ++i) world.Ask();
  world.Lose(TransferEnd::kUnreachable);
  world.Advance(0);
  CHECK(world.outcomes.size() == 100);
  CHECK(world.Kind(1) == ErrorKind::kUnreachable);
  CHECK(world.Kind(100) == ErrorKind::kCircuitOpen);
  world.CheckSettled();
}

TEST_CASE("A live endpoint takes over from a dead one", "[llm]") {
  World world(2);
  world.config.breaker_consecutive_failures = 3;
  int lost = 0;
  for (int i = 0; i < 50; ++i) {
    world.uniform = i % 2 == 0 ? 0.1 : 0.9;
    const uint64_t call = world.Ask();
    while (!world.outcomes.contains(call)) {
      if (world.transport.live.empty()) {
        world.Advance(10 * kMs);
      } else if (world.transport.live[0].endpoint == 0) {
        ++lost;
        world.Lose(TransferEnd::kUnreachable);
      } else {
        world.Answer();
      }
    }
    CHECK(world.Kind(call) == ErrorKind::kNone);
  }
  CHECK(lost >= 3);
  CHECK(lost <= 6);
  world.CheckSettled();
}

TEST_CASE("Endpoints are chosen by weight, and a preferred one while it has room", "[llm]") {
  World world(2);
  world.config.endpoints[0].weight = 3;
  world.config.endpoints[1].weight = 1;
  world.config.endpoints[1].initial_concurrency = 1;
  world.config.endpoints[1].max_concurrency = 1;
  world.dispatcher();
  world.uniform = 0.74;
  world.Ask();
  CHECK(world.transport.live.back().endpoint == 0);
  world.uniform = 0.76;
  world.Ask();
  CHECK(world.transport.live.back().endpoint == 1);
  // It is full.
  ChatRequest request = world.Request();
  request.preferred_endpoint = 1;
  world.Ask(request);
  CHECK(world.transport.live.back().endpoint == 0);
  world.Answer(1);
  world.uniform = 0;
  world.Ask(request);
  CHECK(world.transport.live.back().endpoint == 1);
  while (!world.transport.live.empty()) world.Answer();
  world.CheckSettled();
}

TEST_CASE("The request shape is computed again for each endpoint", "[llm]") {
  World world(2);
  ChatRequest request = world.Request();
  request.shape_for = [](const EndpointRef& endpoint) {
    ResponseShape shape;
    shape.tag = endpoint.index + 10;
    shape.response_format = "{\"rung\":\"" + std::string(endpoint.name) + "\"}";
    return shape;
  };
  world.uniform = 0;
  const uint64_t call = world.Ask(request);
  CHECK(world.transport.live[0].body.find("\"rung\":\"e0\"") != std::string::npos);
  world.Status(500);
  world.Advance(kSecond);
  REQUIRE(world.transport.live.size() == 1);
  CHECK(world.transport.live[0].body.find("\"rung\":\"e1\"") != std::string::npos);
  world.Answer();
  CHECK(world.outcomes[call].shape_tag == 11);
}

TEST_CASE("A late first token is hedged once and the first response wins", "[llm]") {
  World world(2);
  world.config.hedge_min_delay_ns = 10 * kMs;
  world.uniform = 0;
  world.Warm(50 * kMs);
  const int cancelled = world.transport.cancelled;
  int calls = 0;
  ChatRequest request = world.Request();
  request.on_first_token = [&](const EndpointRef&) { ++calls; };
  const uint64_t call = world.Ask(request);
  world.Advance(49 * kMs);
  CHECK(world.transport.live.size() == 1);
  world.Advance(2 * kMs);
  REQUIRE(world.transport.live.size() == 2);
  CHECK(world.transport.live[0].endpoint == 0);
  CHECK(world.transport.live[1].endpoint == 1);
  world.Advance(500 * kMs);
  CHECK(world.transport.live.size() == 2);
  world.Token(1);
  CHECK(world.transport.live.size() == 1);
  CHECK(world.transport.cancelled == cancelled + 1);
  world.Answer();
  CHECK(world.Kind(call) == ErrorKind::kNone);
  CHECK(world.outcomes[call].hedged);
  CHECK(world.outcomes[call].attempts == 2);
  CHECK(world.outcomes[call].endpoint == "e1");
  CHECK(calls == 1);
  CHECK(world.Stats().endpoints[1].hedges == 1);
  CHECK(world.Stats().endpoints[1].hedges_won == 1);
  world.CheckSettled();
}

TEST_CASE("The hedge answers when the first attempt fails", "[llm]") {
  World world;
  world.config.hedge_min_delay_ns = kMs;
  world.Warm(50 * kMs);
  const uint64_t call = world.Ask();
  world.Advance(60 * kMs);
  REQUIRE(world.transport.live.size() == 2);
  world.Lose(TransferEnd::kBroken, 0);
  CHECK(!world.outcomes.contains(call));
  world.Answer();
  CHECK(world.Kind(call) == ErrorKind::kNone);
  world.CheckSettled();
}

TEST_CASE("Hedging needs samples, budget and permission", "[llm]") {
  World cold;
  cold.config.hedge_min_delay_ns = kMs;
  cold.Ask();
  cold.Advance(10 * kSecond);
  CHECK(cold.transport.live.size() == 1);

  World poor;
  poor.config.hedge_min_delay_ns = kMs;
  poor.config.retry_budget_reserve = 0;
  poor.config.retry_budget_ratio = 0;
  poor.Warm(50 * kMs);
  poor.Ask();
  poor.Advance(kSecond);
  CHECK(poor.transport.live.size() == 1);
  CHECK(poor.Stats().retries_denied == 1);

  World forbidden;
  forbidden.config.hedge_min_delay_ns = kMs;
  forbidden.Warm(50 * kMs);
  ChatRequest request = forbidden.Request();
  request.may_hedge = false;
  forbidden.Ask(request);
  forbidden.Advance(kSecond);
  CHECK(forbidden.transport.live.size() == 1);
}

TEST_CASE("Cancelling ends a call once in every state", "[llm]") {
  World world;
  world.config.endpoints[0].initial_concurrency = 1;
  const uint64_t in_flight = world.Ask();
  const uint64_t queued = world.Ask();
  world.dispatcher().Cancel(queued);
  world.dispatcher().Step();
  CHECK(world.Kind(queued) == ErrorKind::kCancelled);
  CHECK(world.transport.cancelled == 0);
  world.Token();
  world.dispatcher().Cancel(in_flight);
  world.dispatcher().Step();
  CHECK(world.Kind(in_flight) == ErrorKind::kCancelled);
  CHECK(world.outcomes[in_flight].answer.content == "hi");
  CHECK(world.transport.cancelled == 1);

  const uint64_t backing_off = world.Ask();
  world.Status(500);
  world.dispatcher().Cancel(backing_off);
  world.dispatcher().Cancel(backing_off);
  world.dispatcher().Cancel(12345);
  world.dispatcher().Step();
  CHECK(world.Kind(backing_off) == ErrorKind::kCancelled);

  // An unprocessed answer loses against the cancellation.
  const uint64_t racing = world.Ask();
  world.transport.live[0].sink->OnStatus(200);
  world.transport.live[0].sink->OnBody(std::string(kToken) + kEnd);
  world.dispatcher().Cancel(racing);
  world.dispatcher().Step();
  CHECK(world.Kind(racing) == ErrorKind::kCancelled);
  world.CheckSettled();
}

TEST_CASE("A key echoed by an endpoint is not passed on", "[llm]") {
  World world;
  world.config.endpoints[0].api_key = "sk-very-secret";
  const uint64_t call = world.Ask();
  world.Status(401, "", R"({"error":{"message":"Incorrect key sk-very-secret!"}})");
  CHECK(world.Kind(call) == ErrorKind::kUnauthorized);
  CHECK(world.outcomes[call].error.message == "HTTP 401: Incorrect key [key]!");
}

TEST_CASE("An endpoint that never answers before the caller's deadline is detected", "[llm]") {
  World world;
  world.config.breaker_consecutive_failures = 3;
  for (int i = 0; i < 3; ++i) {
    ChatRequest request = world.Request();
    request.deadline_ns = world.clock.MonotonicNs() + 2 * kSecond;
    world.Ask(request);
    world.Advance(2 * kSecond);
  }
  CHECK(world.Stats().endpoints[0].breaker == BreakerState::kOpen);
}

}  // namespace kernelcast::llm
