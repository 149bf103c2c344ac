#include "services/orchestrator/rpc/orchestrator_service.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_writer.h"
#include "common/rpc/unary_reactor.h"
#include "services/orchestrator/convert/convert.h"
#include "services/orchestrator/rpc/log_streams.h"
#include "services/orchestrator/rpc/replies.h"

namespace kernelcast::orchestrator {

using ::kernelcast::ToProto;

namespace {

// Sends the answer to one request of a stream.
template <class Sender>
Engine::EvaluateDone AnswerOn(Sender sender, std::string request_id) {
  return [sender = std::move(sender),
          id = std::move(request_id)](const absl::StatusOr<EvaluationRecord>& record) {
    sender.Send(record.ok() ? ReplyFromRecord(id, *record) : ReplyFromError(id, record.status()));
  };
}

class EvaluateStreamReactor final : public BidiStream<v1::EvaluateRequest, v1::EvaluateReply> {
 public:
  EvaluateStreamReactor(grpc::CallbackServerContext* context, Engine* engine)
      : BidiStream(context, kEvaluationsPerStream),
        engine_(engine),
        trace_(IncomingTrace(*context)) {}

 private:
  void OnRequest(const v1::EvaluateRequest& request) override {
    absl::StatusOr<Engine::EvaluateCommand> command = CommandFromProto(request);
    if (!command.ok()) {
      Send(ReplyFromError(request.request_id(), command.status()));
      return;
    }
    command->trace = trace_;
    engine_->Evaluate(*std::move(command), AnswerOn(sender(), request.request_id()));
  }

  Engine* const engine_;
  const TraceContext trace_;
};

class EvaluateBatchStream final : public BatchStream<EvaluateBatches> {
 public:
  EvaluateBatchStream(grpc::CallbackServerContext* context, Engine* engine)
      : BatchStream(context, kEvaluationsPerStream),
        engine_(engine),
        trace_(IncomingTrace(*context)) {}

 private:
  void OnRequests(const v1::EvaluateBatch& message) override {
    std::vector<Engine::EvaluateCall> calls;
    calls.reserve(EvaluateBatches::Requests(message));
    for (const v1::EvaluateRequest& request : message.requests()) {
      absl::StatusOr<Engine::EvaluateCommand> command = CommandFromProto(request);
      if (!command.ok()) {
        sender().Send(ReplyFromError(request.request_id(), command.status()));
        continue;
      }
      command->trace = trace_;
      calls.push_back({*std::move(command), AnswerOn(sender(), request.request_id())});
    }
    engine_->Evaluate(std::move(calls));
  }

