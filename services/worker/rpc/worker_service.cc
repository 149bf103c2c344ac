#include "services/worker/rpc/worker_service.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/convert/default_target.h"
#include "common/rpc/batch_stream.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/request_error.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/unary_reactor.h"
#include "services/worker/core/verdict.h"
#include "services/worker/rpc/target_messages.h"

namespace kernelcast::worker {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;
// Give a candidate up after this many devices failed under it: it may be the cause.
constexpr int kMaxFailures = 2;

int64_t MonotonicNs() { return Clock::Real().MonotonicNs(); }

std::shared_ptr<CancelToken> MakeToken(absl::Duration left) {
  const int64_t deadline_ns = left == absl::InfiniteDuration()
                                  ? CancelToken::kNoDeadline
                                  : MonotonicNs() + absl::ToInt64Nanoseconds(left);
  // Shared by the call, which may cancel it, and the job, which may outlive the call.
  return std::make_shared<CancelToken>(deadline_ns);
}

// A token with the caller's deadline.
std::shared_ptr<CancelToken> MakeToken(const grpc::ServerContextBase& context) {
  return MakeToken(RemainingTime(context));
}

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

absl::Status CheckRequestId(const std::string& id) {
  if (id.size() > kMaxRequestIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id: longer than ", kMaxRequestIdBytes, " bytes"));
  }
  return absl::OkStatus();
}

// Explains why a target does not measure now, or never does.
absl::Status CheckMeasures(const TargetInfo& info) {
  if (info.can_measure) return absl::OkStatus();
  if (!info.devices.empty()) return NotStartedError(info.unavailable_reason);
  return absl::UnimplementedError(absl::StrCat("this worker does not measure target ", info.target,
                                               ": ", info.unavailable_reason));
}

}  // namespace

// A request in the queues. The thread that runs it next and the cancellation compete for `queued`;
// the winner acts on it. A cancellation returns the credit at once.
struct WorkerService::Job {
  std::atomic<bool> queued = true;
  std::string request_id;
  std::shared_ptr<CancelToken> cancel;
  std::unique_ptr<Credits::Held> credit;
  TraceContext trace;

  // Records the time in the queue as a span that ends now.
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
  std::shared_ptr<const Candidate> candidate;
  std::string device_model;
  MeasureSpec spec = MeasureLevel::kScreen;
  bool wants_counters = false;
  // Number of devices that failed under it.
  int failures = 0;
  std::optional<Artifact> artifact;
  bool resolved = false;
  int64_t waited_ns = 0;
  MeasureDone done;
};

WorkerService::WorkerService(const Options& options, std::map<std::string, Target*> targets,
                             WorkerMetrics& metrics)
    : options_(options),
      targets_(std::move(targets)),
      lanes_(MakeLanes(targets_)),
      metrics_(metrics),
      problems_(options.max_problems, options.max_problem_bytes),
      compile_credits_(options.compile_credits),
      measure_credits_(options.measure_credits),
      measuring_(DescribeLanes(),
                 [this](size_t lane) {
                   const bool revived = lanes_[lane].target->Revive(lanes_[lane].device);
                   if (revived) {
                     metrics_.DeviceUp(lanes_[lane].target_name, lanes_[lane].device, true);
                   }
                   return revived;
                 }),
      compiling_(options.compile_threads) {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    CloseFailedLane(lane);
  }
}

std::vector<WorkerService::Lane> WorkerService::MakeLanes(
    const std::map<std::string, Target*>& targets) {
  std::vector<Lane> lanes;
  for (const auto& [name, target] : targets) {
    const size_t devices = DevicesOf(target->Describe()).size();
    for (size_t device = 0; device < devices; ++device) {
      lanes.push_back({name, target, device});
    }
  }
  return lanes;
}

std::vector<MeasureLane> WorkerService::DescribeLanes() const {
  std::vector<MeasureLane> described;
  for (const Lane& lane : lanes_) {
    const TargetDevice device = DevicesOf(lane.target->Describe())[lane.device];
    described.push_back({lane.target_name, device.info.model, device.architecture});
  }
  return described;
}

bool WorkerService::DeviceWorks(const Lane& lane) const {
  const TargetInfo info = lane.target->Describe();
  // A target that never measured has no failed device.
  return info.devices.empty() || info.devices[lane.device].can_measure;
}

bool WorkerService::CloseFailedLane(size_t lane) {
  if (DeviceWorks(lanes_[lane])) {
    return false;
  }
  metrics_.DeviceUp(lanes_[lane].target_name, lanes_[lane].device, false);
  measuring_.Close(lane);
  return true;
}

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
    return absl::NotFoundError(absl::StrCat("problem '", id, "' is unknown; put it first"));
  }
  return problem;
}

