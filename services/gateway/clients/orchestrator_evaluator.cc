#include "services/gateway/clients/orchestrator_evaluator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/unary_call.h"

namespace kernelcast::gateway {
namespace {

using Async = v1::Orchestrator::StubInterface::async_interface;

constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(3);
constexpr char kEvaluateSpan[] = "kernelcast.v1.Orchestrator/Evaluate";
constexpr char kPutProblemSpan[] = "kernelcast.v1.Orchestrator/PutProblem";

int64_t Now() { return Clock::Real().MonotonicNs(); }

// Whether the same call may succeed later.
bool IsPassing(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

v1::PutProblemRequest ProblemRequest(const std::vector<ProblemFile>& files) {
  v1::PutProblemRequest request;
  for (const ProblemFile& file : files) {
    v1::SourceFile* const added = request.mutable_problem()->add_files();
    added->set_path(file.path);
    added->set_content(file.content);
  }
  return request;
}

Verdict WithoutVerdict(std::string why) {
  Verdict verdict;
  verdict.no_verdict = std::move(why);
  verdict.settled_ns = Clock::Real().WallNs();
  verdict.accepted_ns = verdict.settled_ns;
  return verdict;
}

std::string WhyRejected(const v1::Rejection& rejection) {
  switch (rejection.cause_case()) {
    case v1::Rejection::kUnavailable: return rejection.unavailable();
    case v1::Rejection::kBudget: return absl::StrCat("the budget is spent: ", rejection.budget());
    case v1::Rejection::kCancelled: return absl::StrCat("cancelled: ", rejection.cancelled());
    default: return "the evaluation was rejected";
  }
}

// Fills in what the result says about the candidate.
absl::Status ReadResult(const v1::Evaluation& evaluation, Verdict& verdict) {
  switch (evaluation.result_case()) {
    case v1::Evaluation::kMeasured: {
      KC_ASSIGN_OR_RETURN(Measurement measurement, FromProto(evaluation.measured()));
      if (const auto* unstable = std::get_if<EnvironmentUnstable>(&measurement.outcome)) {
        verdict.no_verdict = absl::StrCat("the machine was too noisy: ", unstable->reason);
        return absl::OkStatus();
      }
      verdict.measurement = std::move(measurement);
      return absl::OkStatus();
    }
    case v1::Evaluation::kRejected: {
      if (!evaluation.rejected().has_compile_error()) {
        verdict.no_verdict = WhyRejected(evaluation.rejected());
        return absl::OkStatus();
      }
      KC_ASSIGN_OR_RETURN(verdict.compile_error, FromProto(evaluation.rejected().compile_error()));
      return absl::OkStatus();
    }
    case v1::Evaluation::kForecast:
      verdict.no_verdict = "the candidate was forecast and not measured";
      return absl::OkStatus();
    case v1::Evaluation::RESULT_NOT_SET: break;
  }
  return absl::InternalError("the orchestrator's reply has no result");
}

}  // namespace

Verdict VerdictFrom(const v1::Evaluation& evaluation) {
  Verdict verdict;
  verdict.feedback = evaluation.text_feedback();
  verdict.device_model = evaluation.device_model();
  verdict.accepted_ns = ToNanoseconds(evaluation.accepted_at());
  verdict.settled_ns = ToNanoseconds(evaluation.settled_at());
  if (const absl::Status status = ReadResult(evaluation, verdict); !status.ok()) {
    verdict.no_verdict = std::string(status.message());
  }
  return verdict;
}

absl::StatusOr<std::unique_ptr<OrchestratorEvaluator>> OrchestratorEvaluator::Create(
    const OrchestratorEvaluatorOptions& options) {
  KC_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                      MakeChannel(options.address, options.channel));
  std::unique_ptr<OrchestratorEvaluator> evaluator(new OrchestratorEvaluator(options));
  evaluator->stub_ = v1::Orchestrator::NewStub(channel);
  evaluator->channel_ = std::move(channel);
  evaluator->thread_ = std::thread([raw = evaluator.get()] { raw->Run(); });
  return evaluator;
}

OrchestratorEvaluator::OrchestratorEvaluator(const OrchestratorEvaluatorOptions& options)
    : options_(options) {}

OrchestratorEvaluator::~OrchestratorEvaluator() { Stop(); }

void OrchestratorEvaluator::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return calls_ == 0; });
}

bool OrchestratorEvaluator::healthy() const {
  return channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
}

absl::StatusOr<std::string> OrchestratorEvaluator::PutProblem(const std::vector<ProblemFile>& files,
                                                              absl::Duration timeout) {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  context.set_wait_for_ready(true);
  v1::PutProblemReply reply;
  const grpc::Status status = stub_->PutProblem(&context, ProblemRequest(files), &reply);
  KC_RETURN_IF_ERROR(FromGrpc(status, context));
  return reply.default_target();
}