  Engine* const engine_;
  const TraceContext trace_;
};

}  // namespace

OrchestratorService::OrchestratorService(Engine* engine, const EventStore* store,
                                         const WorkerPool* workers,
                                         const ForecasterPool* forecasters)
    : engine_(engine),
      workers_(workers),
      forecasters_(forecasters),
      log_streams_(std::make_shared<LogStreams>(engine, store)) {}

OrchestratorService::~OrchestratorService() = default;

void OrchestratorService::BeginDrain() {
  draining_ = true;
  engine_->BeginDrain();
  log_streams_->BeginDrain();
}

grpc::ServerUnaryReactor* OrchestratorService::Describe(
    grpc::CallbackServerContext* context, const v1::OrchestratorDescribeRequest* request,
    v1::OrchestratorDescription* response) {
  v1::OrchestratorDescription description =
      MakeDescription(*workers_, *forecasters_, engine_->figures(), draining_);
  auto* call = new AsyncUnary<v1::OrchestratorDescription>(context, response);
  if (!request->include_state_digest()) {
    call->reply().Send(std::move(description));
    return call;
  }
  engine_->DigestState([reply = call->reply(), description = std::move(description)](
                           uint64_t sequence, std::string digest) mutable {
    description.set_state_sequence(sequence);
    description.set_state_digest(std::move(digest));
    reply.Send(std::move(description));
  });
  return call;
}

grpc::ServerUnaryReactor* OrchestratorService::PutProblem(grpc::CallbackServerContext* context,
                                                          const v1::PutProblemRequest* request,
                                                          v1::PutProblemReply* response) {
  auto* call = new AsyncUnary<v1::PutProblemReply>(context, response);
  log_streams_->Post([this, reply = call->reply(), message = request->problem()] {
    absl::StatusOr<Problem> problem = ProblemFromProto(message);
    if (!problem.ok()) {
      reply.Fail(problem.status());
      return;
    }
    engine_->PutProblem(problem->files,
                        [reply](absl::StatusOr<std::shared_ptr<const Problem>> stored) {
                          if (!stored.ok()) {
                            reply.Fail(stored.status());
                            return;
                          }
                          v1::PutProblemReply put;
                          *put.mutable_definition() = ToProto(**stored);
                          reply.Send(std::move(put));
                        });
  });
  return call;
}

grpc::ServerUnaryReactor* OrchestratorService::Evaluate(grpc::CallbackServerContext* context,
                                                        const v1::EvaluateRequest* request,
                                                        v1::EvaluateReply* response) {
  absl::StatusOr<Engine::EvaluateCommand> command = CommandFromProto(*request);
  if (!command.ok()) {
    return FinishNow(context, command.status());
  }
  command->trace = IncomingTrace(*context);
  auto* call = new AsyncUnary<v1::EvaluateReply>(context, response);
  engine_->Evaluate(*std::move(command), [reply = call->reply(), id = request->request_id()](
                                             const absl::StatusOr<EvaluationRecord>& record) {
    if (record.ok()) {
      reply.Send(ReplyFromRecord(id, *record));
    } else {
      reply.Fail(WithRetryHint(record.status()));
    }
  });
  return call;
}

grpc::ServerBidiReactor<v1::EvaluateRequest, v1::EvaluateReply>*
OrchestratorService::EvaluateStream(grpc::CallbackServerContext* context) {
  return new EvaluateStreamReactor(context, engine_);
}

grpc::ServerBidiReactor<v1::EvaluateBatch, v1::EvaluateBatchReply>*
OrchestratorService::EvaluateBatches(grpc::CallbackServerContext* context) {
  return new EvaluateBatchStream(context, engine_);
}

namespace {

// For the three calls that return a search.
template <class Reply>
Engine::SearchDone AnswerWithSearch(const UnaryReply<Reply>& reply) {
  return [reply](const absl::StatusOr<SearchSnapshot>& search) {
    if (!search.ok()) {
      reply.Fail(search.status());
      return;
    }
    reply.Send(ReplyFromSearch<Reply>(*search));
  };
}

}  // namespace

grpc::ServerUnaryReactor* OrchestratorService::StartSearch(grpc::CallbackServerContext* context,
                                                           const v1::StartSearchRequest* request,
                                                           v1::StartSearchReply* response) {
  absl::StatusOr<SearchSpec> spec = FromProto(request->spec());
  if (!spec.ok()) {
    return FinishNow(context, spec.status());
  }
  auto* call = new AsyncUnary<v1::StartSearchReply>(context, response);
  engine_->StartSearch(request->search_id(), *std::move(spec), AnswerWithSearch(call->reply()),
                       IncomingTrace(*context));
  return call;
}

grpc::ServerWriteReactor<v1::SearchEvent>* OrchestratorService::WatchSearch(
    grpc::CallbackServerContext* context, const v1::WatchSearchRequest* request) {
  return log_streams_->Watch(context, request->search_id(), request->from_sequence());
}

grpc::ServerUnaryReactor* OrchestratorService::StopSearch(grpc::CallbackServerContext* context,
                                                          const v1::StopSearchRequest* request,
                                                          v1::StopSearchReply* response) {
  auto* call = new AsyncUnary<v1::StopSearchReply>(context, response);
  engine_->StopSearch(request->search_id(), AnswerWithSearch(call->reply()));
  return call;
}

grpc::ServerUnaryReactor* OrchestratorService::GetSearch(grpc::CallbackServerContext* context,
                                                         const v1::GetSearchRequest* request,
                                                         v1::GetSearchReply* response) {
  auto* call = new AsyncUnary<v1::GetSearchReply>(context, response);
  engine_->GetSearch(request->search_id(), AnswerWithSearch(call->reply()));
  return call;
}

grpc::ServerUnaryReactor* OrchestratorService::ListSearches(grpc::CallbackServerContext* context,
                                                            const v1::ListSearchesRequest* request,
                                                            v1::ListSearchesReply* response) {
  if (absl::Status valid = CheckPage(*request); !valid.ok()) {
    return FinishNow(context, valid);
  }
  auto* call = new AsyncUnary<v1::ListSearchesReply>(context, response);
  engine_->ListSearches(
      [reply = call->reply(), page = *request](const std::vector<SearchSnapshot>& searches) {
        reply.Send(MakePage(page, searches));
      });
  return call;
}

grpc::ServerWriteReactor<v1::ExportRecord>* OrchestratorService::Export(
    grpc::CallbackServerContext* context, const v1::ExportRequest* request) {
  return log_streams_->Export(context, *request);
}

}  // namespace kernelcast::orchestrator
