#include "services/orchestrator/clients/forecaster_client.h"

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/status.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/rpc/batch_caller.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "services/orchestrator/clients/request_error.h"

namespace kernelcast::orchestrator {
namespace {

using Stub = v1::Forecaster::Stub;

bool IsTransient(absl::StatusCode code) {
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kResourceExhausted ||
         code == absl::StatusCode::kDeadlineExceeded;
}

v1::FailureLabel FailureFromOutcome(const std::string& outcome) {
  if (outcome == "wrong_result") return v1::FAILURE_LABEL_WRONG_RESULT;
  if (outcome == "crash") return v1::FAILURE_LABEL_CRASH;
  if (outcome == "timeout") return v1::FAILURE_LABEL_TIMEOUT;
  return v1::FAILURE_LABEL_EXPLOIT;
}

v1::Label ToProto(const LabelRecord& label) {
  v1::Label message;
  message.set_label_id(label.label_id);
  *message.mutable_candidate() = kernelcast::ToProto(label.candidate);
  *message.mutable_facts() = kernelcast::ToProto(label.facts);
  *message.mutable_reference_facts() = kernelcast::ToProto(label.reference_facts);
  if (const auto* speedup = std::get_if<Ratio>(&label.truth)) {
    *message.mutable_speedup() = kernelcast::ToProto(*speedup);
  } else {
    message.set_failure(FailureFromOutcome(std::get<std::string>(label.truth)));
  }
  message.set_propensity(label.propensity);
  message.set_decision_reason(kernelcast::ToProto(label.reason));
  if (label.forecast) *message.mutable_forecast() = kernelcast::ToProto(*label.forecast);
  return message;
}

// A request across its attempts.
struct Job {
  std::shared_ptr<const Problem> problem;
  bool observe = false;
  v1::ForecastRequest forecast_request;
  v1::ObserveRequest observe_request;
  Forecasters::ForecastDone forecast_done;
  Forecasters::ObserveDone observe_done;
  TraceContext trace;  // of whoever wants it
  int attempts = 0;
  grpc::Alarm alarm;
};

struct Call {
  grpc::ClientContext context;
  v1::ForecasterPutProblemRequest put_request;
  v1::ForecasterPutProblemReply put_reply;
  v1::ForecastReply forecast_reply;
  v1::ObserveReply observe_reply;
  Span span;
};

}  // namespace

class ForecasterClient::Impl {
 public:
  Impl(ForecasterClientOptions options, std::shared_ptr<grpc::Channel> channel)
      : options_(std::move(options)),
        stub_(v1::Forecaster::NewStub(channel)),
        batches_(std::make_unique<BatchCaller<ForecastBatches>>(
            [stub = stub_.get()](grpc::ClientContext* context, auto* reactor) {
              stub->async()->ForecastBatches(context, reactor);
            })) {
    view_.address = options_.address;
    view_.unhealthy_reason = "not asked yet";
  }

