#ifndef KERNELCAST_TESTS_SUPPORT_LLAMA_SERVER_H_
#define KERNELCAST_TESTS_SUPPORT_LLAMA_SERVER_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/process/child_process.h"
#include "tests/support/services.h"

namespace kernelcast::testing {

// Runs llama.cpp's HTTP server in a separate process; see llama_server.py. By default its model is
// tiny and has random weights, so that answers are random within the requested form.
class LlamaServer {
 public:
  struct Options {
    int context_tokens = 16'384;  // per slot
    int slots = 2;                // concurrent requests
    bool genuine = false;         // serve SmolLM2-135M-Instruct
  };

  // Why it cannot run on this machine; empty if it can.
  static std::string Missing();
  // The same for the genuine model.
  static std::string GenuineMissing();
  // Returns when it listens. Writes the model into `folder`.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LlamaServer>> Start(
      const TemporaryFolder& folder, const Options& options);
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LlamaServer>> Start(
      const TemporaryFolder& folder) {
    return Start(folder, Options());
  }

  // "http://127.0.0.1:PORT/v1"
  const std::string& url() const { return url_; }
  bool Alive() { return !child_->Poll(); }

 private:
  LlamaServer(std::unique_ptr<ChildProcess> child, std::string url)
      : child_(std::move(child)), url_(std::move(url)) {}

  const std::unique_ptr<ChildProcess> child_;
  const std::string url_;
};

}  // namespace kernelcast::testing

// Skips a test case without llama.cpp; its registration says SKIP "skipped: ".
#define KERNELCAST_NEEDS_LLAMA()                                                                   \
  if (const std::string reason = ::kernelcast::testing::LlamaServer::Missing(); !reason.empty()) { \
    std::printf("skipped: %s\n", reason.c_str());                                                  \
    SUCCEED("skipped: " << reason);                                                                \
    return;                                                                                        \
  }

// The same without the genuine model.
#define KERNELCAST_NEEDS_GENUINE_MODEL()                                               \
  if (const std::string reason = ::kernelcast::testing::LlamaServer::GenuineMissing(); \
      !reason.empty()) {                                                               \
    std::printf("skipped: %s\n", reason.c_str());                                      \
    SUCCEED("skipped: " << reason);                                                    \
    return;                                                                            \
  }

#endif  // KERNELCAST_TESTS_SUPPORT_LLAMA_SERVER_H_
