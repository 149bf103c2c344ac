#ifndef KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_SCRIPTED_AUTHOR_H_
#define KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_SCRIPTED_AUTHOR_H_

#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/llm_endpoint/llm_endpoint.h"

namespace kernelcast::testing {

// Gives scripted answers to an endpoint's n-th request, counted from 1, and records the prompts.
// Must outlive its endpoint. Thread-safe.
class ScriptedAuthor {
 public:
  explicit ScriptedAuthor(std::function<std::string(int number)> write)
      : write_(std::move(write)) {}

  AnswerSource Source() {
    return [this](const nlohmann::json& request, Fault fault, std::mt19937_64& random) {
      std::string prompt;
      for (const nlohmann::json& message : request["messages"]) {
        prompt += message["content"].get<std::string>();
      }
      int number = 0;
      {
        const std::lock_guard lock(mutex_);
        prompts_.push_back(std::move(prompt));
        number = static_cast<int>(prompts_.size());
      }
      return FixedAnswer(write_(number))(request, fault, random);
    };
  }
  std::vector<std::string> prompts() const {
    const std::lock_guard lock(mutex_);
    return prompts_;
  }

 private:
  const std::function<std::string(int)> write_;
  mutable std::mutex mutex_;
  std::vector<std::string> prompts_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_SCRIPTED_AUTHOR_H_
