#include "tests/unit/common/rpc/health_client.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/generic/generic_stub.h>

#include <functional>
#include <future>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/monotonic_time.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast {
namespace {

using google::protobuf::internal::WireFormatLite;

// gRPC ships no generated code for these messages. Each has one field: HealthCheckRequest.service =
// 1 (string) and HealthCheckResponse.status = 1 (enum).
constexpr int kField = 1;
constexpr uint32_t kServing = 1;

grpc::ByteBuffer HealthRequest(const std::string& service) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream output(&stream);
    WireFormatLite::WriteString(kField, service, &output);
  }
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

bool SaysServing(grpc::ByteBuffer& response) {
  grpc::Slice slice;
  if (!response.DumpToSingleSlice(&slice).ok()) {
    return false;
  }
  google::protobuf::io::CodedInputStream input(slice.begin(), static_cast<int>(slice.size()));
  uint32_t status = 0;
  while (const uint32_t tag = input.ReadTag()) {
    if (tag == WireFormatLite::MakeTag(kField, WireFormatLite::WIRETYPE_VARINT)) {
      if (!input.ReadVarint32(&status)) return false;
    } else if (!WireFormatLite::SkipField(&input, tag)) {
      return false;
    }
  }
  return status == kServing;
}

struct HealthCall {
  HealthCall(const std::shared_ptr<grpc::Channel>& c, const std::string& service)
      : channel(c), stub(c), request(HealthRequest(service)) {}

  std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub stub;
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
};

// Calls `done` once, on a gRPC thread.
void CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service,
                 absl::Duration timeout, std::function<void(const absl::Status&)> done) {
  // Shared with the callback, which gRPC copies.
  auto call = std::make_shared<HealthCall>(channel, service);
  SetTimeout(call->context, timeout);
  call->stub.UnaryCall(
      &call->context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &call->request,
      &call->response, [call, service, done = std::move(done)](const grpc::Status& status) {
        if (!status.ok()) {
          done(FromGrpc(status));
        } else if (!SaysServing(call->response)) {
          done(absl::UnavailableError(absl::StrCat("'", service, "' is not serving")));
        } else {
          done(absl::OkStatus());
        }
      });
}

}  // namespace

absl::Status CheckHealthBlocking(const std::shared_ptr<grpc::Channel>& channel,
                                 const std::string& service, absl::Duration timeout) {
  // Shared, because the callback may still be in set_value when the waiter returns.
  auto result = std::make_shared<std::promise<absl::Status>>();
  CheckHealth(channel, service, timeout,
              [result](const absl::Status& status) { result->set_value(status); });
  return result->get_future().get();
}

absl::Status WaitUntilServing(const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& service, absl::Duration timeout) {
  const absl::Time deadline = MonotonicNow() + timeout;
  while (true) {
    const absl::Status status = CheckHealthBlocking(channel, service, deadline - MonotonicNow());
    if (status.ok()) {
      return status;
    }
    // A check on an unconnected channel returns on connection or at the deadline. A connected
    // server that is not serving is polled.
    constexpr absl::Duration kPause = absl::Milliseconds(20);
    if (MonotonicNow() + kPause >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("not serving within ", absl::FormatDuration(timeout), ": ",
                       status.ToString(absl::StatusToStringMode::kWithNoExtraData)));
    }
    channel->WaitForConnected(absl::ToChronoTime(absl::Now() + (deadline - MonotonicNow())));
    absl::SleepFor(kPause);
  }
}

}  // namespace kernelcast
