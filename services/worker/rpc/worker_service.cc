#include "services/worker/rpc/worker_service.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_writer.h"
#include "common/rpc/unary_reactor.h"

namespace kernelcast::worker {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

std::shared_ptr<CancelToken> MakeToken(absl::Duration left) {
  const int64_t deadline_ns = left == absl::InfiniteDuration()
                                  ? CancelToken::kNoDeadline
                                  : Clock::Real().MonotonicNs() + absl::ToInt64Nanoseconds(left);
  // Shared by the call, which may cancel it, and the job, which may outlast the call.
  return std::make_shared<CancelToken>(deadline_ns);
}

// The caller's deadline as a token.
std::shared_ptr<CancelToken> MakeToken(const grpc::ServerContextBase& context) {
  return MakeToken(RemainingTime(context));
}

void SetDuration(google::protobuf::Duration* duration, int64_t ns) {
  duration->set_seconds(ns / 1'000'000'000);
  duration->set_nanos(static_cast<int32_t>(ns % 1'000'000'000));
}

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

absl::Status CheckRequestId(const std::string& id) {
  if (id.size() > kMaxRequestIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id: longer than ", kMaxRequestIdBytes, " bytes"));
  }
  return absl::OkStatus();
}

v1::CompileReply ToReply(const std::string& request_id, const CompileResult& compiled,
                         bool want_artifact) {
  v1::CompileReply reply;
  reply.set_request_id(request_id);
  reply.set_cached(compiled.cached);
  SetDuration(reply.mutable_compile_time(), compiled.compile_ns);
  if (const auto* error = std::get_if<CompileError>(&compiled.result)) {
    *reply.mutable_error() = ToProto(*error);
    return reply;
  }
  const auto& success = std::get<CompileSuccess>(compiled.result);
  *reply.mutable_success()->mutable_facts() = ToProto(success.facts);
  *reply.mutable_success()->mutable_artifact() = ToProto(success.artifact);
  if (!want_artifact) {
    reply.mutable_success()->mutable_artifact()->clear_content();
  }
  reply.mutable_success()->set_log(success.log);
  return reply;
}

v1::RequestError ToRequestError(const absl::Status& status) {
  const grpc::Status converted = ToGrpc(status);
  v1::RequestError error;
  error.set_code(static_cast<int32_t>(converted.error_code()));
  error.set_message(converted.error_message());
  error.set_not_started(IsNotStarted(status));
  if (const auto retry = RetryAfter(status)) {
    SetDuration(error.mutable_retry_after(), absl::ToInt64Nanoseconds(*retry));
  }
  return error;
}

}  // namespace

// A request on its way through the queues. Whoever takes it from `queued` acts on it: the thread
// that runs it next, or the caller's leaving, which gives its credit back at once.
struct WorkerService::Job {
  std::atomic<bool> queued = true;
  std::string request_id;
  std::shared_ptr<CancelToken> cancel;
  std::unique_ptr<Credits::Held> credit;
  TraceContext trace;

  // What it has waited for its turn, as a span that ends now.
  void TraceWait(int64_t waited_ns) const {
    const int64_t now_ns = Clock::Real().WallNs();
    StartSpan("kernelcast.queue", SpanKind::kInternal, &trace, /*may_begin=*/false,
              now_ns - waited_ns)
        .EndAt(now_ns);
  }

  bool Take() { return queued.exchange(false); }
};

struct WorkerService::MeasureJob : Job {
  Target* target = nullptr;
  std::shared_ptr<const Problem> problem;
  Candidate candidate;
  MeasureLevel level = MeasureLevel::kScreen;
  bool wants_counters = false;
  std::optional<Artifact> artifact;
  bool resolved = false;
  int64_t waited_ns = 0;
  MeasureDone done;
};

WorkerService::WorkerService(const Options& options, std::map<std::string, Target*> targets,
                             MetricsRegistry& metrics)
    : options_(options),
      targets_(std::move(targets)),
      metrics_(
          metrics,
          [this] {
            std::map<std::string, std::string> devices;
            for (const auto& [name, target] : targets_) {
              devices[name] = target->Describe().device.model;
            }
            return devices;
          }(),
          options.compile_credits, options.measure_credits),
      problems_(options.max_problems, options.max_problem_bytes),
      compile_credits_(options.compile_credits),
      measure_credits_(options.measure_credits),
      measuring_(1),
      compiling_(options.compile_threads) {}

WorkerService::~WorkerService() = default;

absl::Status WorkerService::Available() const {
  return draining_ ? NotStartedError("the worker is draining") : absl::OkStatus();
}

void WorkerService::BeginDrain() {
  draining_ = true;
  compiling_.Drain();
  measuring_.Drain();
}

absl::StatusOr<Target*> WorkerService::FindTarget(const std::string& name) const {
  const auto found = targets_.find(name);
  if (found != targets_.end()) {
    return found->second;
  }
  std::string known;
  for (const auto& [target, unused] : targets_) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", target);
  }
  return absl::UnimplementedError(
      absl::StrCat("this worker has no target '", name, "'; it has ", known));
}

absl::StatusOr<std::shared_ptr<const Problem>> WorkerService::FindProblem(const std::string& id) {
  auto problem = problems_.Find(id);
  if (problem == nullptr) {
    return absl::NotFoundError(absl::StrCat("problem '", id, "' is not known here; put it first"));
  }
  return problem;
}

absl::StatusOr<Candidate> WorkerService::AdmitCandidate(const v1::Candidate& message) const {
  KC_ASSIGN_OR_RETURN(Candidate candidate, FromProto(message));
  KC_RETURN_IF_ERROR(ValidateCandidate(candidate));
  if (candidate.candidate_id.empty()) {
    candidate.candidate_id = CandidateId(candidate);
  }
  return candidate;
}

grpc::ServerUnaryReactor* WorkerService::Describe(grpc::CallbackServerContext* context,
                                                  const v1::WorkerDescribeRequest*,
                                                  v1::WorkerDescription* response) {
  response->set_worker_id(options_.worker_id);
  response->set_version(std::string(Version()));
  std::set<std::string> missing_protections;
  for (const auto& [name, target] : targets_) {
    const TargetInfo info = target->Describe();
    v1::TargetDescription* description = response->add_targets();
    description->set_target(info.target);
    description->set_can_compile(info.can_compile);
    description->set_can_measure(info.can_measure);
    *description->mutable_device() = ToProto(info.device);
    description->set_architecture(info.architecture);
    description->set_toolchain(info.toolchain);
    description->set_fact_schema(info.fact_schema);
    for (const std::string& flag : info.allowed_flags) {
      description->add_allowed_flags(flag);
    }
    description->set_hardware_counters(info.hardware_counters);
    description->set_unavailable_reason(info.unavailable_reason);
    missing_protections.insert(info.missing_protections.begin(), info.missing_protections.end());
  }
  response->mutable_missing_protections()->Assign(missing_protections.begin(),
                                                  missing_protections.end());
  response->set_compile_credits(compile_credits_.limit());
  response->set_measure_credits(measure_credits_.limit());
  response->set_compiles_in_flight(compile_credits_.in_flight());
  response->set_measures_in_flight(measure_credits_.in_flight());
  response->set_draining(draining_);
  response->set_protocol_version(kProtocolVersion);
  return FinishNow(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* WorkerService::PutProblem(grpc::CallbackServerContext* context,
                                                    const v1::WorkerPutProblemRequest* request,
                                                    v1::WorkerPutProblemReply* response) {
  const auto put = [&]() -> absl::Status {
    KC_RETURN_IF_ERROR(Available());
    KC_ASSIGN_OR_RETURN(Problem problem, ProblemFromProto(request->problem()));
    *response->mutable_definition() = ToProto(problem);
    problems_.Put(std::move(problem));
    return absl::OkStatus();
  };
  return FinishNow(context, put());
}

struct WorkerService::CompileJob : Job {
  std::string target_name;
  Target* target = nullptr;
  std::shared_ptr<const Problem> problem;
  std::optional<Candidate> candidate;
  bool want_artifact = false;
  CompileDone done;
};

absl::StatusOr<std::shared_ptr<WorkerService::CompileJob>> WorkerService::StartCompile(
    const v1::CompileRequest& request, const std::shared_ptr<CancelToken>& cancel,
    const TraceContext& trace, CompileDone done) {
  KC_RETURN_IF_ERROR(Available());
  KC_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  // Shared by the queue and by the caller's leaving.
  auto job = std::make_shared<CompileJob>();
  KC_ASSIGN_OR_RETURN(job->target, FindTarget(request.target()));
  KC_ASSIGN_OR_RETURN(job->problem, FindProblem(request.problem_id()));
  if (request.has_candidate()) {
    KC_ASSIGN_OR_RETURN(job->candidate, AdmitCandidate(request.candidate()));
    if (job->candidate->problem_id != request.problem_id() ||
        job->candidate->target != request.target()) {
      return absl::InvalidArgumentError(
          "candidate: is for another problem or target than the request");
    }
  } else if (!request.reference()) {
    return absl::InvalidArgumentError("subject: neither a candidate nor the reference");
  }
  job->request_id = request.request_id();
  job->target_name = request.target();
  job->want_artifact = request.want_artifact();
  job->credit = compile_credits_.Take();
  if (job->credit == nullptr) {
    return OverloadedError("the compile queue is full",
                           absl::Milliseconds(options_.compile_retry_ms));
  }
  job->cancel = cancel;
  job->trace = trace;
  job->done = std::move(done);
  metrics_.CompilesInFlight(compile_credits_.in_flight());
  compiling_.Submit([this, job](int64_t waited_ns) {
    if (!job->Take()) {
      return;
    }
    if (const absl::Status available = Available(); !available.ok()) {
      Release(*job);
      job->done(available);
      return;
    }
    metrics_.CompileWaited(job->target_name, Seconds(waited_ns));
    job->TraceWait(waited_ns);
    Span span = StartSpan("kernelcast.compile", SpanKind::kInternal, &job->trace);
    const TraceScope scope(&span.context());
    const int64_t start_ns = Clock::Real().MonotonicNs();
    const auto compile = [&]() -> absl::StatusOr<CompileResult> {
      KC_RETURN_IF_ERROR(job->cancel->Check());
      return job->candidate ? job->target->Compile(*job->problem, *job->candidate, *job->cancel)
                            : job->target->CompileReference(*job->problem, *job->cancel);
    };
    const absl::StatusOr<CompileResult> result = compile();
    metrics_.Compiled(job->target_name, result, Seconds(Clock::Real().MonotonicNs() - start_ns));
    Release(*job);  // before the reply: the caller may use it at once
    if (result.ok()) {
      job->done(ToReply(job->request_id, *result, job->want_artifact));
    } else {
      job->done(result.status());
    }
  });
  return job;
}

grpc::ServerUnaryReactor* WorkerService::Compile(grpc::CallbackServerContext* context,
                                                 const v1::CompileRequest* request,
                                                 v1::CompileReply* response) {
  auto* call = new AsyncUnary<v1::CompileReply>(context, response);
  const auto reply = call->reply();
  const auto started =
      StartCompile(*request, MakeToken(*context), IncomingTrace(*context),
                   [reply](absl::StatusOr<v1::CompileReply> end) { reply.Finish(std::move(end)); });
  if (started.ok()) {
    call->set_on_cancel([this, job = *started] { Leave(*job); });
  } else {
    reply.Fail(started.status());
  }
  return call;
}

// Its requests are dropped together when the client leaves.
class WorkerService::CompileBatchStream final : public BatchStream<CompileBatches> {
 public:
  CompileBatchStream(grpc::CallbackServerContext* stream_context, WorkerService* service)
      : BatchStream(stream_context, service->options_.compile_credits), service_(service) {}

 private:
  static v1::CompileStreamResult ErrorResult(const std::string& id, const absl::Status& status) {
    v1::CompileStreamResult result;
    result.set_request_id(id);
    *result.mutable_error() = ToRequestError(status);
    return result;
  }

  void OnRequests(const v1::CompileStreamRequest& message) override {
    const auto cancel =
        MakeToken(std::min(RemainingTime(*context()), CompileBatches::TimeLeft(message)));
    for (const v1::CompileRequest& request : message.requests()) {
      const std::string& id = request.request_id();
      const auto started =
          service_->StartCompile(request, cancel, IncomingTrace(*context()),
                                 [sender = sender(), id](absl::StatusOr<v1::CompileReply> end) {
                                   if (!end.ok()) {
                                     sender.Send(ErrorResult(id, end.status()));
                                     return;
                                   }
                                   v1::CompileStreamResult result;
                                   result.set_request_id(id);
                                   *result.mutable_reply() = *std::move(end);
                                   sender.Send(std::move(result));
                                 });
      if (!started.ok()) {
        sender().Send(ErrorResult(id, started.status()));
        continue;
      }
      Keep(*started);
    }
  }
  void Keep(const std::shared_ptr<CompileJob>& job) {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= 2 * size_t{service_->options_.compile_credits}) {
      std::erase_if(jobs_, [](const std::weak_ptr<CompileJob>& old) { return old.expired(); });
    }
    jobs_.push_back(job);
    if (left_) {
      service_->Leave(*job);
    }
  }
  void OnCancelled() override {
    const std::lock_guard lock(mutex_);
    left_ = true;
    for (const std::weak_ptr<CompileJob>& weak : jobs_) {
      if (const auto job = weak.lock()) {
        service_->Leave(*job);
      }
    }
  }

  WorkerService* const service_;
  std::mutex mutex_;
  // State below is protected by mutex_. Ended jobs are forgotten now and then.
  std::vector<std::weak_ptr<CompileJob>> jobs_;
  bool left_ = false;
};

grpc::ServerBidiReactor<v1::CompileStreamRequest, v1::CompileStreamReply>*
WorkerService::CompileStream(grpc::CallbackServerContext* context) {
  return new CompileBatchStream(context, this);
}

// The job is stopped where it runs, and gives its credit back where it waits.
void WorkerService::Leave(Job& job) {
  job.cancel->Cancel();
  if (job.Take()) {
    Release(job);
  }
}

void WorkerService::Release(Job& job) {
  job.credit.reset();
  metrics_.CompilesInFlight(compile_credits_.in_flight());
  metrics_.MeasuresInFlight(measure_credits_.in_flight());
}

absl::StatusOr<std::shared_ptr<WorkerService::MeasureJob>> WorkerService::StartMeasure(
    const v1::MeasureRequest& request, const std::shared_ptr<CancelToken>& cancel,
    const TraceContext& trace, MeasureDone done) {
  KC_RETURN_IF_ERROR(Available());
  KC_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  // Shared by the queues and by the caller's leaving.
  auto job = std::make_shared<MeasureJob>();
  KC_ASSIGN_OR_RETURN(job->candidate, AdmitCandidate(request.candidate()));
  KC_ASSIGN_OR_RETURN(job->target, FindTarget(job->candidate.target));
  if (const TargetInfo info = job->target->Describe(); !info.can_measure) {
    return absl::UnimplementedError(absl::StrCat("this worker does not measure target ",
                                                 info.target, ": ", info.unavailable_reason));
  }
  KC_ASSIGN_OR_RETURN(job->problem, FindProblem(job->candidate.problem_id));
  if (request.has_artifact()) {
    KC_ASSIGN_OR_RETURN(job->artifact, FromProto(request.artifact()));
  }
  job->request_id = request.request_id();
  job->level = FromProto(request.level());
  job->wants_counters = request.want_hardware_counters();
  job->credit = measure_credits_.Take();
  if (job->credit == nullptr) {
    return OverloadedError("as many measurements as this worker takes are in flight",
                           absl::Milliseconds(options_.measure_retry_ms));
  }
  job->cancel = cancel;
  job->trace = trace;
  job->done = std::move(done);
  metrics_.MeasuresInFlight(measure_credits_.in_flight());
  if (job->artifact) {
    QueueMeasure(job);
  } else {
    compiling_.Submit([this, job](int64_t waited_ns) {
      job->waited_ns += waited_ns;
      if (job->Take() && !HandBack(*job)) {
        CompileThenMeasure(job);
      }
    });
  }
  return job;
}

bool WorkerService::HandBack(MeasureJob& job) {
  const absl::Status available = Available();
  if (available.ok()) {
    return false;
  }
  Release(job);
  job.done(available);
  return true;
}

void WorkerService::CompileThenMeasure(std::shared_ptr<MeasureJob> job) {
  const auto compile = [&]() -> absl::StatusOr<CompileResult> {
    KC_RETURN_IF_ERROR(job->cancel->Check());
    const int64_t start_ns = Clock::Real().MonotonicNs();
    auto result = job->target->Compile(*job->problem, job->candidate, *job->cancel);
    metrics_.Compiled(job->candidate.target, result,
                      Seconds(Clock::Real().MonotonicNs() - start_ns));
    return result;
  };
  absl::StatusOr<CompileResult> compiled = compile();
  if (compiled.ok() && std::holds_alternative<CompileSuccess>(compiled->result)) {
    job->artifact = std::move(std::get<CompileSuccess>(compiled->result).artifact);
    job->resolved = true;
    job->queued = true;
    QueueMeasure(std::move(job));
    return;
  }
  Release(*job);
  if (compiled.ok()) {
    v1::MeasureReply reply;
    reply.set_request_id(job->request_id);
    *reply.mutable_compile_error() = ToProto(std::get<CompileError>(compiled->result));
    SetDuration(reply.mutable_queue_time(), job->waited_ns);
    job->done(std::move(reply));
  } else {
    job->done(compiled.status());
  }
}

void WorkerService::QueueMeasure(std::shared_ptr<MeasureJob> job) {
  measuring_.Submit([this, job = std::move(job)](int64_t waited_ns) {
    job->waited_ns += waited_ns;
    if (!job->Take() || HandBack(*job)) {
      return;
    }
    metrics_.MeasureWaited(job->candidate.target, Seconds(job->waited_ns));
    job->TraceWait(waited_ns);
    Span span = StartSpan("kernelcast.measure", SpanKind::kInternal, &job->trace);
    const TraceScope scope(&span.context());
    const int64_t start_ns = Clock::Real().MonotonicNs();
    absl::StatusOr<Measurement> measurement = RunMeasure(*job);
    metrics_.Measured(job->candidate.target, measurement,
                      Seconds(Clock::Real().MonotonicNs() - start_ns));
    Release(*job);  // before the reply: the caller may use it at once
    if (!measurement.ok()) {
      Log(LogLevel::kInfo, "a measurement ended without an outcome",
          {{"request_id", job->request_id},
           {"candidate_id", job->candidate.candidate_id},
           {"error", std::string(measurement.status().message())}});
      job->done(measurement.status());
      return;
    }
    v1::MeasureReply reply;
    reply.set_request_id(job->request_id);
    *reply.mutable_measurement() = ToProto(*measurement);
    SetDuration(reply.mutable_queue_time(), job->waited_ns);
    job->done(std::move(reply));
  });
}

absl::StatusOr<Measurement> WorkerService::RunMeasure(MeasureJob& job) {
  KC_RETURN_IF_ERROR(job.cancel->Check());
  if (!job.resolved) {
    KC_ASSIGN_OR_RETURN(job.artifact, job.target->Resolve(job.candidate, *job.artifact));
  }
  KC_ASSIGN_OR_RETURN(
      Measurement measurement,
      job.target->Measure(*job.problem, job.candidate, *job.artifact, job.level, *job.cancel));
  if (job.wants_counters && std::holds_alternative<MeasuredOk>(measurement.outcome)) {
    AddProfile(
        job.target->ProfileCandidate(*job.problem, job.candidate, *job.artifact, *job.cancel),
        measurement);
  }
  return measurement;
}

grpc::ServerUnaryReactor* WorkerService::Measure(grpc::CallbackServerContext* context,
                                                 const v1::MeasureRequest* request,
                                                 v1::MeasureReply* response) {
  auto* call = new AsyncUnary<v1::MeasureReply>(context, response);
  const auto reply = call->reply();
  const auto started = StartMeasure(*request, MakeToken(*context), IncomingTrace(*context),
                                    [reply](MeasureEnd end) { reply.Finish(std::move(end)); });
  if (started.ok()) {
    call->set_on_cancel([this, job = *started] { Leave(*job); });
  } else {
    reply.Fail(started.status());
  }
  return call;
}

// Its requests are dropped together when the client leaves.
class WorkerService::Stream final : public BidiStream<v1::MeasureRequest, v1::MeasureStreamReply> {
 public:
  Stream(grpc::CallbackServerContext* stream_context, WorkerService* service)
      : BidiStream(stream_context, service->options_.measure_credits), service_(service) {}

 private:
  void OnRequest(const v1::MeasureRequest& request) override {
    const std::string& id = request.request_id();
    const auto started =
        service_->StartMeasure(request, MakeToken(*context()), IncomingTrace(*context()),
                               [sender = sender(), id](MeasureEnd end) {
                                 v1::MeasureStreamReply reply;
                                 reply.set_request_id(id);
                                 if (end.ok()) {
                                   *reply.mutable_reply() = *std::move(end);
                                 } else {
                                   *reply.mutable_error() = ToRequestError(end.status());
                                 }
                                 sender.Send(std::move(reply));
                               });
    if (!started.ok()) {
      v1::MeasureStreamReply reply;
      reply.set_request_id(id);
      *reply.mutable_error() = ToRequestError(started.status());
      Send(std::move(reply));
      return;
    }
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= 2 * size_t{service_->options_.measure_credits}) {
      std::erase_if(jobs_, [](const std::weak_ptr<MeasureJob>& job) { return job.expired(); });
    }
    jobs_.push_back(*started);
    if (left_) {
      service_->Leave(**started);
    }
  }
  void OnCancelled() override {
    const std::lock_guard lock(mutex_);
    left_ = true;
    for (const std::weak_ptr<MeasureJob>& weak : jobs_) {
      if (const auto job = weak.lock()) {
        service_->Leave(*job);
      }
    }
  }

  WorkerService* const service_;
  std::mutex mutex_;
  // State below is protected by mutex_. Ended jobs are forgotten now and then.
  std::vector<std::weak_ptr<MeasureJob>> jobs_;
  bool left_ = false;
};

grpc::ServerBidiReactor<v1::MeasureRequest, v1::MeasureStreamReply>* WorkerService::MeasureStream(
    grpc::CallbackServerContext* context) {
  return new Stream(context, this);
}

}  // namespace kernelcast::worker