  ~Impl() {
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      for (Call* call : calls_) call->context.TryCancel();
      for (auto& job : waiting_) job->alarm.Cancel();
    }
    batches_.reset();
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return jobs_ == 0; });
  }

  void Submit(std::shared_ptr<Job> job) {
    if (const TraceContext* trace = CurrentTrace()) job->trace = *trace;
    {
      std::lock_guard lock(mutex_);
      ++jobs_;
    }
    Attempt(std::move(job));
  }

  const ForecasterClientOptions& options() const { return options_; }

  ForecasterView View() const {
    std::lock_guard lock(mutex_);
    return view_;
  }

 private:
  void Attempt(std::shared_ptr<Job> job) {
    bool put = false;
    {
      std::lock_guard lock(mutex_);
      put = !problems_.contains(job->problem->problem_id);
    }
    // What is traced has a call of its own, whose metadata say so.
    if (!put && !job->observe && !job->trace.sampled && takes_batches_) {
      AttemptInBatch(std::move(job));
      return;
    }
    auto call = std::make_shared<Call>();
    {
      std::lock_guard lock(mutex_);
      if (stopping_) call->context.TryCancel();
      calls_.insert(call.get());
    }
    call->context.set_deadline(absl::ToChronoTime(
        absl::Now() + (job->observe ? options_.observe_timeout : options_.forecast_timeout)));
    if (put) {
      *call->put_request.mutable_problem() = ProblemFilesToProto(*job->problem);
      stub_->async()->PutProblem(
          &call->context, &call->put_request, &call->put_reply,
          [this, call, job = std::move(job)](grpc::Status grpc_status) mutable {
            const absl::Status status = FromGrpc(grpc_status);
            {
              std::lock_guard lock(mutex_);
              calls_.erase(call.get());
              if (status.ok()) problems_.insert(job->problem->problem_id);
            }
            if (status.ok()) {
              Attempt(std::move(job));
            } else {
              Finish(std::move(job), status, *call);
            }
          });
      return;
    }
    call->span = StartCallSpan(
        job->observe ? "kernelcast.v1.Forecaster/Observe" : "kernelcast.v1.Forecaster/Forecast",
        options_.address, job->trace);
    PassTrace(call->span.context(), call->context);
    auto done = [this, call, job](grpc::Status grpc_status) mutable {
      {
        std::lock_guard lock(mutex_);
        calls_.erase(call.get());
      }
      EndCallSpan(call->span, FromGrpc(grpc_status));
      Finish(std::move(job), FromGrpc(grpc_status), *call);
    };
    if (job->observe) {
      stub_->async()->Observe(&call->context, &job->observe_request, &call->observe_reply,
                              std::move(done));
    } else {
      stub_->async()->Forecast(&call->context, &job->forecast_request, &call->forecast_reply,
                               std::move(done));
    }
  }

  // A forecast as one of many in a message.
  void AttemptInBatch(std::shared_ptr<Job> job) {
    const v1::ForecastRequest& request = job->forecast_request;
    batches_->Call(
        request, options_.forecast_timeout,
        [this, job = std::move(job)](const absl::Status& status, v1::ForecastReply* reply) mutable {
          if (status.code() == absl::StatusCode::kUnimplemented) {
            takes_batches_ = false;  // a forecaster of an earlier release
            Attempt(std::move(job));
            return;
          }
          Call call;
          absl::Status end = status;
          if (status.ok() && reply->has_error()) {
            end = FromRequestError(reply->error());
            if (end.code() == absl::StatusCode::kUnavailable) batches_->Renew();
          } else if (status.ok()) {
            call.forecast_reply = std::move(*reply);
          }
          Finish(std::move(job), end, call);
        });
  }

  void Finish(std::shared_ptr<Job> job, const absl::Status& status, Call& call) {
    bool again = false;
    {
      std::lock_guard lock(mutex_);
      if (!stopping_) {
        view_.healthy = status.ok() || !IsTransient(status.code());
        view_.unhealthy_reason = view_.healthy ? "" : std::string(status.message());
        if (status.code() == absl::StatusCode::kNotFound ||
            status.code() == absl::StatusCode::kUnavailable) {
          problems_.erase(job->problem->problem_id);
        }
        again = (status.code() == absl::StatusCode::kNotFound || IsTransient(status.code())) &&
                ++job->attempts < options_.max_attempts;
        if (again) {
          waiting_.insert(job);
          const absl::Duration pause =
              RetryAfter(status).value_or(absl::Milliseconds(50 << (2 * job->attempts)));
          job->alarm.Set(absl::ToChronoTime(absl::Now() + pause), [this, job](bool) {
            {
              std::lock_guard inner(mutex_);
              waiting_.erase(job);
            }
            Attempt(job);
          });
        }
      }
    }
    if (again) return;
    if (job->observe) {
      job->observe_done(status);
    } else {
      job->forecast_done(Result(status, call.forecast_reply));
    }
    std::lock_guard lock(mutex_);
    if (--jobs_ == 0) idle_.notify_all();
  }

  static absl::StatusOr<ForecastResult> Result(const absl::Status& status,
                                               const v1::ForecastReply& reply) {
    if (!status.ok()) return status;
    if (reply.has_forecast()) return ForecastResult(FromProto(reply.forecast()));
    KC_ASSIGN_OR_RETURN(Abstention abstention, FromProto(reply.abstention()));
    return ForecastResult(std::move(abstention));
  }

  const ForecasterClientOptions options_;
  const std::unique_ptr<Stub> stub_;
  std::unique_ptr<BatchCaller<ForecastBatches>> batches_;
  std::atomic<bool> takes_batches_ = true;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::set<std::string> problems_ ABSL_GUARDED_BY(mutex_);
  std::set<Call*> calls_ ABSL_GUARDED_BY(mutex_);
  std::set<std::shared_ptr<Job>> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t jobs_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  ForecasterView view_ ABSL_GUARDED_BY(mutex_);
};

