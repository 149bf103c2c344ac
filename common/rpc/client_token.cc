#include "common/rpc/client_token.h"

#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/token.h"

namespace kernelcast {
namespace {

class TokenInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit TokenInterceptor(std::string header) : header_(std::move(header)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert({"authorization", header_});
    }
    methods->Proceed();
  }

 private:
  const std::string header_;
};

class TokenInterceptorFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  TokenInterceptorFactory(std::string file, const std::string& token,
                          absl::Duration reload_interval)
      : file_(std::move(file)),
        interval_ns_(absl::ToInt64Nanoseconds(reload_interval)),
        next_look_ns_(Clock::Real().MonotonicNs() + interval_ns_),
        header_(Header(token)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    const int64_t now_ns = Clock::Real().MonotonicNs();
    const std::lock_guard lock(mutex_);
    // Read here instead of on a thread of its own, because a process may have many channels and the
    // file is small.
    if (now_ns >= next_look_ns_) {
      next_look_ns_ = now_ns + interval_ns_;
      absl::StatusOr<std::string> token = ReadToken(file_);
      if (token.ok()) {
        header_ = Header(*token);
      } else {
        Log(LogLevel::kError, "the token file cannot be used; sending the previous token",
            {{"error", std::string(token.status().message())}});
      }
    }
    return new TokenInterceptor(header_);
  }

 private:
  static std::string Header(const std::string& token) { return absl::StrCat("Bearer ", token); }

  // Constant after construction.
  const std::string file_;
  const int64_t interval_ns_;

  std::mutex mutex_;  // guards the members below
  int64_t next_look_ns_;
  std::string header_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
MakeTokenSender(const std::string& token_file, absl::Duration reload_interval) {
  KC_ASSIGN_OR_RETURN(const std::string token, ReadToken(token_file));
  return std::make_unique<TokenInterceptorFactory>(token_file, token, reload_interval);
}

}  // namespace kernelcast
