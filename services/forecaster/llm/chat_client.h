#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_CHAT_CLIENT_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_CHAT_CLIENT_H_

#include <utility>

#include "absl/status/statusor.h"
#include "common/llm/client.h"

namespace kernelcast::forecaster {

// Of llm::LlmClient what the backend uses, with the same contracts.
class ChatClient {
 public:
  virtual ~ChatClient() = default;
  [[nodiscard]] virtual absl::StatusOr<llm::CallId> Submit(llm::ChatRequest request,
                                                           llm::LlmClient::Done done) = 0;
  virtual void Cancel(llm::CallId call) = 0;
};

class EndpointClient final : public ChatClient {
 public:
  // Must outlive this object.
  explicit EndpointClient(llm::LlmClient* client) : client_(*client) {}

  absl::StatusOr<llm::CallId> Submit(llm::ChatRequest request, llm::LlmClient::Done done) override {
    return client_.Submit(std::move(request), std::move(done));
  }
  void Cancel(llm::CallId call) override { client_.Cancel(call); }

 private:
  llm::LlmClient& client_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_CHAT_CLIENT_H_