void OrchestratorEvaluator::Evaluate(const std::string& request_id,
                                     std::shared_ptr<const Submission> submission, Done done) {
  auto call = std::make_shared<Call>();  // shared with gRPC's callbacks
  call->request.set_request_id(request_id);
  *call->request.mutable_candidate() = ToProto(submission->candidate);
  call->request.mutable_candidate()->set_origin(absl::StrCat("gateway:", submission->dialect));
  call->request.set_mode(submission->checks_only ? v1::EVALUATE_MODE_CHECK
                                                 : v1::EVALUATE_MODE_MEASURE);
  if (!submission->device_model.empty()) call->request.add_device_models(submission->device_model);
  call->submission = std::move(submission);
  call->done = std::move(done);
  call->give_up_ns = Now() + absl::ToInt64Nanoseconds(options_.patience);
  call->pause = kFirstPause;
  if (const TraceContext* const trace = CurrentTrace(); trace != nullptr) call->trace = *trace;
  Schedule(0, std::move(call));
}

void OrchestratorEvaluator::Schedule(int64_t at_ns, std::shared_ptr<Call> call) {
  {
    const std::lock_guard lock(mutex_);
    due_.emplace(at_ns, std::move(call));
  }
  changed_.notify_all();
}

void OrchestratorEvaluator::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (due_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const int64_t wait_ns = due_.begin()->first - Now();
    if (wait_ns > 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
      continue;
    }
    const std::shared_ptr<Call> call = std::move(due_.begin()->second);
    due_.erase(due_.begin());
    lock.unlock();
    Ask(call);
    lock.lock();
  }
}

UnaryCallOptions OrchestratorEvaluator::OptionsFor(const Call& call, const char* span) {
  UnaryCallOptions options;
  options.timeout = options_.call_timeout;
  options.stop = stop_.get_token();
  options.span = span;
  options.address = options_.address;
  options.trace = call.trace;
  return options;
}

void OrchestratorEvaluator::Ask(const std::shared_ptr<Call>& call) {
  CallStarts();
  StartUnaryCall(stub_->async(), &Async::Evaluate, call->request, OptionsFor(*call, kEvaluateSpan),
                 [this, call](const absl::Status& status, v1::EvaluateReply& reply) {
                   OnReply(call, status, reply);
                   CallEnds();
                 });
}

void OrchestratorEvaluator::OnReply(const std::shared_ptr<Call>& call, const absl::Status& status,
                                    const v1::EvaluateReply& reply) {
  if (stopping()) return;
  // Also of another attempt, which the caller may start.
  const TraceScope scope(&call->trace);
  if (status.ok()) {
    Finish(call, VerdictFrom(reply.evaluation()));
  } else if (absl::IsNotFound(status) && !call->problem_put) {
    Put(call);
  } else if (IsPassing(status) && Now() < call->give_up_ns) {
    Repeat(call, status);
  } else {
    Finish(call, WithoutVerdict(std::string(status.message())));
  }
}

void OrchestratorEvaluator::Put(const std::shared_ptr<Call>& call) {
  call->problem_put = true;
  const Submission& submission = *call->submission;
  const std::vector<ProblemFile>* files = &submission.problem_files;
  if (files->empty()) files = options_.files_of(submission.candidate.problem_id);
  if (files == nullptr) {
    Finish(call, WithoutVerdict("the problem is not served any more"));
    return;
  }
  CallStarts();
  StartUnaryCall(stub_->async(), &Async::PutProblem, ProblemRequest(*files),
                 OptionsFor(*call, kPutProblemSpan),
                 [this, call](const absl::Status& status, v1::PutProblemReply&) {
                   OnPut(call, status);
                   CallEnds();
                 });
}

void OrchestratorEvaluator::OnPut(const std::shared_ptr<Call>& call, const absl::Status& status) {
  if (stopping()) return;
  const TraceScope scope(&call->trace);
  if (status.ok()) {
    Schedule(0, call);
  } else if (IsPassing(status) && Now() < call->give_up_ns) {
    call->problem_put = false;
    Repeat(call, status);
  } else {
    Finish(call, WithoutVerdict(std::string(status.message())));
  }
}

void OrchestratorEvaluator::Repeat(const std::shared_ptr<Call>& call, const absl::Status& status) {
  if (options_.on_repeat) options_.on_repeat();
  Log(LogLevel::kDebug, "a call to the orchestrator is made again",
      {{"request_id", call->request.request_id()}, {"error", std::string(status.message())}});
  if (absl::IsDeadlineExceeded(status)) {  // has waited long enough
    Schedule(0, call);
    return;
  }
  const absl::Duration pause = RetryAfter(status).value_or(call->pause);
  call->pause = std::min(2 * call->pause, kLongestPause);
  Schedule(Now() + absl::ToInt64Nanoseconds(pause), call);
}

void OrchestratorEvaluator::Finish(const std::shared_ptr<Call>& call, Verdict verdict) {
  Log(LogLevel::kInfo, "a candidate has been evaluated",
      {{"request_id", call->request.request_id()},
       {"task_id", call->submission->task_id},
       {"dialect", call->submission->dialect},
       {"outcome", verdict.outcome()},
       {"reason", verdict.no_verdict}});
  call->done(std::move(verdict));
}

void OrchestratorEvaluator::CallStarts() {
  const std::lock_guard lock(mutex_);
  ++calls_;
}

void OrchestratorEvaluator::CallEnds() {
  const std::lock_guard lock(mutex_);
  --calls_;
  changed_.notify_all();  // under the lock: this may be destroyed after it
}

bool OrchestratorEvaluator::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

}  // namespace kernelcast::gateway
