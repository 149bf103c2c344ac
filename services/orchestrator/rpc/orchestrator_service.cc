#include "services/orchestrator/rpc/orchestrator_service.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"
#include "common/base/status.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/convert/default_target.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_writer.h"
#include "common/rpc/unary_reactor.h"
#include "services/orchestrator/convert/convert.h"
#include "services/orchestrator/core/engine_ids.h"
#include "services/orchestrator/rpc/replies.h"
#include "services/orchestrator/rpc/rewards.h"

namespace kernelcast::orchestrator {

using Async = v1::Orchestrator::StubInterface::async_interface;

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

// Passes the engine's result on as a reply.
template <class Done>
Engine::EvaluateDone ReplyTo(Done done, const v1::EvaluateRequest& request) {
  return [done = std::move(done), id = request.request_id(),
          facts = request.include_facts()](const absl::StatusOr<EvaluationRecord>& record) {
    if (record.ok()) {
      done(ReplyFromRecord(id, *record, facts));
    } else {
      done(record.status());
    }
  };
}

}  // namespace

// Evaluations for engines here. They are passed on together, with one wakeup for each engine.
class OrchestratorService::LocalEvaluations {
 public:
  // `most`: expected number.
  explicit LocalEvaluations(size_t most) : most_(most) {}

  void Add(const std::shared_ptr<HeldShard>& held, Engine::EvaluateCall call) {
    for (auto& [known, calls] : calls_) {
      if (known == held) {
        calls.push_back(std::move(call));
        return;
      }
    }
    auto& [shard, calls] = calls_.emplace_back(held, std::vector<Engine::EvaluateCall>());
    calls.reserve(most_);
    calls.push_back(std::move(call));
  }
  void Send() {
    for (auto& [held, calls] : calls_) held->engine->Evaluate(std::move(calls));
    calls_.clear();
  }

 private:
  const size_t most_;
  std::vector<std::pair<std::shared_ptr<HeldShard>, std::vector<Engine::EvaluateCall>>> calls_;
};

OrchestratorService::OrchestratorService(EngineDirectory* engines, const WorkerPool* workers,
                                         const ForecasterPool* forecasters,
                                         const ChannelOptions& channel, absl::Duration patience,
                                         ReplicaMetrics* metrics)
    : engines_(engines),
      workers_(workers),
      forecasters_(forecasters),
      metrics_(metrics),
      router_(engines, channel, patience, metrics) {
  for (const auto& held : engines_->Held()) OnOpened(held);
}

OrchestratorService::~OrchestratorService() = default;

void OrchestratorService::BeginDrain() {
  draining_ = true;
  router_.BeginDrain();
  engines_->BeginDrain();
  if (engines_->shared()) return;
  const std::lock_guard lock(streams_mutex_);
  for (const auto& [shard, streams] : streams_) streams->BeginDrain();
}

void OrchestratorService::OnOpened(const std::shared_ptr<HeldShard>& held) {
  auto streams = std::make_shared<LogStreams>(held->engine.get(), held->store.get(), held);
  const std::lock_guard lock(streams_mutex_);
  streams_[held->shard] = std::move(streams);
}

void OrchestratorService::OnClosing(const std::shared_ptr<HeldShard>& held) {
  const std::lock_guard lock(streams_mutex_);
  const auto found = streams_.find(held->shard);
  if (found == streams_.end()) return;
  found->second->BeginDrain();
  closed_streams_.push_back(std::move(found->second));
  streams_.erase(found);
}

void OrchestratorService::OnChanged(const ShardFigures& figures) {
  metrics_->Show(figures);
  router_.LookAll();
  std::vector<Streams> ended;
  const std::lock_guard lock(streams_mutex_);
  std::erase_if(closed_streams_, [&](Streams& streams) {
    if (streams.use_count() > 1) return false;
    ended.push_back(std::move(streams));
    return true;
  });
}

OrchestratorService::Streams OrchestratorService::StreamsOf(int shard) const {
  if (engines_->Find(shard).held == nullptr) return nullptr;
  const std::lock_guard lock(streams_mutex_);
  const auto found = streams_.find(shard);
  return found != streams_.end() ? found->second : nullptr;
}

