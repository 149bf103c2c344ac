#ifndef KERNELCAST_TESTS_SUPPORT_ONE_BY_ONE_H_
#define KERNELCAST_TESTS_SUPPORT_ONE_BY_ONE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "common/convert/batch_protocols.h"

namespace kernelcast::testing {

// The client side of a stream, with one request per message. Returns replies one at a time, however
// many a message holds. One thread may write while another reads.
template <class Request, class Response>
class OneByOneStream {
 public:
  using Protocol = BatchProtocol<Request, Response>;
  using Stream = grpc::ClientReaderWriter<Request, Response>;

  explicit OneByOneStream(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  bool Write(const typename Protocol::Entry& request) {
    Request message;
    *message.add_requests() = request;
    return stream_->Write(message);
  }
  bool Read(typename Protocol::Answer* reply) {
    while (next_ == message_.replies_size()) {
      if (!stream_->Read(&message_)) return false;
      next_ = 0;
    }
    *reply = message_.replies(next_++);
    return true;
  }
  bool WritesDone() { return stream_->WritesDone(); }
  grpc::Status Finish() { return stream_->Finish(); }
  Stream& stream() { return *stream_; }

 private:
  const std::unique_ptr<Stream> stream_;
  Response message_;
  int next_ = 0;
};

template <class Request, class Response>
std::unique_ptr<OneByOneStream<Request, Response>> OneByOne(
    std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream) {
  return std::make_unique<OneByOneStream<Request, Response>>(std::move(stream));
}

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_ONE_BY_ONE_H_