ForecasterClient::ForecasterClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ForecasterClient::~ForecasterClient() = default;

absl::StatusOr<std::unique_ptr<ForecasterClient>> ForecasterClient::Create(
    ForecasterClientOptions options) {
  KC_ASSIGN_OR_RETURN(auto channel, MakeChannel(options.address, options.channel));
  return std::unique_ptr<ForecasterClient>(
      new ForecasterClient(std::make_unique<Impl>(std::move(options), std::move(channel))));
}

void ForecasterClient::Forecast(std::shared_ptr<const Problem> problem, const ForecastQuery& query,
                                ForecastDone done) {
  auto job = std::make_shared<Job>();
  job->problem = std::move(problem);
  *job->forecast_request.mutable_candidate() = kernelcast::ToProto(query.candidate);
  *job->forecast_request.mutable_facts() = kernelcast::ToProto(query.facts);
  *job->forecast_request.mutable_reference_facts() = kernelcast::ToProto(query.reference_facts);
  job->forecast_request.set_search_id(query.search_id);
  job->forecast_request.set_max_search_tokens(query.max_search_tokens);
  job->forecast_request.set_again(query.again);
  if (const auto& device_for = impl_->options().device_for) {
    *job->forecast_request.mutable_device() =
        kernelcast::ToProto(device_for(query.candidate.target));
  }
  job->forecast_done = std::move(done);
  impl_->Submit(std::move(job));
}

void ForecasterClient::ForecastAll(std::shared_ptr<const Problem> problem,
                                   std::vector<ForecastQuery> queries, ForecastAllDone done) {
  // Shared by the calls of the batch; the last to answer hands the results over.
  struct Batch {
    std::mutex mutex;
    std::vector<ForecastResult> results;
    absl::Status first_error;
    size_t missing = 0;
    ForecastAllDone done;
  };
  auto batch = std::make_shared<Batch>();
  batch->results.resize(queries.size());
  batch->missing = queries.size();
  batch->done = std::move(done);
  if (queries.empty()) {
    batch->done(std::vector<ForecastResult>{});
    return;
  }
  for (size_t i = 0; i < queries.size(); ++i) {
    Forecast(problem, queries[i], [batch, i](absl::StatusOr<ForecastResult> result) {
      {
        std::lock_guard lock(batch->mutex);
        if (result.ok()) {
          batch->results[i] = *std::move(result);
        } else if (batch->first_error.ok()) {
          batch->first_error = result.status();
        }
        if (--batch->missing > 0) return;
      }
      if (!batch->first_error.ok()) {
        batch->done(batch->first_error);
      } else {
        batch->done(std::move(batch->results));
      }
    });
  }
}

void ForecasterClient::Observe(std::shared_ptr<const Problem> problem,
                               std::vector<LabelRecord> labels, ObserveDone done) {
  auto job = std::make_shared<Job>();
  job->problem = std::move(problem);
  job->observe = true;
  for (const LabelRecord& label : labels) {
    *job->observe_request.add_labels() = ToProto(label);
  }
  job->observe_done = std::move(done);
  impl_->Submit(std::move(job));
}

ForecasterView ForecasterClient::View() const { return impl_->View(); }

}  // namespace kernelcast::orchestrator