int OrchestratorService::ShardOf(const CallOrigin& origin, std::string_view id) const {
  return engines_->shared() && origin.shard ? *origin.shard : engines_->ShardOf(id);
}

int OrchestratorService::ShardOf(const CallOrigin& origin,
                                 const v1::EvaluateRequest& request) const {
  // Searches on several device models are in the same shard.
  return ShardOf(origin, request.search_id().empty() ? std::string_view(request.request_id())
                                                     : IdOfSeveral(request.search_id()));
}

grpc::ServerUnaryReactor* OrchestratorService::Describe(
    grpc::CallbackServerContext* context, const v1::OrchestratorDescribeRequest* request,
    v1::OrchestratorDescription* response) {
  const CallOrigin origin(*context);
  EngineFigures figures;
  for (const auto& held : engines_->Held()) {
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
  if (!origin.shard && engines_->shards() > 1) {
    return FinishNow(context,
                     absl::InvalidArgumentError(absl::StrCat(
                         "include_state_digest: there is one of each of ", engines_->shards(),
                         " shards; name one as metadata ", kShardKey)));
  }
  const std::shared_ptr<HeldShard> held = engines_->Find(ShardOf(origin, "")).held;
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

grpc::ServerUnaryReactor* OrchestratorService::PutProblem(grpc::CallbackServerContext* context,
                                                          const v1::PutProblemRequest* request,
                                                          v1::PutProblemReply* response) {
  auto* call = new AsyncUnary<v1::PutProblemReply>(context, response);
  parser_.Submit([this, reply = call->reply(), message = request->problem()] {
    absl::StatusOr<std::shared_ptr<const Problem>> problem = problems_.Put(message);
    if (!problem.ok()) {
      reply.Fail(problem.status());
      return;
    }
    v1::PutProblemReply put;
    *put.mutable_definition() = ToProto(**problem);
    std::vector<v1::WorkerDescription> workers;
    for (WorkerView& view : workers_->View()) workers.push_back(std::move(view.description));
    SetDefaultTarget(**problem, workers, put);
    engines_->PutProblem(*std::move(problem),
                         [reply, put = std::move(put)](const absl::Status& stored) {
                           stored.ok() ? reply.Send(put) : reply.Fail(stored);
                         });
  });
  return call;
}

void OrchestratorService::WithProblem(const std::shared_ptr<HeldShard>& held,
                                      const std::string& problem_id,
                                      EngineDirectory::ProblemDone then) {
  if (engines_->HasProblem(*held, problem_id)) {
    then(absl::OkStatus());
  } else {
    engines_->FetchProblem(held, problem_id, std::move(then));
  }
}

void OrchestratorService::EvaluateWithProblem(const std::shared_ptr<HeldShard>& held,
                                              Engine::EvaluateCommand command,
                                              Engine::EvaluateDone done) {
  const std::string problem_id = command.candidate.problem_id;
  WithProblem(
      held, problem_id,
      [held, command = std::move(command), done = std::move(done)](const absl::Status& known) {
        known.ok() ? held->engine->Evaluate(command, done) : done(known);
      });
}

std::shared_ptr<OrchestratorService::RoutedEvaluation> OrchestratorService::MakeRoute(
    int shard, v1::EvaluateRequest request, const CallOrigin& origin, Caller caller) {
  RoutedEvaluation::Handlers handlers;
  handlers.method = "kernelcast.v1.Orchestrator/Evaluate";
  handlers.here = [this, trace = origin.trace](const std::shared_ptr<HeldShard>& held,
                                               const v1::EvaluateRequest& asked,
                                               const RoutedEvaluation::Done& answer) {
    absl::StatusOr<Engine::EvaluateCommand> command = CommandFromProto(asked);
    if (!command.ok()) {
      answer(command.status());
      return;
    }
    command->trace = trace;
    EvaluateWithProblem(held, *std::move(command), ReplyTo(answer, asked));
  };
  handlers.there = &Async::Evaluate;
  handlers.open = std::move(caller.open);
  handlers.done = std::move(caller.done);
  return RoutedEvaluation::Make(&router_, origin, shard, std::move(request), std::move(handlers));
}

std::shared_ptr<OrchestratorService::RoutedEvaluation> OrchestratorService::EvaluateOne(
    const v1::EvaluateRequest& request, const CallOrigin& origin, Caller caller,
    LocalEvaluations& local) {
  if (request.has_reward()) {
    absl::StatusOr<KernelRewardSpec> spec = FromProto(request.reward());
    if (!spec.ok()) {
      caller.done(spec.status());
      return nullptr;
    }
    caller.done = [spec = *std::move(spec),
                   done = std::move(caller.done)](absl::StatusOr<v1::EvaluateReply> reply) {
      if (reply.ok()) AddRewards(spec, *reply);
      done(std::move(reply));
    };
  }
  const int shard = ShardOf(origin, request);
  const std::shared_ptr<HeldShard> held = engines_->Find(shard).held;
  if (held == nullptr) return MakeRoute(shard, request, origin, std::move(caller));

  absl::StatusOr<Engine::EvaluateCommand> command = CommandFromProto(request);
  if (!command.ok()) {
    caller.done(command.status());
    return nullptr;
  }
  command->trace = origin.trace;
  Engine::EvaluateDone done;
  if (!engines_->shared() || origin.shard) {
    done = ReplyTo(std::move(caller.done), request);
  } else {
    // If the shard moves meanwhile, the request follows it.
    done = [this, shard, origin, request,
            caller = std::move(caller)](const absl::StatusOr<EvaluationRecord>& record) {
      if (record.ok()) {
        caller.done(ReplyFromRecord(request.request_id(), *record, request.include_facts()));
      } else if (absl::IsUnavailable(record.status())) {
        MakeRoute(shard, request, origin, caller)->StartAfter(record.status());
      } else {
        caller.done(record.status());
      }
    };
  }
  if (engines_->HasProblem(*held, command->candidate.problem_id)) {
    local.Add(held, {*std::move(command), std::move(done)});
    return nullptr;
  }
  EvaluateWithProblem(held, *std::move(command), std::move(done));
  return nullptr;
}

grpc::ServerUnaryReactor* OrchestratorService::Evaluate(grpc::CallbackServerContext* context,
                                                        const v1::EvaluateRequest* request,
                                                        v1::EvaluateReply* response) {
  auto* call = new AsyncUnary<v1::EvaluateReply>(context, response);
  LocalEvaluations local(1);
  const auto route =
      EvaluateOne(*request, CallOrigin(*context),
                  {[reply = call->reply()] { return reply.open(); },
                   [reply = call->reply()](absl::StatusOr<v1::EvaluateReply> result) {
                     if (result.ok()) {
                       reply.Send(*std::move(result));
                     } else {
                       reply.Fail(WithRetryHint(result.status()));
                     }
                   }},
                  local);
  if (route != nullptr) {
    call->set_on_cancel([route] { route->Cancel(); });
    route->Start();
  } else if (request->cancel_with_call()) {
    call->set_on_cancel(
        [this, shard = ShardOf(CallOrigin(*context), *request), id = request->request_id()] {
          const std::shared_ptr<HeldShard> held = engines_->Find(shard).held;
          if (held != nullptr) held->engine->CancelEvaluation(id);
        });
  }
  local.Send();
  return call;
}

class OrchestratorService::EvaluateStreamReactor final : public BatchStream<EvaluateBatches> {
 public:
  EvaluateStreamReactor(grpc::CallbackServerContext* context, OrchestratorService* service)
      : BatchStream(context, kEvaluationsPerStream), service_(service), origin_(*context) {}

 private:
  void OnRequests(const v1::EvaluateStreamRequest& message) override {
    LocalEvaluations local(EvaluateBatches::Requests(message));
    for (const v1::EvaluateRequest& request : message.requests()) {
      if (request.cancel_with_call()) {
        sender().Send(ReplyFromError(
            request.request_id(),
            absl::InvalidArgumentError("cancel_with_call: true is not allowed on a stream")));
        continue;
      }
      const auto route = service_->EvaluateOne(
          request, origin_,
          {[sender = sender()] { return sender.open(); },
           [sender = sender(), id = request.request_id()](absl::StatusOr<v1::EvaluateReply> reply) {
             sender.Send(reply.ok() ? *std::move(reply) : ReplyFromError(id, reply.status()));
           }},
          local);
      if (route != nullptr) route->Start();
    }
    local.Send();
  }

  OrchestratorService* const service_;
  const CallOrigin origin_;
};

grpc::ServerBidiReactor<v1::EvaluateStreamRequest, v1::EvaluateStreamReply>*
OrchestratorService::EvaluateStream(grpc::CallbackServerContext* context) {
  return new EvaluateStreamReactor(context, this);
}

template <class Request, class Reply>
grpc::ServerUnaryReactor* OrchestratorService::RouteSearchCall(
    grpc::CallbackServerContext* context, const Request& request, Reply* response,
    const char* method,
    std::function<void(const std::shared_ptr<HeldShard>&, const Request&, const CallOrigin&,
                       Engine::SearchDone)>
        here,
    typename RoutedCall<Request, Reply>::Method there) {
  auto* call = new AsyncUnary<Reply>(context, response);
  const CallOrigin origin(*context);
  typename RoutedCall<Request, Reply>::Handlers handlers;
  handlers.method = method;
  handlers.here = [here = std::move(here), origin](
                      const std::shared_ptr<HeldShard>& held, const Request& asked,
                      std::function<void(absl::StatusOr<Reply>)> answer) {
    here(held, asked, origin,
         [answer = std::move(answer)](const absl::StatusOr<SearchSnapshot>& search) {
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
  auto route = RoutedCall<Request, Reply>::Make(&router_, origin,
                                                ShardOf(origin, IdOfSeveral(request.search_id())),
                                                request, std::move(handlers));
  call->set_on_cancel([route] { route->Cancel(); });
  route->Start();
  return call;
}

grpc::ServerUnaryReactor* OrchestratorService::StartSearch(grpc::CallbackServerContext* context,
                                                           const v1::StartSearchRequest* request,
                                                           v1::StartSearchReply* response) {
  if (absl::Status valid = FromProto(request->spec()).status(); !valid.ok()) {
    return FinishNow(context, valid);
  }
  v1::StartSearchRequest named = *request;
  // The id determines the shard.
  if (named.search_id().empty()) named.set_search_id(RandomId("s_"));
  return RouteSearchCall<v1::StartSearchRequest, v1::StartSearchReply>(
      context, named, response, "kernelcast.v1.Orchestrator/StartSearch",
      [this](const std::shared_ptr<HeldShard>& held, const v1::StartSearchRequest& asked,
             const CallOrigin& origin, const Engine::SearchDone& done) {
        absl::StatusOr<SearchSpec> spec = FromProto(asked.spec());
        if (!spec.ok()) {
          done(spec.status());
          return;
        }
        WithProblem(held, asked.spec().problem_id(),
                    [held, done, id = asked.search_id(), spec = *std::move(spec),
                     trace = origin.trace](const absl::Status& known) {
                      if (known.ok()) {
                        held->engine->StartSearch(id, spec, done, trace);
                      } else {
                        done(known);
                      }
                    });
      },
      &Async::StartSearch);
}

grpc::ServerUnaryReactor* OrchestratorService::StopSearch(grpc::CallbackServerContext* context,
                                                          const v1::StopSearchRequest* request,
                                                          v1::StopSearchReply* response) {
  return RouteSearchCall<v1::StopSearchRequest, v1::StopSearchReply>(
      context, *request, response, "kernelcast.v1.Orchestrator/StopSearch",
      [](const std::shared_ptr<HeldShard>& held, const v1::StopSearchRequest& asked,
         const CallOrigin&, Engine::SearchDone done) {
        held->engine->StopSearch(asked.search_id(), std::move(done), asked.abandon());
      },
      &Async::StopSearch);
}

grpc::ServerUnaryReactor* OrchestratorService::GetSearch(grpc::CallbackServerContext* context,
                                                         const v1::GetSearchRequest* request,
                                                         v1::GetSearchReply* response) {
  return RouteSearchCall<v1::GetSearchRequest, v1::GetSearchReply>(
      context, *request, response, "kernelcast.v1.Orchestrator/GetSearch",
      [](const std::shared_ptr<HeldShard>& held, const v1::GetSearchRequest& asked,
         const CallOrigin&, Engine::SearchDone done) {
        held->engine->GetSearch(asked.search_id(), std::move(done), asked.include_archive());
      },
      &Async::GetSearch);
}

grpc::ServerUnaryReactor* OrchestratorService::ListSearches(grpc::CallbackServerContext* context,
                                                            const v1::ListSearchesRequest* request,
                                                            v1::ListSearchesReply* response) {
  using List = RoutedCall<v1::ListSearchesRequest, v1::ListSearchesReply>;
  if (absl::Status valid = CheckPage(*request); !valid.ok()) {
    return FinishNow(context, valid);
  }
  auto* call = new AsyncUnary<v1::ListSearchesReply>(context, response);
  const CallOrigin origin(*context);
  const bool one = engines_->shared() && origin.shard;
  std::vector<int> shards(static_cast<size_t>(one ? 1 : engines_->shards()));
  std::iota(shards.begin(), shards.end(), one ? *origin.shard : 0);
  auto gathered =
      std::make_shared<Gathered<v1::ListSearchesReply>>(static_cast<int>(shards.size()));
  std::vector<std::shared_ptr<List>> routes;
  routes.reserve(shards.size());
  for (size_t part = 0; part < shards.size(); ++part) {
    List::Handlers handlers;
    handlers.method = "kernelcast.v1.Orchestrator/ListSearches";
    handlers.here = [](const std::shared_ptr<HeldShard>& held, const v1::ListSearchesRequest& asked,
                       const List::Done& answer) {
      held->engine->ListSearches([answer, asked](const std::vector<SearchSnapshot>& searches) {
        answer(MakePage(asked, searches));
      });
    };
    handlers.there = &Async::ListSearches;
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

grpc::ServerWriteReactor<v1::SearchEvent>* OrchestratorService::WatchSearch(
    grpc::CallbackServerContext* context, const v1::WatchSearchRequest* request) {
  const CallOrigin origin(*context);
  if (StreamsHere(origin)) {
    const Streams streams = StreamsOf(ShardOf(origin, IdOfSeveral(request->search_id())));
    if (streams == nullptr) return new EndedStream<v1::SearchEvent>(context, NotHeld());
    return streams->Watch(context, request->search_id(), request->from_sequence());
  }
  // Uses the network even if the shard is held here, because the holder may change before the
  // stream begins.
  auto* stream = new RelayStream<v1::WatchSearchRequest, v1::SearchEvent>(
      context, &router_, {engines_->ShardOf(IdOfSeveral(request->search_id()))}, /*endless=*/true,
      *request, &Async::WatchSearch);
  stream->Start();
  return stream;
}

grpc::ServerWriteReactor<v1::ExportRecord>* OrchestratorService::Export(
    grpc::CallbackServerContext* context, const v1::ExportRequest* request) {
  const CallOrigin origin(*context);
  if (StreamsHere(origin)) {
    const Streams streams = StreamsOf(ShardOf(origin, IdOfSeveral(request->search_id())));
    if (streams == nullptr) return new EndedStream<v1::ExportRecord>(context, NotHeld());
    return streams->Export(context, *request);
  }
  std::vector<int> shards = {engines_->ShardOf(IdOfSeveral(request->search_id()))};
  if (request->search_id().empty()) {
    if (request->from_sequence() > 1 && engines_->shards() > 1) {
      return new EndedStream<v1::ExportRecord>(
          context, absl::InvalidArgumentError(
                       absl::StrCat("from_sequence: each of the log's ", engines_->shards(),
                                    " shards counts for itself; give a search_id with it")));
    }
    shards.resize(static_cast<size_t>(engines_->shards()));
    std::iota(shards.begin(), shards.end(), 0);
  }
  auto* stream = new RelayStream<v1::ExportRequest, v1::ExportRecord>(
      context, &router_, std::move(shards), /*endless=*/false, *request, &Async::Export);
  stream->Start();
  return stream;
}

}  // namespace kernelcast::orchestrator
