#include "services/forecaster/rpc/forecaster_service.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <stop_token>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/domain/facts.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/request_error.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/unary_reactor.h"
#include "services/forecaster/rpc/conversion.h"

namespace kernelcast::forecaster {
namespace {

constexpr size_t kMaxSearchIdBytes = 128;
constexpr absl::Duration kRetryAfter = absl::Milliseconds(50);
// Number of labels passed to the backends at once while reading them from disk.
constexpr size_t kLoadBatch = 1024;

std::vector<std::string> Names(const std::vector<Backend*>& backends) {
  std::vector<std::string> names;
  names.reserve(backends.size());
  for (const Backend* backend : backends) names.emplace_back(backend->name());
  return names;
}

int64_t DeadlineNs(const Clock& clock, absl::Duration remaining) {
  if (remaining > absl::Hours(24 * 365)) return std::numeric_limits<int64_t>::max();
  return clock.MonotonicNs() + absl::ToInt64Nanoseconds(remaining);
}

v1::ForecastReply ErrorReply(const std::string& request_id, const absl::Status& status) {
  v1::ForecastReply reply;
  reply.set_request_id(request_id);
  SetRequestError(status, *reply.mutable_error());
  return reply;
}

absl::Status Damaged(const std::string& what, const absl::Status& why) {
  return absl::DataLossError(absl::StrCat(what, " cannot be read back: ", why.message()));
}

}  // namespace

// Cancels the backends' work when the client leaves.
class ForecasterService::Stream final : public BatchStream<ForecastBatches> {
 public:
  Stream(ForecasterService* service, grpc::CallbackServerContext* context)
      : BatchStream(context, service->options_.max_stream_in_flight),
        service_(service),
        deadline_ns_(DeadlineNs(service->clock_, RemainingTime(*context))),
        trace_(IncomingTrace(*context)) {}

 private:
  void OnRequests(const v1::ForecastStreamRequest& message) override {
    const absl::Status available = service_->Available();
    const int64_t useful_until_ns =
        DeadlineNs(service_->clock_, ForecastBatches::TimeLeft(message));
    ForecastCall call{std::min(deadline_ns_, useful_until_ns), stop_.get_token()};
    call.trace = trace_;
    for (const v1::ForecastRequest& request : message.requests()) {
      if (!available.ok()) {
        sender().Send(ErrorReply(request.request_id(), available));
        continue;
      }
      service_->StartForecast(
          request, call,
          [sender = sender(), id = request.request_id()](absl::StatusOr<v1::ForecastReply> reply) {
            sender.Send(reply.ok() ? *std::move(reply) : ErrorReply(id, reply.status()));
          });
    }
  }
  void OnCancelled() override { stop_.request_stop(); }

