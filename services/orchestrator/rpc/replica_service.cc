#include "services/orchestrator/rpc/replica_service.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"
#include "common/base/status.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_writer.h"
#include "common/rpc/unary_reactor.h"
#include "services/orchestrator/convert/convert.h"
#include "services/orchestrator/rpc/replies.h"

namespace kernelcast::orchestrator {

using ::kernelcast::ToProto;

namespace {

absl::Status NotHeld() {
  return UnavailableFor("this orchestrator does not hold the shard any more", absl::Seconds(1));
}

// The partial replies of a call to several shards.
template <class Reply>
struct Gathered {
  explicit Gathered(int parts) : replies(static_cast<size_t>(parts)), missing(parts) {}
  std::mutex mutex;
  std::vector<Reply> replies ABSL_GUARDED_BY(mutex);
  int missing ABSL_GUARDED_BY(mutex);
};

}  // namespace

ReplicaService::ReplicaService(ShardSet* shards, const WorkerPool* workers,
                               const ForecasterPool* forecasters, const ChannelOptions& channel,
                               absl::Duration patience, ReplicaMetrics* metrics)
    : shards_(shards),
      workers_(workers),
      forecasters_(forecasters),
      metrics_(metrics),
      router_(shards, channel, patience, metrics) {}

ReplicaService::~ReplicaService() = default;

void ReplicaService::BeginDrain() {
  draining_ = true;
  router_.BeginDrain();
}

void ReplicaService::OnOpened(const std::shared_ptr<HeldShard>& held) {
  held->engine->Inspect([&](const State& state) {
    const std::lock_guard lock(held->problems_mutex);
    for (const auto& [problem_id, problem] : state.problems()) held->problems.insert(problem_id);
  });
  auto streams = std::make_shared<LogStreams>(held->engine.get(), held->store.get(), held);
  const std::lock_guard lock(streams_mutex_);
  streams_[held->shard] = std::move(streams);
}

void ReplicaService::OnClosing(const std::shared_ptr<HeldShard>& held) {
  const std::lock_guard lock(streams_mutex_);
  const auto found = streams_.find(held->shard);
  if (found == streams_.end()) return;
  found->second->BeginDrain();
  closed_streams_.push_back(std::move(found->second));
  streams_.erase(found);
}

void ReplicaService::OnChanged() {
  metrics_->Show(shards_->figures());
  router_.LookAll();
  std::vector<Streams> ended;
  const std::lock_guard lock(streams_mutex_);
  std::erase_if(closed_streams_, [&](Streams& streams) {
    if (streams.use_count() > 1) return false;
    ended.push_back(std::move(streams));
    return true;
  });
}

ReplicaService::Streams ReplicaService::StreamsOf(int shard) const {
  if (shards_->Find(shard).held == nullptr) return nullptr;
  const std::lock_guard lock(streams_mutex_);
  const auto found = streams_.find(shard);
  return found != streams_.end() ? found->second : nullptr;
}

int ReplicaService::ShardOf(const CallOrigin& origin, const std::string& id) const {
  return origin.shard ? *origin.shard : shards_->ShardOf(id);
}

grpc::ServerUnaryReactor* ReplicaService::Describe(grpc::CallbackServerContext* context,
                                                   const v1::OrchestratorDescribeRequest* request,
                                                   v1::OrchestratorDescription* response) {
  const CallOrigin origin(*context);
  EngineFigures figures;
  for (const auto& held : shards_->Held()) {
    const EngineFigures part = held->engine->figures();
    figures.events += part.events;
    figures.live_evaluations += part.live_evaluations;
  }
  v1::OrchestratorDescription description =
      MakeDescription(*workers_, *forecasters_, figures, draining_);
  if (!request->include_state_digest()) {
    auto* call = new AsyncUnary<v1::OrchestratorDescription>(context, response);
    call->reply().Send(std::move(description));
    return call;
  }
  if (!origin.shard) {
    return FinishNow(context, absl::InvalidArgumentError(absl::StrCat(
                                  "include_state_digest: there is one of each of ",
                                  shards_->shards(), " shards; name one as metadata ", kShardKey)));
  }
  const std::shared_ptr<HeldShard> held = shards_->Find(*origin.shard).held;
  if (held == nullptr) return FinishNow(context, NotHeld());
  auto* call = new AsyncUnary<v1::OrchestratorDescription>(context, response);
  const auto done = AnsweredAnyway<v1::OrchestratorDescription>(
      [reply = call->reply()](absl::StatusOr<v1::OrchestratorDescription> result) {
        reply.Finish(std::move(result));
      });
  held->engine->DigestState(
      [done, description = std::move(description)](uint64_t sequence, std::string digest) mutable {
        description.set_state_sequence(sequence);
        description.set_state_digest(std::move(digest));
        done(std::move(description));
      });
  return call;
}

grpc::ServerUnaryReactor* ReplicaService::PutProblem(grpc::CallbackServerContext* context,
                                                     const v1::PutProblemRequest* request,
                                                     v1::PutProblemReply* response) {
  auto* call = new AsyncUnary<v1::PutProblemReply>(context, response);
  catalogue_.Post([this, reply = call->reply(), message = request->problem()] {
    absl::StatusOr<Problem> problem = ProblemFromProto(message);
    absl::Status status = problem.status();
    if (status.ok()) status = shards_->PutProblem(problem->problem_id, problem->files);
    if (!status.ok()) {
      reply.Fail(status);
      return;
    }
    v1::PutProblemReply put;
    *put.mutable_definition() = ToProto(*problem);
    reply.Send(std::move(put));
  });
  return call;
}

void ReplicaService::WithProblem(const std::shared_ptr<HeldShard>& held,
                                 const std::string& problem_id,
                                 std::function<void(const absl::Status&)> then) {
  bool known = false;
  {
    const std::lock_guard lock(held->problems_mutex);
    known = held->problems.contains(problem_id);
  }
  if (known) {
    then(absl::OkStatus());
    return;
  }
  // Queued tasks may be dropped when the service ends; by then nobody waits for them.
  catalogue_.Post([this, held, problem_id, then = std::move(then)] {
    auto files = shards_->GetProblem(problem_id);
    if (!files.ok() || !files->has_value()) {
      then(files.status());  // if the problem is unknown, the engine reports it
      return;
    }
    held->engine->PutProblem(
        **std::move(files),
        AnsweredAnyway<std::shared_ptr<const Problem>>(
            [held, problem_id, then](const absl::StatusOr<std::shared_ptr<const Problem>>& put) {
              if (put.ok()) {
                const std::lock_guard lock(held->problems_mutex);
                held->problems.insert(problem_id);
              }
              then(put.status());
            }));
  });
}

std::shared_ptr<ReplicaService::Evaluation> ReplicaService::RouteEvaluation(
    const CallOrigin& origin, const v1::EvaluateRequest& request, std::function<bool()> open,
    Evaluation::Done done) {
  // Searches on several device models are in the same shard.
  const std::string id(request.search_id().empty() ? std::string_view(request.request_id())
                                                   : IdOfSeveral(request.search_id()));
  Evaluation::Handlers handlers;
  handlers.here = [this](const std::shared_ptr<HeldShard>& held, const v1::EvaluateRequest& asked,
                         const Evaluation::Done& answer) {
    absl::StatusOr<Engine::EvaluateCommand> command = CommandFromProto(asked);
    if (!command.ok()) {
      answer(command.status());
      return;
    }
    WithProblem(held, asked.candidate().problem_id(),
                [held, answer, command = *std::move(command)](const absl::Status& known) {
                  if (!known.ok()) {
                    answer(known);
                    return;
                  }
                  held->engine->Evaluate(command,
                                         [answer, id = command.request_id](
                                             const absl::StatusOr<EvaluationRecord>& record) {
                                           if (record.ok()) {
                                             answer(ReplyFromRecord(id, *record));
                                           } else {
                                             answer(record.status());
                                           }
                                         });
                });
  };
  handlers.there = [](v1::Orchestrator::Stub& peer, grpc::ClientContext* context,
                      const v1::EvaluateRequest* asked, v1::EvaluateReply* reply,
                      std::function<void(grpc::Status)> ended) {
    peer.async()->Evaluate(context, asked, reply, std::move(ended));
  };
  handlers.open = std::move(open);
  handlers.done = std::move(done);
  return Evaluation::Make(&router_, origin, ShardOf(origin, id), request, std::move(handlers));
}

grpc::ServerUnaryReactor* ReplicaService::Evaluate(grpc::CallbackServerContext* context,
                                                   const v1::EvaluateRequest* request,
                                                   v1::EvaluateReply* response) {
  if (absl::Status valid = CommandFromProto(*request).status(); !valid.ok()) {
    return FinishNow(context, valid);
  }
  auto* call = new AsyncUnary<v1::EvaluateReply>(context, response);
  auto route = RouteEvaluation(
      CallOrigin(*context), *request, [reply = call->reply()] { return reply.open(); },
      [reply = call->reply()](absl::StatusOr<v1::EvaluateReply> result) {
        if (result.ok()) {
          reply.Send(*std::move(result));
        } else {
          reply.Fail(WithRetryHint(result.status()));
        }
      });
  call->set_on_cancel([route] { route->Cancel(); });
  route->Start();
  return call;
}

template <class Sender>
void ReplicaService::EvaluateOn(const Sender& sender, const CallOrigin& origin,
                                const v1::EvaluateRequest& request) {
  if (absl::Status valid = CommandFromProto(request).status(); !valid.ok()) {
    sender.Send(ReplyFromError(request.request_id(), valid));
    return;
  }
  RouteEvaluation(
      origin, request, [sender] { return sender.open(); },
      [sender, id = request.request_id()](absl::StatusOr<v1::EvaluateReply> result) {
        sender.Send(result.ok() ? *std::move(result) : ReplyFromError(id, result.status()));
      })
      ->Start();
}

class ReplicaService::EvaluateStreamReactor final
    : public BidiStream<v1::EvaluateRequest, v1::EvaluateReply> {
 public:
  EvaluateStreamReactor(grpc::CallbackServerContext* context, ReplicaService* service)
      : BidiStream(context, kEvaluationsPerStream), service_(service), origin_(*context) {}

 private:
  void OnRequest(const v1::EvaluateRequest& request) override {
    service_->EvaluateOn(sender(), origin_, request);
  }

  ReplicaService* const service_;
  const CallOrigin origin_;
};

grpc::ServerBidiReactor<v1::EvaluateRequest, v1::EvaluateReply>* ReplicaService::EvaluateStream(
    grpc::CallbackServerContext* context) {
  return new EvaluateStreamReactor(context, this);
}

class ReplicaService::EvaluateBatchStream final : public BatchStream<kernelcast::EvaluateBatches> {
 public:
  EvaluateBatchStream(grpc::CallbackServerContext* context, ReplicaService* service)
      : BatchStream(context, kEvaluationsPerStream), service_(service), origin_(*context) {}

