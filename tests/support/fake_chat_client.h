#ifndef KERNELCAST_TESTS_SUPPORT_FAKE_CHAT_CLIENT_H_
#define KERNELCAST_TESTS_SUPPORT_FAKE_CHAT_CLIENT_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/llm/chat_client.h"
#include "common/llm/reasoning_marks.h"

namespace kernelcast::testing {

// Keeps calls until the test answers them on the test's thread.
class FakeChatClient final : public llm::ChatClient {
 public:
  static constexpr auto kLimit = std::chrono::seconds(20);

  absl::StatusOr<llm::CallId> Submit(llm::ChatRequest request, llm::LlmClient::Done done) override {
    std::lock_guard lock(mutex_);
    if (refuse_) return absl::ResourceExhaustedError("too many calls");
    const llm::CallId id = ++submitted_;
    calls_.emplace(id, Call{std::move(request), std::move(done), std::nullopt});
    changed_.notify_all();
    return id;
  }

  void Cancel(llm::CallId id) override {
    std::lock_guard lock(mutex_);
    cancelled_.insert(id);
    changed_.notify_all();
  }

  void Refuse(bool refuse) {
    std::lock_guard lock(mutex_);
    refuse_ = refuse;
  }

  // Returns whether this many calls were submitted in total before the limit.
  bool WaitForCalls(llm::CallId count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return submitted_ >= count; });
  }
  bool WaitForCancel(llm::CallId id) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return cancelled_.contains(id); });
  }
  llm::CallId submitted() const {
    std::lock_guard lock(mutex_);
    return submitted_;
  }
  const llm::ChatRequest& request(llm::CallId id) { return Waiting(id).request; }

  // The shape with which the call would be sent to the endpoint.
  llm::ResponseShape Shape(llm::CallId id, const std::string& endpoint = "here") {
    Call& call = Waiting(id);
    call.shape = call.request.shape_for({0, endpoint, "model"});
    return *call.shape;
  }
  void FirstToken(llm::CallId id) { Waiting(id).request.on_first_token({0, "here", "model"}); }

  // Separates reasoning, as the client does.
  void Answer(llm::CallId id, llm::ChatAnswer answer, const std::string& endpoint = "here") {
    llm::ChatOutcome outcome;
    llm::SeparateReasoning(answer);
    outcome.answer = std::move(answer);
    End(id, std::move(outcome), endpoint);
  }
  void Say(llm::CallId id, std::string content) {
    llm::ChatAnswer answer;
    answer.content = std::move(content);
    answer.usage = {true, 100, 60, 20, 5};
    Answer(id, std::move(answer));
  }
  void Fail(llm::CallId id, llm::ErrorKind kind, int http_status = 0, std::string code = "") {
    llm::ChatOutcome outcome;
    outcome.error.kind = kind;
    outcome.error.message = "it failed";
    outcome.error.http_status = http_status;
    outcome.error.code = std::move(code);
    End(id, std::move(outcome), "here");
  }

 private:
  struct Call {
    llm::ChatRequest request;
    llm::LlmClient::Done done;
    std::optional<llm::ResponseShape> shape;
  };

  Call& Waiting(llm::CallId id) {
    WaitForCalls(id);
    std::lock_guard lock(mutex_);
    return calls_.at(id);
  }

  void End(llm::CallId id, llm::ChatOutcome outcome, const std::string& endpoint) {
    Call& waiting = Waiting(id);
    if (!waiting.shape.has_value()) {
      if (waiting.request.shape_for) {
        Shape(id, endpoint);
      } else {
        waiting.shape = waiting.request.shape;
      }
    }
    Call call;
    {
      std::lock_guard lock(mutex_);
      call = std::move(calls_.at(id));
      calls_.erase(id);
    }
    outcome.endpoint_index = 0;
    outcome.endpoint = endpoint;
    outcome.model = "model";
    outcome.shape_tag = call.shape->tag;
    outcome.cost = 0.5;
    call.done(std::move(outcome));
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<llm::CallId, Call> calls_;
  std::set<llm::CallId> cancelled_;
  llm::CallId submitted_ = 0;
  bool refuse_ = false;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_FAKE_CHAT_CLIENT_H_
