#ifndef KERNELCAST_TESTS_SUPPORT_LLAMA_SERVER_H_
#define KERNELCAST_TESTS_SUPPORT_LLAMA_SERVER_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/process/child_process.h"
#include "tests/support/services.h"

namespace kernelcast::testing {

// llama.cpp's own HTTP server with a tiny model of random weights, as a process of its own; see
// llama_server.py. Its answers are chance, in the form that a request asks for.
class LlamaServer {
 public:
  struct Options {
    int context_tokens = 16'384;  // of each slot
    int slots = 2;                // requests answered at once
  };

  // Why it cannot run on this machine; empty where it can.
  static std::string Missing();
  // Returns when it listens. The model is written into `folder`.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LlamaServer>> Start(
      const TemporaryFolder& folder, const Options& options);
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LlamaServer>> Start(
      const TemporaryFolder& folder) {
    return Start(folder, Options());
  }

  // "http://127.0.0.1:PORT/v1"
  const std::string& url() const { return url_; }
  // Whether it still runs.
  bool Alive() { return !child_->Poll(); }

 private:
  LlamaServer(std::unique_ptr<ChildProcess> child, std::string url)
      : child_(std::move(child)), url_(std::move(url)) {}

  const std::unique_ptr<ChildProcess> child_;
  const std::string url_;
};

}  // namespace kernelcast::testing

// Ends a test case where there is no llama.cpp; its registration says SKIP "skipped: ".
#define KERNELCAST_NEEDS_LLAMA()                                                                   \
  if (const std::string reason = ::kernelcast::testing::LlamaServer::Missing(); !reason.empty()) { \
    std::printf("skipped: %s\n", reason.c_str());                                                  \
    SUCCEED("skipped: " << reason);                                                                \
    return;                                                                                        \
  }

#endif  // KERNELCAST_TESTS_SUPPORT_LLAMA_SERVER_H_
