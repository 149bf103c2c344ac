#ifndef KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_LLM_ENDPOINT_H_
#define KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_LLM_ENDPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/fakes/llm_endpoint/answers.h"
#include "tests/fakes/llm_endpoint/faults.h"

namespace kernelcast::testing {

struct FakeEndpointOptions {
  // Time from the request to the first token, and between the pieces of an answer.
  int64_t latency_us = 0;
  int64_t piece_interval_us = 0;
  // Number of events for content or arguments.
  int pieces = 3;
  uint64_t seed = 1;
  // Share of requests with each fault; the rest of 1 succeeds.
  std::map<Fault, double> faults;
  std::string retry_after = "1";
  // Interval between two bytes of kSlowLoris.
  int64_t loris_interval_us = 20'000;

  // Refused with 400 if false.
  bool supports_json_schema = true;
  bool supports_tools = true;
  bool supports_named_tool_choice = true;

  std::vector<std::string> models = {"fake"};
  // Any other model is a 404.
  bool check_model = false;
  std::string api_key;  // required if not empty
  AnswerSource answers = ForecastAnswers();
  // If set, asked before `answers`.
  ReplySource reply = nullptr;
  // For benches: the answer to the first request without a fault is repeated for all requests
  // without parsing them. Not with `faults`.
  bool repeat_first_answer = false;
};

// The observations of the endpoint.
struct FakeEndpointSeen {
  int64_t connections = 0;
  int64_t open_connections = 0;
  int64_t requests = 0;          // chat completions
  int64_t live = 0;              // unfinished responses
  int64_t completed = 0;         // responses that ended as intended
  int64_t closed_by_client = 0;  // connections closed by the client during a response
  std::map<Fault, int64_t> faults;
  // Parts of the last 64 requests, in order.
  std::vector<std::string> bodies;
  std::vector<std::string> authorizations;
  std::vector<std::string> traceparents;  // empty: none received
  std::vector<std::string> tracestates;
};

// A server of OpenAI's chat completions on 127.0.0.1 in its own thread: HTTP/1.1 with keep-alive,
// streamed and whole answers, tools and response_format. It misbehaves by a seeded draw for each
// request (`faults`), or as requested: by a header "X-Fault: NAME", or by a model named
// "MODEL!NAME". GET /v1/models lists models. GET /admin/seen and POST /admin/faults {"NAME": share,
// ...} are the remote versions of Seen and SetFaults. Thread-safe.
class FakeLlmEndpoint {
 public:
  // Port 0: any. UNAVAILABLE: cannot be bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FakeLlmEndpoint>> Start(
      FakeEndpointOptions options, int port = 0);
  ~FakeLlmEndpoint();

  int port() const;
  // "http://127.0.0.1:PORT/v1"
  std::string url() const;

  void SetFaults(std::map<Fault, double> faults);
  void SetLatency(int64_t latency_us);
  void SetRetryAfter(std::string value);
  // Die drops every connection and refuses new ones but keeps the port. Return serves again. Both
  // are synchronous.
  void Die();
  void Return();

  FakeEndpointSeen Seen() const;

 private:
  class Impl;
  explicit FakeLlmEndpoint(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_LLM_ENDPOINT_H_