  ForecasterService* const service_;
  const int64_t deadline_ns_;
  const TraceContext trace_;
  std::stop_source stop_;
};

ForecasterService::ForecasterService(const Options& options, LabelStore* store,
                                     std::vector<Backend*> backends, MetricsRegistry* metrics,
                                     const Clock& clock)
    : options_(options),
      store_(store),
      backends_(std::move(backends)),
      clock_(clock),
      metrics_(*metrics, Names(backends_)),
      problems_(options.max_cached_problems, options.max_cached_problem_bytes),
      writer_(options.writer, store, &problems_, backends_, &metrics_),
      scoring_(1, options.max_waiting_scores) {}

ForecasterService::~ForecasterService() = default;

absl::Status ForecasterService::Load() {
  std::map<std::string, std::shared_ptr<const ProblemContext>> problems;
  KC_RETURN_IF_ERROR(store_->ForEachProblem(
      [&](const std::string& id, const std::string& content) -> absl::Status {
        v1::Problem proto;
        if (!proto.ParseFromString(content)) {
          return Damaged(absl::StrCat("problem '", id, "'"), absl::DataLossError("not a message"));
        }
        absl::StatusOr<Problem> problem = ProblemFromProto(proto);
        if (!problem.ok()) return Damaged(absl::StrCat("problem '", id, "'"), problem.status());
        auto context = std::make_shared<const ProblemContext>(*std::move(problem));
        problems_.Put(id, context, content.size());
        problems.emplace(id, std::move(context));
        return absl::OkStatus();
      }));

  uint64_t count = 0;
  ReceivedCandidates stored_candidates;
  std::vector<ObservedLabel> batch;
  const auto flush = [&] {
    for (size_t i = 0; i + 1 < backends_.size(); ++i) backends_[i]->Observe(batch);
    backends_.back()->Observe(std::move(batch));
    batch.clear();
  };
  KC_RETURN_IF_ERROR(store_->ForEachLabel([&](StoredLabel stored) -> absl::Status {
    const std::string what = absl::StrCat("label '", stored.record.label_id, "'");
    v1::Label proto;
    if (!proto.ParseFromString(stored.record.content)) {
      return Damaged(what, absl::DataLossError("not a message"));
    }
    absl::StatusOr<Label> label = FromProto(proto, stored_candidates);
    if (!label.ok()) return Damaged(what, label.status());
    const auto problem = problems.find(stored.record.problem_id);
    if (problem == problems.end()) {
      return Damaged(what, absl::NotFoundError("its problem is not stored"));
    }
    batch.push_back({problem->second, stored.sequence, *std::move(label), /*replayed=*/true,
                     std::move(stored.prediction)});
    ++count;
    if (batch.size() == kLoadBatch) flush();
    return absl::OkStatus();
  }));
  if (!batch.empty()) flush();
  Log(LogLevel::kInfo, "state read", {{"problems", problems.size()}, {"labels", count}});
  return absl::OkStatus();
}

void ForecasterService::BeginDrain() { draining_ = true; }

absl::Status ForecasterService::Available() const {
  if (draining_) return NotStartedError("the forecaster is draining");
  return absl::OkStatus();
}

absl::StatusOr<Backend*> ForecasterService::FindBackend(const std::string& name) const {
  if (name.empty()) return backends_.front();
  for (Backend* backend : backends_) {
    if (backend->name() == name) return backend;
  }
  std::string known;
  for (const Backend* backend : backends_) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(backend->name()));
  }
  return absl::InvalidArgumentError(absl::StrCat("backend: '", name, "' is not one of ", known));
}