 private:
  void OnRequests(const v1::EvaluateBatch& message) override {
    for (const v1::EvaluateRequest& request : message.requests()) {
      service_->EvaluateOn(sender(), origin_, request);
    }
  }

  ReplicaService* const service_;
  const CallOrigin origin_;
};

grpc::ServerBidiReactor<v1::EvaluateBatch, v1::EvaluateBatchReply>* ReplicaService::EvaluateBatches(
    grpc::CallbackServerContext* context) {
  return new EvaluateBatchStream(context, this);
}

template <class Request, class Reply, class There>
grpc::ServerUnaryReactor* ReplicaService::RouteSearchCall(
    grpc::CallbackServerContext* context, const Request& request, Reply* response,
    std::function<void(const std::shared_ptr<HeldShard>&, const Request&, Engine::SearchDone)> here,
    There there) {
  auto* call = new AsyncUnary<Reply>(context, response);
  typename RoutedCall<Request, Reply>::Handlers handlers;
  handlers.here = [here = std::move(here)](const std::shared_ptr<HeldShard>& held,
                                           const Request& asked,
                                           std::function<void(absl::StatusOr<Reply>)> answer) {
    here(held, asked, [answer = std::move(answer)](const absl::StatusOr<SearchSnapshot>& search) {
      if (!search.ok()) {
        answer(search.status());
        return;
      }
      answer(ReplyFromSearch<Reply>(*search));
    });
  };
  handlers.there = there;
  handlers.open = [reply = call->reply()] { return reply.open(); };
  handlers.done = [reply = call->reply()](absl::StatusOr<Reply> result) {
    reply.Finish(std::move(result));
  };
  const CallOrigin origin(*context);
  auto route = RoutedCall<Request, Reply>::Make(
      &router_, origin, ShardOf(origin, std::string(IdOfSeveral(request.search_id()))), request,
      std::move(handlers));
  call->set_on_cancel([route] { route->Cancel(); });
  route->Start();
  return call;
}

grpc::ServerUnaryReactor* ReplicaService::StartSearch(grpc::CallbackServerContext* context,
                                                      const v1::StartSearchRequest* request,
                                                      v1::StartSearchReply* response) {
  if (absl::Status valid = FromProto(request->spec()).status(); !valid.ok()) {
    return FinishNow(context, valid);
  }
  v1::StartSearchRequest named = *request;
  // The id determines the shard.
  if (named.search_id().empty()) named.set_search_id(RandomId("s_"));
  return RouteSearchCall<v1::StartSearchRequest, v1::StartSearchReply>(
      context, named, response,
      [this](const std::shared_ptr<HeldShard>& held, const v1::StartSearchRequest& asked,
             const Engine::SearchDone& done) {
        absl::StatusOr<SearchSpec> spec = FromProto(asked.spec());
        if (!spec.ok()) {
          done(spec.status());
          return;
        }
        WithProblem(held, asked.spec().problem_id(),
                    [held, done, id = asked.search_id(),
                     spec = *std::move(spec)](const absl::Status& known) {
                      if (known.ok()) {
                        held->engine->StartSearch(id, spec, done);
                      } else {
                        done(known);
                      }
                    });
      },
      [](v1::Orchestrator::Stub& peer, grpc::ClientContext* to, const v1::StartSearchRequest* asked,
         v1::StartSearchReply* reply, std::function<void(grpc::Status)> ended) {
        peer.async()->StartSearch(to, asked, reply, std::move(ended));
      });
}

grpc::ServerUnaryReactor* ReplicaService::StopSearch(grpc::CallbackServerContext* context,
                                                     const v1::StopSearchRequest* request,
                                                     v1::StopSearchReply* response) {
  return RouteSearchCall<v1::StopSearchRequest, v1::StopSearchReply>(
      context, *request, response,
      [](const std::shared_ptr<HeldShard>& held, const v1::StopSearchRequest& asked,
         Engine::SearchDone done) { held->engine->StopSearch(asked.search_id(), std::move(done)); },
      [](v1::Orchestrator::Stub& peer, grpc::ClientContext* to, const v1::StopSearchRequest* asked,
         v1::StopSearchReply* reply, std::function<void(grpc::Status)> ended) {
        peer.async()->StopSearch(to, asked, reply, std::move(ended));
      });
}

grpc::ServerUnaryReactor* ReplicaService::GetSearch(grpc::CallbackServerContext* context,
                                                    const v1::GetSearchRequest* request,
                                                    v1::GetSearchReply* response) {
  return RouteSearchCall<v1::GetSearchRequest, v1::GetSearchReply>(
      context, *request, response,
      [](const std::shared_ptr<HeldShard>& held, const v1::GetSearchRequest& asked,
         Engine::SearchDone done) { held->engine->GetSearch(asked.search_id(), std::move(done)); },
      [](v1::Orchestrator::Stub& peer, grpc::ClientContext* to, const v1::GetSearchRequest* asked,
         v1::GetSearchReply* reply, std::function<void(grpc::Status)> ended) {
        peer.async()->GetSearch(to, asked, reply, std::move(ended));
      });
}

grpc::ServerUnaryReactor* ReplicaService::ListSearches(grpc::CallbackServerContext* context,
                                                       const v1::ListSearchesRequest* request,
                                                       v1::ListSearchesReply* response) {
  using List = RoutedCall<v1::ListSearchesRequest, v1::ListSearchesReply>;
  if (absl::Status valid = CheckPage(*request); !valid.ok()) {
    return FinishNow(context, valid);
  }
  auto* call = new AsyncUnary<v1::ListSearchesReply>(context, response);
  const CallOrigin origin(*context);
  std::vector<int> shards(static_cast<size_t>(origin.shard ? 1 : shards_->shards()));
  std::iota(shards.begin(), shards.end(), origin.shard.value_or(0));
  auto gathered =
      std::make_shared<Gathered<v1::ListSearchesReply>>(static_cast<int>(shards.size()));
  std::vector<std::shared_ptr<List>> routes;
  routes.reserve(shards.size());
  for (size_t part = 0; part < shards.size(); ++part) {
    List::Handlers handlers;
    handlers.here = [](const std::shared_ptr<HeldShard>& held, const v1::ListSearchesRequest& asked,
                       const List::Done& answer) {
      held->engine->ListSearches([answer, asked](const std::vector<SearchSnapshot>& searches) {
        answer(MakePage(asked, searches));
      });
    };
    handlers.there = [](v1::Orchestrator::Stub& peer, grpc::ClientContext* to,
                        const v1::ListSearchesRequest* asked, v1::ListSearchesReply* reply,
                        std::function<void(grpc::Status)> ended) {
      peer.async()->ListSearches(to, asked, reply, std::move(ended));
    };
    handlers.open = [reply = call->reply()] { return reply.open(); };
    handlers.done = [reply = call->reply(), gathered, part,
                     asked = *request](absl::StatusOr<v1::ListSearchesReply> result) {
      if (!result.ok()) {
        reply.Fail(result.status());
        return;
      }
      std::vector<v1::ListSearchesReply> all;
      {
        const std::lock_guard lock(gathered->mutex);
        gathered->replies[part] = *std::move(result);
        if (--gathered->missing > 0) return;
        all = std::move(gathered->replies);
      }
      reply.Send(JoinPages(asked, all));
    };
    routes.push_back(List::Make(&router_, origin, shards[part], *request, std::move(handlers)));
  }
  call->set_on_cancel([routes] {
    for (const auto& route : routes) route->Cancel();
  });
  for (const auto& route : routes) route->Start();
  return call;
}

grpc::ServerWriteReactor<v1::SearchEvent>* ReplicaService::WatchSearch(
    grpc::CallbackServerContext* context, const v1::WatchSearchRequest* request) {
  const CallOrigin origin(*context);
  if (origin.shard) {
    const Streams streams = StreamsOf(*origin.shard);
    if (streams == nullptr) return new EndedStream<v1::SearchEvent>(context, NotHeld());
    return streams->Watch(context, request->search_id(), request->from_sequence());
  }
  // Uses the network even if the shard is held here, because the holder may change before the
  // stream begins.
  auto* stream = new RelayStream<v1::WatchSearchRequest, v1::SearchEvent>(
      context, &router_, {shards_->ShardOf(IdOfSeveral(request->search_id()))}, /*endless=*/true,
      *request,
      [](v1::Orchestrator::Stub& peer, grpc::ClientContext* to, const v1::WatchSearchRequest* asked,
         grpc::ClientReadReactor<v1::SearchEvent>* reader) {
        peer.async()->WatchSearch(to, asked, reader);
      });
  stream->Start();
  return stream;
}

grpc::ServerWriteReactor<v1::ExportRecord>* ReplicaService::Export(
    grpc::CallbackServerContext* context, const v1::ExportRequest* request) {
  const CallOrigin origin(*context);
  if (origin.shard) {
    const Streams streams = StreamsOf(*origin.shard);
    if (streams == nullptr) return new EndedStream<v1::ExportRecord>(context, NotHeld());
    return streams->Export(context, *request);
  }
  std::vector<int> shards = {shards_->ShardOf(IdOfSeveral(request->search_id()))};
  if (request->search_id().empty()) {
    if (request->from_sequence() > 1 && shards_->shards() > 1) {
      return new EndedStream<v1::ExportRecord>(
          context, absl::InvalidArgumentError(
                       absl::StrCat("from_sequence: each of the log's ", shards_->shards(),
                                    " shards counts for itself; give a search_id with it")));
    }
    shards.resize(static_cast<size_t>(shards_->shards()));
    std::iota(shards.begin(), shards.end(), 0);
  }
  auto* stream = new RelayStream<v1::ExportRequest, v1::ExportRecord>(
      context, &router_, std::move(shards), /*endless=*/false, *request,
      [](v1::Orchestrator::Stub& peer, grpc::ClientContext* to, const v1::ExportRequest* asked,
         grpc::ClientReadReactor<v1::ExportRecord>* reader) {
        peer.async()->Export(to, asked, reader);
      });
  stream->Start();
  return stream;
}

}  // namespace kernelcast::orchestrator
