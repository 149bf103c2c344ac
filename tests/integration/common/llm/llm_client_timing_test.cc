// Statements about time; run alone.
#include <catch2/catch.hpp>

#include "common/base/clock.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/integration/common/llm/llm_calls.h"

namespace kernelcast::testing {

TEST_CASE("Cancelling a thousand calls closes a thousand upstream streams within 100 ms", "[llm]") {
  RaiseDescriptorLimit();
  FakeEndpointOptions options;
  options.faults = {{Fault::kStall, 1}};
  const auto endpoint = FakeLlmEndpoint::Start(options);
  REQUIRE(endpoint.ok());
  llm::LlmConfig config = *llm::ConfigForUrl((*endpoint)->url(), "fake");
  config.endpoints[0].max_concurrency = 1000;
  config.endpoints[0].initial_concurrency = 1000;
  auto client = llm::LlmClient::Create(config);
  REQUIRE(client.ok());
  Outcomes outcomes;
  std::vector<llm::CallId> calls;
  for (int i = 0; i < 1000; ++i) {
    const auto call = (*client)->Submit(Question(), outcomes.Expect());
    REQUIRE(call.ok());
    calls.push_back(*call);
  }
  REQUIRE(Eventually([&] { return (*endpoint)->Seen().live == 1000; }));
  const int64_t start_ns = Clock::Real().MonotonicNs();
  for (const llm::CallId call : calls) (*client)->Cancel(call);
  REQUIRE(Eventually([&] { return (*endpoint)->Seen().closed_by_client == 1000; }));
  const int64_t took_ns = Clock::Real().MonotonicNs() - start_ns;
  WARN("1000 streams closed after " << static_cast<double>(took_ns) / 1e6 << " ms");
  if (!kSanitized) CHECK(took_ns < 100'000'000);
  REQUIRE(outcomes.WaitAll());
  CHECK(outcomes.Kinds() == std::map<llm::ErrorKind, int64_t>{{llm::ErrorKind::kCancelled, 1000}});
}

}  // namespace kernelcast::testing
