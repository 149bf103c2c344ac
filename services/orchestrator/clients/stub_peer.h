#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_STUB_PEER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_STUB_PEER_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "common/convert/convert.h"
#include "common/rpc/batch_caller.h"
#include "common/rpc/request_error.h"
#include "common/rpc/unary_call.h"
#include "services/orchestrator/clients/peer.h"

namespace kernelcast::orchestrator {

// A peer that is called with the stub of `Service`, and shares a stream of `Batches` among calls.
template <class Service, class PeerDescription, class Batches>
class StubPeer : public Peer {
 public:
  using Async = typename Service::StubInterface::async_interface;
  using Request = typename Batches::Entry;
  using Reply = typename Batches::Answer;

  void Describe(absl::Duration timeout, std::stop_token stop, Done done) override {
    StartUnaryCall(
        stub->async(), &Async::Describe, {}, {.timeout = timeout, .stop = std::move(stop)},
        [this, done = std::move(done)](const absl::Status& status, PeerDescription& reply) {
          if (status.ok()) reported = std::move(reply);
          done(status);
        });
  }
  void PutProblem(const Problem& problem, absl::Duration timeout, std::stop_token stop,
                  Done done) override {
    v1::PutProblemRequest put;
    *put.mutable_problem() = ProblemFilesToProto(problem);
    StartUnaryCall(
        stub->async(), &Async::PutProblem, std::move(put),
        {.timeout = timeout, .stop = std::move(stop)},
        [done = std::move(done)](const absl::Status& status, const auto&) { done(status); });
  }
  void CancelStreams() override { batches_.CancelAll(); }
  void StopStreams() override { batches_.Stop(); }

  // Sends the request as one of many in a message. `read` gets a reply without an error, and says
  // how the call ended.
  void CallInBatch(Request request, absl::Duration timeout, Done done,
                   std::function<absl::Status(Reply&)> read) {
    batches_.Call(std::move(request), timeout,
                  [this, done = std::move(done), read = std::move(read)](const absl::Status& status,
                                                                         Reply* reply) {
                    if (!status.ok()) return done(status);
                    if (!reply->has_error()) return done(read(*reply));
                    const absl::Status error = FromRequestError(reply->error());
                    if (error.code() == absl::StatusCode::kUnavailable) batches_.Renew();
                    done(error);
                  });
  }

  const std::unique_ptr<typename Service::Stub> stub;
  PeerDescription reported;  // written by Describe

  // The last description that was kept. Protected by the pool's lock.
  PeerDescription description;

 protected:
  // `start` starts the stream.
  template <class Start>
  StubPeer(std::string peer_address, const std::shared_ptr<grpc::Channel>& channel, Start start)
      : Peer(std::move(peer_address)),
        stub(Service::NewStub(channel)),
        batches_([s = stub.get(), start](grpc::ClientContext* context, auto* reactor) {
          start(s->async(), context, reactor);
        }) {}

 private:
  BatchCaller<Batches> batches_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_STUB_PEER_H_
