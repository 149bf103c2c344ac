#ifndef KERNELCAST_TESTS_INTEGRATION_COMMON_LLM_LLM_CALLS_H_
#define KERNELCAST_TESTS_INTEGRATION_COMMON_LLM_LLM_CALLS_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/llm/client.h"
#include "common/process/child_process.h"
#include "tests/support/eventually.h"

namespace kernelcast::testing {

// Collects how calls end. Thread-safe.
class Outcomes {
 public:
  llm::LlmClient::Done Expect();
  // Waits until every expected outcome has arrived. Returns false after one minute.
  bool WaitAll();
  // Call after WaitAll.
  std::vector<llm::ChatOutcome> Take();
  std::map<llm::ErrorKind, int64_t> Kinds();
  int64_t expected();
  int64_t repeated();  // callbacks beyond the first per call

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  // State below is protected by mutex_.
  std::vector<llm::ChatOutcome> outcomes_;
  int64_t expected_ = 0;
  int64_t repeated_ = 0;
};

llm::ChatRequest Question(const std::string& text = "How fast?");

// Runs one call to completion.
llm::ChatOutcome Ask(llm::LlmClient& client, llm::ChatRequest request = Question());

// Runs fake-llm-endpoint in its own process, so that its memory is not counted as ours.
class EndpointProcess {
 public:
  // Returns null if it does not start.
  static std::unique_ptr<EndpointProcess> Start(const std::vector<std::string>& arguments);
  std::string url() const;

 private:
  std::unique_ptr<ChildProcess> child_;
  int port_ = 0;
};

int OpenDescriptors();
int Threads();
int64_t ResidentBytes();
// Raises the limit to the machine's maximum.
void RaiseDescriptorLimit();

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_INTEGRATION_COMMON_LLM_LLM_CALLS_H_