grpc::ServerUnaryReactor* WorkerService::Describe(grpc::CallbackServerContext* context,
                                                  const v1::WorkerDescribeRequest*,
                                                  v1::WorkerDescription* response) {
  response->set_worker_id(options_.worker_id);
  response->set_version(std::string(Version()));
  DescribeTargets(targets_, *response);
  response->set_compile_credits(compile_credits_.limit());
  response->set_measure_credits(measure_credits_.limit());
  response->set_compiles_in_flight(compile_credits_.in_flight());
  response->set_measures_in_flight(measure_credits_.in_flight());
  response->set_draining(draining_);
  response->set_protocol_version(kProtocolVersion);
  return FinishNow(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* WorkerService::PutProblem(grpc::CallbackServerContext* context,
                                                    const v1::PutProblemRequest* request,
                                                    v1::PutProblemReply* response) {
  const auto put = [&]() -> absl::Status {
    KC_RETURN_IF_ERROR(Available());
    KC_ASSIGN_OR_RETURN(const auto problem, problems_.Put(request->problem()));
    *response->mutable_definition() = ToProto(*problem);
    v1::WorkerDescription described;
    DescribeTargets(targets_, described);
    SetDefaultTarget(*problem, {described}, *response);
    return absl::OkStatus();
  };
  return FinishNow(context, put());
}

struct WorkerService::CompileJob : Job {
  std::string target_name;
  std::string device_model;
  Target* target = nullptr;
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Candidate> candidate;  // null: the problem's reference
  bool want_artifact = false;
  CompileDone done;
};

absl::StatusOr<std::shared_ptr<WorkerService::CompileJob>> WorkerService::StartJob(
    const v1::CompileRequest& request, const std::shared_ptr<CancelToken>& cancel,
    const TraceContext& trace, CompileDone done) {
  KC_RETURN_IF_ERROR(Available());
  KC_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  // Shared by the queue and the call, which cancels it.
  auto job = std::make_shared<CompileJob>();
  KC_ASSIGN_OR_RETURN(job->target, FindTarget(request.target()));
  KC_ASSIGN_OR_RETURN(job->problem, FindProblem(request.problem_id()));
  if (request.has_candidate()) {
    KC_ASSIGN_OR_RETURN(job->candidate, candidates_.Read(request.candidate()));
    if (job->candidate->problem_id != request.problem_id() ||
        job->candidate->target != request.target()) {
      return absl::InvalidArgumentError(
          "candidate: is for another problem or target than the request");
    }
  } else if (!request.reference()) {
    return absl::InvalidArgumentError("subject: neither a candidate nor the reference");
  }
  if (!request.device_model().empty()) {
    KC_RETURN_IF_ERROR(CheckModel(job->target->Describe(), request.device_model()));
  }
  job->request_id = request.request_id();
  job->target_name = request.target();
  job->device_model = request.device_model();
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
  Announce(job->target, job->problem);
  compiling_.Submit([this, job, queued_ns = MonotonicNs()] {
    const int64_t waited_ns = MonotonicNs() - queued_ns;
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
    const TraceScope scope(&job->trace);
    const absl::StatusOr<CompileResult> result = job->target->Compile(
        {*job->problem, job->candidate.get(), job->device_model}, *job->cancel);
    Release(*job);  // before the reply: the caller may use it at once
    if (result.ok()) {
      job->done(CompileReplyOf(job->request_id, *result, job->want_artifact));
    } else {
      job->done(result.status());
    }
  });
  return job;
}

void WorkerService::Announce(Target* target, const std::shared_ptr<const Problem>& problem) {
  {
    const std::lock_guard lock(announced_mutex_);
    if (announced_.size() >= options_.max_problems) announced_.clear();
    if (!announced_.emplace(target, problem->problem_id).second) return;
  }
  compiling_.Submit([this, target, problem] {
    if (!draining_) target->Announce(*problem, CancelToken());
  });
}

template <class Request, class Reply>
grpc::ServerUnaryReactor* WorkerService::Start(grpc::CallbackServerContext* context,
                                               const Request& request, Reply* response) {
  auto* call = new AsyncUnary<Reply>(context, response);
  const auto reply = call->reply();
  const auto started =
      StartJob(request, MakeToken(*context), IncomingTrace(*context),
               [reply](absl::StatusOr<Reply> end) { reply.Finish(std::move(end)); });
  if (started.ok()) {
    call->set_on_cancel([this, job = *started] { Cancel(*job); });
  } else {
    reply.Fail(started.status());
  }
  return call;
}

grpc::ServerUnaryReactor* WorkerService::Compile(grpc::CallbackServerContext* context,
                                                 const v1::CompileRequest* request,
                                                 v1::CompileReply* response) {
  return Start(context, *request, response);
}

// Stops a running job; a waiting job returns its credit.
void WorkerService::Cancel(Job& job) {
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

absl::StatusOr<std::shared_ptr<WorkerService::MeasureJob>> WorkerService::StartJob(
    const v1::MeasureRequest& request, const std::shared_ptr<CancelToken>& cancel,
    const TraceContext& trace, MeasureDone done) {
  KC_RETURN_IF_ERROR(Available());
  KC_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  if (!(request.stop_below() >= 0) || !std::isfinite(request.stop_below())) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop_below: ", request.stop_below(), " is not a finite number of 0 or more"));
  }
  // Shared by the queues and the call, which cancels it.
  auto job = std::make_shared<MeasureJob>();
  KC_ASSIGN_OR_RETURN(job->candidate, candidates_.Read(request.candidate()));
  KC_ASSIGN_OR_RETURN(job->target, FindTarget(job->candidate->target));
  const TargetInfo info = job->target->Describe();
  KC_RETURN_IF_ERROR(CheckMeasures(info));
  KC_RETURN_IF_ERROR(CheckModel(info, request.device_model()));
  KC_ASSIGN_OR_RETURN(job->problem, FindProblem(job->candidate->problem_id));
  if (request.has_artifact()) {
    KC_ASSIGN_OR_RETURN(job->artifact, FromProto(request.artifact()));
  }
  job->request_id = request.request_id();
  job->device_model = request.device_model();
  job->spec = {FromProto(request.level()), request.stop_below()};
  job->wants_counters = request.want_hardware_counters();
  job->credit = measure_credits_.Take();
  if (job->credit == nullptr) {
    return OverloadedError("the measure queue is full",
                           absl::Milliseconds(options_.measure_retry_ms));
  }
  job->cancel = cancel;
  job->trace = trace;
  job->done = std::move(done);
  metrics_.MeasuresInFlight(measure_credits_.in_flight());
  if (job->artifact) {
    QueueMeasure(job);
  } else {
    compiling_.Submit([this, job, queued_ns = MonotonicNs()] {
      job->waited_ns += MonotonicNs() - queued_ns;
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
  const TraceScope scope(&job->trace);
  absl::StatusOr<CompileResult> compiled = job->target->Compile({.problem = *job->problem,
                                                                 .candidate = job->candidate.get(),
                                                                 .device_model = job->device_model,
                                                                 .artifact_only = true},
                                                                *job->cancel);
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
    job->done(std::move(reply));
  } else {
    job->done(compiled.status());
  }
}

void WorkerService::QueueMeasure(std::shared_ptr<MeasureJob> job) {
  MeasureWish wish{.target = job->candidate->target,
                   .device_model = job->device_model,
                   .architecture = "",
                   .problem_id = job->problem->problem_id};
  // An artefact that no device can run is rejected when it is resolved.
  for (const TargetDevice& device : DevicesOf(job->target->Describe())) {
    if (device.architecture == job->artifact->architecture) wish.architecture = device.architecture;
  }
  const std::optional<size_t> device = job->target->Expect(
      *job->problem, *job->candidate, job->spec.level, {wish.device_model, wish.architecture});
  for (size_t lane = 0; device && lane < lanes_.size(); ++lane) {
    if (lanes_[lane].target == job->target && lanes_[lane].device == *device) wish.loaded_by = lane;
  }
  measuring_.Submit(std::move(wish), [this, job = std::move(job)](size_t lane, int64_t waited_ns) {
    RunOnLane(job, lane, waited_ns);
  });
}

void WorkerService::RunOnLane(const std::shared_ptr<MeasureJob>& job, size_t lane,
                              int64_t waited_ns) {
  job->waited_ns += waited_ns;
  if (!job->Take() || HandBack(*job)) {
    return;
  }
  if (lane == MeasureQueue::kNoLane) {
    Release(*job);
    job->done(NotStartedError(absl::StrCat("no device of this worker can measure now",
                                           job->device_model.empty() ? "" : " that is a ",
                                           job->device_model)));
    return;
  }
  const Lane& on = lanes_[lane];
  metrics_.MeasureWaited(on.target_name, Seconds(job->waited_ns));
  job->TraceWait(waited_ns);
  const TraceScope scope(&job->trace);
  absl::StatusOr<Measurement> measurement = RunMeasure(*job, on.device);
  if (absl::IsUnavailable(measurement.status()) && CloseFailedLane(lane) &&
      ++job->failures < kMaxFailures) {
    // Retry on another device.
    job->queued = true;
    QueueMeasure(job);
    return;
  }
  Release(*job);  // before the reply: the caller may use it at once
  v1::MeasureReply reply;
  reply.set_request_id(job->request_id);
  if (const auto error = NotCompiledError(measurement.status())) {
    *reply.mutable_compile_error() = ToProto(*error);
    job->done(std::move(reply));
    return;
  }
  if (!measurement.ok()) {
    Log(LogLevel::kInfo, "a measurement has no outcome",
        {{"request_id", job->request_id},
         {"candidate_id", job->candidate->candidate_id},
         {"target", on.target_name},
         {"gpu", on.device},
         {"error", std::string(measurement.status().message())}});
    job->done(measurement.status());
    return;
  }
  *reply.mutable_measurement() = ToProto(*measurement);
  job->done(std::move(reply));
}

absl::StatusOr<Measurement> WorkerService::RunMeasure(MeasureJob& job, size_t device) {
  if (!job.resolved) {
    KC_ASSIGN_OR_RETURN(job.artifact, job.target->Resolve(*job.candidate, *job.artifact));
    job.resolved = true;
  }
  const MeasureRequest request{*job.problem, *job.candidate, *job.artifact, job.spec, device};
  KC_ASSIGN_OR_RETURN(Measurement measurement, job.target->Measure(request, *job.cancel));
  if (job.wants_counters && std::holds_alternative<MeasuredOk>(measurement.outcome)) {
    AddProfile(job.target->ProfileCandidate(request, *job.cancel), measurement);
  }
  return measurement;
}

grpc::ServerUnaryReactor* WorkerService::Measure(grpc::CallbackServerContext* context,
                                                 const v1::MeasureRequest* request,
                                                 v1::MeasureReply* response) {
  return Start(context, *request, response);
}

// A stream of compiles. Its requests are dropped together when the client leaves.
class WorkerService::Stream final : public BatchStream<CompileBatches> {
 public:
  Stream(grpc::CallbackServerContext* context, WorkerService* service, size_t max_in_flight)
      : BatchStream(context, max_in_flight),
        service_(service),
        max_in_flight_(max_in_flight),
        trace_(IncomingTrace(*context)) {}

 private:
  static v1::CompileReply ErrorReply(const std::string& id, const absl::Status& status) {
    v1::CompileReply reply;
    reply.set_request_id(id);
    SetRequestError(status, *reply.mutable_error());
    return reply;
  }

  void OnRequests(const v1::CompileStreamRequest& message) override {
    const auto cancel =
        MakeToken(std::min(RemainingTime(*context()), CompileBatches::TimeLeft(message)));
    for (const v1::CompileRequest& request : message.requests()) {
      const std::string& id = request.request_id();
      const auto started = service_->StartJob(
          request, cancel, trace_, [sender = sender(), id](absl::StatusOr<v1::CompileReply> end) {
            sender.Send(end.ok() ? *std::move(end) : ErrorReply(id, end.status()));
          });
      if (started.ok()) {
        Keep(*started);
      } else {
        sender().Send(ErrorReply(id, started.status()));
      }
    }
  }
  void Keep(const std::shared_ptr<Job>& job) {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= 2 * max_in_flight_) {
      std::erase_if(jobs_, [](const std::weak_ptr<Job>& old) { return old.expired(); });
    }
    jobs_.push_back(job);
    if (left_) {
      service_->Cancel(*job);
    }
  }
  void OnCancelled() override {
    const std::lock_guard lock(mutex_);
    left_ = true;
    for (const std::weak_ptr<Job>& weak : jobs_) {
      if (const auto job = weak.lock()) {
        service_->Cancel(*job);
      }
    }
  }

  WorkerService* const service_;
  const size_t max_in_flight_;
  const TraceContext trace_;
  std::mutex mutex_;
  // State below is protected by mutex_. Finished jobs are removed from time to time.
  std::vector<std::weak_ptr<Job>> jobs_;
  bool left_ = false;
};

grpc::ServerBidiReactor<v1::CompileStreamRequest, v1::CompileStreamReply>*
WorkerService::CompileStream(grpc::CallbackServerContext* context) {
  return new Stream(context, this, options_.compile_credits);
}

}  // namespace kernelcast::worker