grpc::ServerUnaryReactor* ForecasterService::Describe(grpc::CallbackServerContext* context,
                                                      const v1::ForecasterDescribeRequest*,
                                                      v1::ForecasterDescription* response) {
  response->set_forecaster_id(options_.forecaster_id);
  response->set_version(std::string(Version()));
  uint64_t labels = 0;
  for (const Backend* backend : backends_) {
    const BackendDescription description = backend->Describe();
    *response->add_backends() = ToProto(description);
    if (backend == backends_.front()) {
      response->set_uses_anchors(description.model_use.has_value());
    }
    for (const PromptDescription& prompt : description.prompts) {
      // The pool and its model have the same prompt.
      const bool known = std::ranges::any_of(response->prompts(), [&](const auto& other) {
        return other.version() == prompt.version;
      });
      if (!known) *response->add_prompts() = ToProto(prompt);
    }
    uint64_t own = 0;
    for (const v1::TargetLabels& entry :
         response->backends(response->backends_size() - 1).labels()) {
      own += entry.labels();
    }
    labels = std::max(labels, own);
  }
  response->set_labels(labels);
  response->set_draining(draining_);
  response->set_protocol_version(kProtocolVersion);
  return FinishNow(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* ForecasterService::PutProblem(grpc::CallbackServerContext* context,
                                                        const v1::PutProblemRequest* request,
                                                        v1::PutProblemReply* response) {
  if (const absl::Status status = Available(); !status.ok()) return FinishNow(context, status);
  auto* call = new AsyncUnary<v1::PutProblemReply>(context, response);
  const auto reply = call->reply();
  const absl::Status submitted = writer_.PutProblem(
      request->problem(), [reply] { return reply.open(); },
      [reply](absl::StatusOr<std::shared_ptr<const ProblemContext>> problem) {
        if (!problem.ok()) {
          reply.Fail(problem.status());
          return;
        }
        v1::PutProblemReply message;
        *message.mutable_definition() = kernelcast::ToProto((*problem)->problem);
        reply.Send(std::move(message));
      });
  if (!submitted.ok()) reply.Fail(submitted);
  return call;
}

void ForecasterService::StartForecast(const v1::ForecastRequest& request, const ForecastCall& call,
                                      ReplyDone done) {
  if (forecasts_in_flight_.fetch_add(1) >= options_.max_forecasts_in_flight) {
    --forecasts_in_flight_;
    done(OverloadedError("too many forecasts in flight", kRetryAfter));
    return;
  }
  const int64_t start_ns = clock_.MonotonicNs();
  const TraceScope scope(&call.trace);
  const auto finish = [this, done = std::move(done)](absl::StatusOr<v1::ForecastReply> reply) {
    --forecasts_in_flight_;
    done(std::move(reply));
  };
  const absl::StatusOr<Backend*> backend = FindBackend(request.backend());
  if (!backend.ok()) return finish(backend.status());
  absl::StatusOr<ForecastInput> input = FromProto(request, candidates_);
  if (!input.ok()) return finish(input.status());
  if (request.search_id().size() > kMaxSearchIdBytes) {
    return finish(absl::InvalidArgumentError(
        absl::StrCat("search_id: has ", request.search_id().size(), " bytes; at most ",
                     kMaxSearchIdBytes, " are allowed")));
  }
  ForecastCall limited = call;
  if (!request.search_id().empty()) {
    limited.search_id = request.search_id();
    limited.max_search_tokens = request.max_search_tokens();
  }
  limited.again = request.again();
  limited.impatient = request.impatient();
  input->problem = problems_.Find(input->candidate.problem_id);
  if (input->problem == nullptr) {
    return finish(absl::NotFoundError(absl::StrCat("candidate.problem_id: problem '",
                                                   input->candidate.problem_id,
                                                   "' is unknown; put it first")));
  }
  const std::string request_id = input->request_id;
  const std::string backend_name(backend.value()->name());
  const std::string target = input->candidate.target;
  const std::string device_model = input->device_model;
  v1::RenderedPrompt prompt;
  if (request.show_prompt()) {
    const absl::StatusOr<RenderedPrompt> rendered = (*backend)->ShowPrompt(*input);
    if (rendered.ok()) prompt = ToProto(*rendered);
  }
  (*backend)->Forecast(*std::move(input), limited,
                       [this, finish, request_id, backend_name, target, device_model, start_ns,
                        prompt = std::move(prompt)](ForecastResult result) {
                         const int64_t duration_ns = clock_.MonotonicNs() - start_ns;
                         metrics_.Forecasted(backend_name, duration_ns);
                         v1::ForecastReply reply;
                         if (!prompt.version().empty()) *reply.mutable_prompt() = prompt;
                         reply.set_request_id(request_id);
                         if (auto* forecast = std::get_if<kernelcast::Forecast>(&result)) {
                           forecast->latency_ns = duration_ns;
                           forecast->device_model = device_model;
                           metrics_.Confident(target, *forecast);
                           *reply.mutable_forecast() = kernelcast::ToProto(*forecast);
                         } else {
                           *reply.mutable_abstention() =
                               kernelcast::ToProto(std::get<Abstention>(result));
                         }
                         finish(std::move(reply));
                       });
}

grpc::ServerUnaryReactor* ForecasterService::Forecast(grpc::CallbackServerContext* context,
                                                      const v1::ForecastRequest* request,
                                                      v1::ForecastReply* response) {
  if (const absl::Status status = Available(); !status.ok()) return FinishNow(context, status);
  auto* call = new AsyncUnary<v1::ForecastReply>(context, response);
  std::stop_source stop;
  call->set_on_cancel([stop]() mutable { stop.request_stop(); });
  const auto reply = call->reply();
  ForecastCall limits{DeadlineNs(clock_, RemainingTime(*context)), stop.get_token()};
  limits.trace = IncomingTrace(*context);
  StartForecast(*request, limits, [reply](absl::StatusOr<v1::ForecastReply> result) {
    reply.Finish(std::move(result));
  });
  return call;
}

grpc::ServerBidiReactor<v1::ForecastStreamRequest, v1::ForecastStreamReply>*
ForecasterService::ForecastStream(grpc::CallbackServerContext* context) {
  return new Stream(this, context);
}

grpc::ServerUnaryReactor* ForecasterService::Observe(grpc::CallbackServerContext* context,
                                                     const v1::ObserveRequest* request,
                                                     v1::ObserveReply* response) {
  if (const absl::Status status = Available(); !status.ok()) return FinishNow(context, status);
  if (static_cast<size_t>(request->labels_size()) > options_.max_labels_per_call) {
    return FinishNow(context, absl::InvalidArgumentError(absl::StrCat(
                                  "labels: ", request->labels_size(), " are more than ",
                                  options_.max_labels_per_call, " in one call")));
  }
  std::vector<LabelToKeep> labels;
  labels.reserve(request->labels_size());
  for (int i = 0; i < request->labels_size(); ++i) {
    absl::StatusOr<Label> label =
        WithPrefix(absl::StrCat("labels[", i, "]."), FromProto(request->labels(i), candidates_));
    if (!label.ok()) return FinishNow(context, label.status());
    // On disk a label is whole.
    v1::Label stored = request->labels(i);
    if (stored.candidate().source().empty()) {
      *stored.mutable_candidate() = kernelcast::ToProto(label->candidate);
    }
    labels.push_back({*std::move(label), stored.SerializeAsString()});
  }
  auto* call = new AsyncUnary<v1::ObserveReply>(context, response);
  const auto reply = call->reply();
  const absl::Status submitted = writer_.Observe(
      std::move(labels), [reply] { return reply.open(); },
      [reply](absl::StatusOr<v1::ObserveReply> result) { reply.Finish(std::move(result)); });
  if (!submitted.ok()) reply.Fail(submitted);
  return call;
}

grpc::ServerUnaryReactor* ForecasterService::Score(grpc::CallbackServerContext* context,
                                                   const v1::ScoreRequest* request,
                                                   v1::ScoreReply* response) {
  if (const absl::Status status = Available(); !status.ok()) return FinishNow(context, status);
  if (static_cast<size_t>(request->items_size()) > options_.max_score_items) {
    return FinishNow(context, absl::InvalidArgumentError(
                                  absl::StrCat("items: ", request->items_size(), " are more than ",
                                               options_.max_score_items, " in one call")));
  }
  auto* call = new AsyncUnary<v1::ScoreReply>(context, response);
  const auto reply = call->reply();
  const bool submitted = scoring_.Submit([reply, copy = *request] {
    if (!reply.open()) return;
    const auto score = [&]() -> absl::StatusOr<v1::ScoreReply> {
      KC_ASSIGN_OR_RETURN(const BinScheme* scheme, FindBinScheme(copy.bin_scheme_id()));
      std::vector<ScoreItem> items;
      items.reserve(copy.items_size());
      for (int i = 0; i < copy.items_size(); ++i) {
        KC_ASSIGN_OR_RETURN(items.emplace_back(),
                            WithPrefix(absl::StrCat("items[", i, "]."), FromProto(copy.items(i))));
      }
      KC_ASSIGN_OR_RETURN(const Scores scores,
                          forecaster::Score(*scheme, FromProto(copy.reward()), items));
      return ToProto(scores);
    };
    reply.Finish(score());
  });
  if (!submitted) reply.Fail(OverloadedError("too many Score calls are waiting", kRetryAfter));
  return call;
}

}  // namespace kernelcast::forecaster
