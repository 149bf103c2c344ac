// HTTP/2 and HTTP/1.1 over TLS, terminated by nghttpx in front of the fake endpoint.
#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/integration/common/llm/llm_calls.h"
#include "tests/integration/common/llm/tls_front.h"

namespace kernelcast::testing {
namespace {

using llm::ErrorKind;

llm::LlmConfig Config(const TlsFront& front) {
  llm::LlmConfig config = *llm::ConfigForUrl(front.url(), "fake");
  config.endpoints[0].ca_file = front.ca_file();
  config.endpoints[0].initial_concurrency = 512;
  return config;
}

int Count(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("Over TLS calls share HTTP/2 connections, and all are answered", "[llm]") {
  FakeEndpointOptions options;
  options.latency_us = 20'000;
  const auto endpoint = FakeLlmEndpoint::Start(options);
  REQUIRE(endpoint.ok());
  const auto front = TlsFront::Start((*endpoint)->port());
  INFO(front.status().ToString());
  REQUIRE(front.ok());
  // Fewer than the streams that nghttpx accepts per connection.
  llm::LlmConfig config = Config(**front);
  config.endpoints[0].initial_concurrency = 80;
  config.endpoints[0].max_concurrency = 80;
  auto client = llm::LlmClient::Create(config);
  REQUIRE(client.ok());
  Outcomes outcomes;
  for (int i = 0; i < 400; ++i) {
    REQUIRE((*client)->Submit(Question(), outcomes.Expect()).ok());
  }
  REQUIRE(outcomes.WaitAll());
  CHECK(outcomes.Kinds() == std::map<ErrorKind, int64_t>{{ErrorKind::kNone, 400}});
  const std::string log = (*front)->AccessLog();
  CHECK(Count(log, "HTTP/2") == 400);
  std::set<std::string> connections;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    connections.insert(line.substr(line.rfind(' ')));
  }
  // Streams started before any connection has room may open their own connections.
  CHECK(connections.size() <= 40);
}

TEST_CASE("Cancelling one stream of a shared connection closes only that stream upstream",
          "[llm]") {
  FakeEndpointOptions options;
  const auto endpoint = FakeLlmEndpoint::Start(options);
  REQUIRE(endpoint.ok());
  const auto front = TlsFront::Start((*endpoint)->port());
  REQUIRE(front.ok());
  auto client = llm::LlmClient::Create(Config(**front));
  REQUIRE(client.ok());
  REQUIRE(Ask(**client).ok());
  (*endpoint)->SetFaults({{Fault::kStall, 1}});
  Outcomes outcomes;
  std::vector<llm::CallId> calls;
  for (int i = 0; i < 50; ++i) {
    const auto call = (*client)->Submit(Question(), outcomes.Expect());
    REQUIRE(call.ok());
    calls.push_back(*call);
  }
  REQUIRE(Eventually([&] { return (*endpoint)->Seen().live == 50; }));
  // First cancel some while others are active, then the rest, so that the connection becomes idle.
  for (size_t i = 0; i < 49; ++i) (*client)->Cancel(calls[i]);
  REQUIRE(Eventually([&] { return (*endpoint)->Seen().live == 1; }));
  CHECK((*endpoint)->Seen().closed_by_client == 49);
  CHECK(outcomes.Kinds() == std::map<ErrorKind, int64_t>{{ErrorKind::kCancelled, 49}});
  (*client)->Cancel(calls[49]);
  REQUIRE(Eventually([&] { return (*endpoint)->Seen().live == 0; }));
  REQUIRE(outcomes.WaitAll());
  CHECK(outcomes.Kinds() == std::map<ErrorKind, int64_t>{{ErrorKind::kCancelled, 50}});
  (*endpoint)->SetFaults({});
  CHECK(Ask(**client).ok());
}

TEST_CASE("A stream continues while other streams on its connection are cancelled", "[llm]") {
  FakeEndpointOptions options;
  options.latency_us = 1000;
  options.piece_interval_us = 5000;
  options.pieces = 50;
  const auto endpoint = FakeLlmEndpoint::Start(options);
  REQUIRE(endpoint.ok());
  const auto front = TlsFront::Start((*endpoint)->port());
  REQUIRE(front.ok());
  auto client = llm::LlmClient::Create(Config(**front));
  REQUIRE(client.ok());
  REQUIRE(Ask(**client).ok());
  Outcomes kept;
  Outcomes cancelled;
  std::vector<llm::CallId> calls;
  for (int i = 0; i < 40; ++i) {
    Outcomes& outcomes = i % 4 == 0 ? kept : cancelled;
    const auto call = (*client)->Submit(Question(), outcomes.Expect());
    REQUIRE(call.ok());
    if (i % 4 != 0) calls.push_back(*call);
  }
  REQUIRE(Eventually([&] { return (*endpoint)->Seen().live == 40; }));
  for (const llm::CallId call : calls) {
    (*client)->Cancel(call);
    std::this_thread::yield();
  }
  REQUIRE(cancelled.WaitAll());
  REQUIRE(kept.WaitAll());
  CHECK(kept.Kinds() == std::map<ErrorKind, int64_t>{{ErrorKind::kNone, 10}});
}

TEST_CASE("A certificate from an unknown authority is refused", "[llm]") {
  const auto endpoint = FakeLlmEndpoint::Start({});
  REQUIRE(endpoint.ok());
  const auto front = TlsFront::Start((*endpoint)->port());
  REQUIRE(front.ok());
  llm::LlmConfig config = Config(**front);
  config.endpoints[0].ca_file.clear();
  config.max_attempts = 1;
  auto client = llm::LlmClient::Create(config);
  REQUIRE(client.ok());
  const llm::ChatOutcome outcome = Ask(**client);
  CHECK(outcome.error.kind == ErrorKind::kUnreachable);
  CHECK(outcome.error.message.find("certificate") != std::string::npos);
  CHECK((*endpoint)->Seen().requests == 0);
  CHECK(llm::CheckEndpoint(config.endpoints[0], 5'000'000'000).code() ==
        absl::StatusCode::kUnavailable);
}

}  // namespace kernelcast::testing
