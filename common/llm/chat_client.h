#ifndef KERNELCAST_COMMON_LLM_CHAT_CLIENT_H_
#define KERNELCAST_COMMON_LLM_CHAT_CLIENT_H_

#include <utility>

#include "absl/status/statusor.h"
#include "common/llm/client.h"

namespace kernelcast::llm {

// The interface of LlmClient for its users, with the same contracts, so that tests can use a fake.
class ChatClient {
 public:
  virtual ~ChatClient() = default;
  [[nodiscard]] virtual absl::StatusOr<CallId> Submit(ChatRequest request,
                                                      LlmClient::Done done) = 0;
  virtual void Cancel(CallId call) = 0;
};

class EndpointClient final : public ChatClient {
 public:
  // `client` must outlive this object.
  explicit EndpointClient(LlmClient* client) : client_(*client) {}

  absl::StatusOr<CallId> Submit(ChatRequest request, LlmClient::Done done) override {
    return client_.Submit(std::move(request), std::move(done));
  }
  void Cancel(CallId call) override { client_.Cancel(call); }

 private:
  LlmClient& client_;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_CHAT_CLIENT_H_
