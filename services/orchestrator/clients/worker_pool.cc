#include "services/orchestrator/clients/worker_pool.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/rpc/batch_caller.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/orchestrator/clients/request_error.h"

namespace kernelcast::orchestrator {
namespace {

using Stub = v1::Worker::Stub;

// Whether another worker, or the same one later, may do better.
bool IsTransient(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled: return true;
    default: return false;
  }
}

// A refusal says nothing against the candidate.
bool IsRefusal(absl::StatusCode code) { return code == absl::StatusCode::kResourceExhausted; }

enum class Kind { kCompile, kMeasure };

// A request from its arrival to its answer, across workers.
struct Job {
  Kind kind = Kind::kCompile;
  std::shared_ptr<const Problem> problem;
  std::string target;
  v1::CompileRequest compile_request;
  v1::MeasureRequest measure_request;
  Workers::CompileDone compile_done;
  Workers::MeasureDone measure_done;
  TraceContext trace;  // of whoever wants it
  Span waiting;        // while it waits for a worker
  int attempts = 0;
  bool put_problem = false;  // the worker said that it does not know the problem
  absl::Time not_before = absl::InfinitePast();

  void Fail(const absl::Status& status) {
    if (kind == Kind::kCompile) {
      compile_done(status);
    } else {
      measure_done(status);
    }
  }
};

// What gRPC needs alive until a call has ended.
struct Call {
  grpc::ClientContext context;
  v1::WorkerPutProblemRequest put_request;
  v1::WorkerPutProblemReply put_reply;
  v1::CompileReply compile_reply;
  v1::MeasureReply measure_reply;
  std::shared_ptr<Job> job;
  size_t worker = 0;
  Span span;
};

}  // namespace

class WorkerPool::Impl {
 public:
  Impl(WorkerPoolOptions options, std::function<void()> on_change)
      : options_(std::move(options)), on_change_(std::move(on_change)) {}

  absl::Status Start() {
    for (const std::string& address : options_.addresses) {
      KC_ASSIGN_OR_RETURN(auto channel, MakeChannel(address, options_.channel));
      auto worker = std::make_unique<WorkerState>();
      worker->view.address = address;
      worker->view.unhealthy_reason = "not asked yet";
      worker->stub = v1::Worker::NewStub(channel);
      worker->compiles_in_batches = std::make_unique<BatchCaller<CompileBatches>>(
          [stub = worker->stub.get()](grpc::ClientContext* context, auto* reactor) {
            stub->async()->CompileStream(context, reactor);
          });
      workers_.push_back(std::move(worker));
    }
    thread_ = std::thread([this] { Watch(); });
    return absl::OkStatus();
  }

  ~Impl() {
    std::deque<std::shared_ptr<Job>> abandoned;
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      for (Call* call : calls_) call->context.TryCancel();
      for (auto& worker : workers_) {
        if (worker->describe_context != nullptr) worker->describe_context->TryCancel();
      }
      abandoned.swap(queue_);
      wake_.notify_all();
    }
    for (auto& job : abandoned) job->Fail(absl::CancelledError("the worker pool is stopping"));
    if (thread_.joinable()) thread_.join();
    for (auto& worker : workers_) worker->compiles_in_batches.reset();
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return calls_.empty() && describing_ == 0; });
  }

  void Submit(std::shared_ptr<Job> job) {
    if (const TraceContext* trace = CurrentTrace()) {
      job->trace = *trace;
      job->waiting = StartSpan("kernelcast.queue", SpanKind::kInternal, trace);
    }
    {
      std::unique_lock lock(mutex_);
      if (!stopping_) {
        queue_.push_back(std::move(job));
        Dispatch(lock);
        return;
      }
    }
    job->Fail(absl::CancelledError("the worker pool is stopping"));
  }

  Workers::Capacity CapacityFor(const std::string& target) const {
    std::lock_guard lock(mutex_);
    Workers::Capacity capacity;
    for (const auto& worker : workers_) {
      if (!worker->view.healthy) continue;
      for (const auto& description : worker->view.description.targets()) {
        if (description.target() != target) continue;
        if (description.can_compile()) {
          capacity.compile_credits += worker->view.description.compile_credits();
        }
        // Credits count what waits as well; one of them runs at a time.
        if (description.can_measure()) capacity.measure_slots += 1;
      }
    }
    return capacity;
  }

  DeviceInfo DeviceFor(const std::string& target) const {
    std::lock_guard lock(mutex_);
    for (const auto& worker : workers_) {
      if (!worker->view.healthy) continue;
      for (const auto& description : worker->view.description.targets()) {
        if (description.target() == target && description.can_measure()) {
          return FromProto(description.device());
        }
      }
    }
    return {};
  }

  std::vector<WorkerView> View() const {
    std::lock_guard lock(mutex_);
    std::vector<WorkerView> views;
    for (const auto& worker : workers_) views.push_back(worker->view);
    return views;
  }

  size_t QueueDepth() const {
    std::lock_guard lock(mutex_);
    return queue_.size();
  }

 private:
  struct WorkerState {
    WorkerView view;
    std::unique_ptr<Stub> stub;
    std::unique_ptr<BatchCaller<CompileBatches>> compiles_in_batches;
    std::atomic<bool> takes_batches = true;
    uint32_t compiles = 0;
    uint32_t measures = 0;
    std::set<std::string> problems;  // put to this incarnation
    std::string incarnation;
    std::unique_ptr<grpc::ClientContext> describe_context;
    v1::WorkerDescribeRequest describe_request;
    v1::WorkerDescription describe_reply;
    absl::Time next_describe = absl::InfinitePast();
  };

  static bool Serves(const WorkerState& worker, const Job& job) {
    for (const auto& description : worker.view.description.targets()) {
      if (description.target() == job.target) {
        return job.kind == Kind::kCompile ? description.can_compile() : description.can_measure();
      }
    }
    return false;
  }

  // The worker with the most room for the job; nothing if none has any.
  std::optional<size_t> Choose(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::optional<size_t> best;
    int64_t best_room = 0;
    for (size_t i = 0; i < workers_.size(); ++i) {
      const WorkerState& worker = *workers_[i];
      if (!worker.view.healthy || worker.view.description.draining() || !Serves(worker, job)) {
        continue;
      }
      const auto& description = worker.view.description;
      const int64_t room =
          job.kind == Kind::kCompile
              ? static_cast<int64_t>(description.compile_credits()) - worker.compiles
              : static_cast<int64_t>(description.measure_credits()) - worker.measures;
      if (room > best_room) {
        best_room = room;
        best = i;
      }
    }
    return best;
  }

  // Starts what can be started. Calls are begun without the lock: gRPC may complete them at once.
  void Dispatch(std::unique_lock<std::mutex>& lock) {
    std::vector<Call*> started;
    const absl::Time now = absl::Now();
    for (auto it = queue_.begin(); it != queue_.end() && !stopping_;) {
      if ((*it)->not_before > now) {
        ++it;
        continue;
      }
      std::optional<size_t> chosen = Choose(**it);
      if (!chosen) {
        ++it;
        continue;
      }
      auto* call = new Call;
      call->job = std::move(*it);
      call->worker = *chosen;
      it = queue_.erase(it);
      WorkerState& worker = *workers_[*chosen];
      ++(call->job->kind == Kind::kCompile ? worker.compiles : worker.measures);
      call->job->put_problem = !worker.problems.contains(call->job->problem->problem_id);
      calls_.insert(call);
      started.push_back(call);
    }
    lock.unlock();
    for (Call* call : started) Begin(call);
    lock.lock();
  }

  void Begin(Call* call) {
    Job& job = *call->job;
    job.waiting.End();
    Stub& stub = *workers_[call->worker]->stub;
    const absl::Duration timeout =
        job.kind == Kind::kCompile ? options_.compile_timeout : options_.measure_timeout;
    call->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    if (job.put_problem) {
      *call->put_request.mutable_problem() = ProblemFilesToProto(*job.problem);
      stub.async()->PutProblem(&call->context, &call->put_request, &call->put_reply,
                               [this, call](grpc::Status status) { OnProblemPut(call, status); });
      return;
    }
    // What is traced has a call of its own, whose metadata say so.
    if (job.kind == Kind::kCompile && !job.trace.sampled && workers_[call->worker]->takes_batches) {
      BeginInBatch(call, timeout);
      return;
    }
    call->span = StartCallSpan(job.kind == Kind::kCompile ? "kernelcast.v1.Worker/Compile"
                                                          : "kernelcast.v1.Worker/Measure",
                               workers_[call->worker]->view.address, job.trace);
    PassTrace(call->span.context(), call->context);
    if (job.kind == Kind::kCompile) {
      stub.async()->Compile(&call->context, &job.compile_request, &call->compile_reply,
                            [this, call](grpc::Status status) { Finish(call, status); });
    } else {
      stub.async()->Measure(&call->context, &job.measure_request, &call->measure_reply,
                            [this, call](grpc::Status status) { Finish(call, status); });
    }
  }

  // A compile as one of many in a message.
  void BeginInBatch(Call* call, absl::Duration timeout) {
    WorkerState& worker = *workers_[call->worker];
    worker.compiles_in_batches->Call(
        call->job->compile_request, timeout,
        [this, call, &worker](const absl::Status& status, v1::CompileStreamResult* result) {
          if (status.code() == absl::StatusCode::kUnimplemented) {
            worker.takes_batches = false;  // a worker of an earlier release
            Begin(call);
            return;
          }
          absl::Status end = status;
          if (status.ok() && result->has_error()) {
            end = FromRequestError(result->error());
            if (end.code() == absl::StatusCode::kUnavailable) worker.compiles_in_batches->Renew();
          } else if (status.ok()) {
            call->compile_reply = std::move(*result->mutable_reply());
          }
          Finish(call, end);
        });
  }

  void OnProblemPut(Call* call, const grpc::Status& status) {
    if (!status.ok()) {
      Finish(call, status);
      return;
    }
    auto* next = new Call;
    next->job = call->job;
    next->worker = call->worker;
    {
      std::lock_guard lock(mutex_);
      workers_[call->worker]->problems.insert(call->job->problem->problem_id);
      calls_.erase(call);
      calls_.insert(next);
      if (stopping_) next->context.TryCancel();
    }
    delete call;
    next->job->put_problem = false;
    Begin(next);
  }

  void Finish(Call* raw, const grpc::Status& status) { Finish(raw, FromGrpc(status)); }

  void Finish(Call* raw, const absl::Status& status) {
    std::unique_ptr<Call> call(raw);
    EndCallSpan(call->span, status);
    std::shared_ptr<Job> job = call->job;
    bool answered = true;
    bool lost_worker = false;
    absl::Status final_status = status;
    {
      std::unique_lock lock(mutex_);
      WorkerState& worker = *workers_[call->worker];
      --(job->kind == Kind::kCompile ? worker.compiles : worker.measures);
      if (status.code() == absl::StatusCode::kNotFound && !stopping_) {
        // The worker forgot the problem: the next attempt puts it again.
        worker.problems.erase(job->problem->problem_id);
        answered = ++job->attempts > 2 * options_.max_attempts;
      } else if (!status.ok() && IsTransient(status.code()) && !stopping_) {
        if (!IsRefusal(status.code())) {
          ++job->attempts;
          if (status.code() == absl::StatusCode::kUnavailable) {
            lost_worker = worker.view.healthy;
            MarkUnhealthy(worker, std::string(status.message()));
          }
        }
        answered = job->attempts >= options_.max_attempts;
        job->not_before =
            absl::Now() + RetryAfter(status).value_or(absl::Milliseconds(20 << job->attempts));
      } else if (stopping_ && !status.ok()) {
        final_status = absl::CancelledError("the worker pool is stopping");
      }
      if (!answered) {
        queue_.push_front(job);
        wake_.notify_all();
      }
      if (!stopping_) Dispatch(lock);
    }
    if (lost_worker) {
      Log(LogLevel::kWarning, "worker lost",
          {{"address", workers_[call->worker]->view.address},
           {"error", std::string(status.message())}});
      on_change_();
    }
    if (answered) Answer(*job, *call, final_status);
    // Last, so that the destructor cannot run before the callback has.
    std::lock_guard lock(mutex_);
    calls_.erase(raw);
    if (calls_.empty()) idle_.notify_all();
  }

  static void Answer(Job& job, Call& call, const absl::Status& status) {
    if (!status.ok()) {
      job.Fail(status);
      return;
    }
    if (job.kind == Kind::kMeasure && call.measure_reply.has_compile_error()) {
      auto error = FromProto(call.measure_reply.compile_error());
      if (!error.ok()) {
        job.measure_done(error.status());
      } else {
        job.measure_done(MeasureResult(*std::move(error)));
      }
      return;
    }
    if (job.kind == Kind::kMeasure) {
      auto measurement = FromProto(call.measure_reply.measurement());
      if (!measurement.ok()) {
        job.measure_done(measurement.status());
      } else {
        job.measure_done(MeasureResult(*std::move(measurement)));
      }
      return;
    }
    if (call.compile_reply.has_error()) {
      auto error = FromProto(call.compile_reply.error());
      if (!error.ok()) {
        job.compile_done(error.status());
      } else {
        job.compile_done(CompileResult(*std::move(error)));
      }
      return;
    }
    auto artifact = FromProto(call.compile_reply.success().artifact());
    if (!artifact.ok()) {
      job.compile_done(artifact.status());
      return;
    }
    job.compile_done(CompileResult(
        CompiledCandidate{FromProto(call.compile_reply.success().facts()), *std::move(artifact)}));
  }

  void MarkUnhealthy(WorkerState& worker, std::string reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    worker.view.healthy = false;
    worker.view.unhealthy_reason = std::move(reason);
    worker.problems.clear();
    worker.next_describe = absl::Now() + absl::Milliseconds(100);
  }

  // Asks every worker for its description in turn, and wakes what waits for its time.
  void Watch() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const absl::Time now = absl::Now();
      std::vector<size_t> due;
      for (size_t i = 0; i < workers_.size(); ++i) {
        WorkerState& worker = *workers_[i];
        if (worker.describe_context == nullptr && worker.next_describe <= now) due.push_back(i);
      }
      for (size_t i : due) {
        WorkerState& worker = *workers_[i];
        worker.describe_context = std::make_unique<grpc::ClientContext>();
        worker.describe_context->set_deadline(absl::ToChronoTime(now + options_.describe_timeout));
        ++describing_;
      }
      lock.unlock();
      for (size_t i : due) {
        WorkerState& worker = *workers_[i];
        worker.describe_reply.Clear();
        worker.stub->async()->Describe(worker.describe_context.get(), &worker.describe_request,
                                       &worker.describe_reply,
                                       [this, i](grpc::Status status) { OnDescribed(i, status); });
      }
      lock.lock();
      Dispatch(lock);
      if (stopping_) break;
      wake_.wait_for(lock, std::chrono::milliseconds(queue_.empty() ? 200 : 20));
    }
  }

  void OnDescribed(size_t index, const grpc::Status& status) {
    bool changed = false;
    {
      std::unique_lock lock(mutex_);
      WorkerState& worker = *workers_[index];
      const bool was_healthy = worker.view.healthy;
      worker.describe_context.reset();
      worker.next_describe = absl::Now() + options_.describe_interval;
      if (status.ok()) {
        if (worker.incarnation != worker.describe_reply.worker_id()) {
          worker.incarnation = worker.describe_reply.worker_id();
          worker.problems.clear();
        }
        const bool credits_changed =
            worker.view.description.compile_credits() != worker.describe_reply.compile_credits() ||
            worker.view.description.measure_credits() != worker.describe_reply.measure_credits();
        worker.view.description = worker.describe_reply;
        worker.view.healthy = true;
        worker.view.unhealthy_reason.clear();
        changed = !was_healthy || credits_changed;
      } else if (!stopping_) {
        MarkUnhealthy(worker, status.error_message());
        worker.next_describe = absl::Now() + absl::Milliseconds(500);
        changed = was_healthy;
      }
      if (changed) {
        Log(worker.view.healthy ? LogLevel::kInfo : LogLevel::kWarning,
            worker.view.healthy ? "worker is ready" : "worker does not answer",
            {{"address", worker.view.address}, {"reason", worker.view.unhealthy_reason}});
      }
      if (!stopping_) Dispatch(lock);
    }
    if (changed) on_change_();
    std::lock_guard lock(mutex_);
    if (--describing_ == 0) idle_.notify_all();
  }

  const WorkerPoolOptions options_;
  const std::function<void()> on_change_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  // The vector is constant after Start; the states are protected by mutex_.
  std::vector<std::unique_ptr<WorkerState>> workers_;
  std::deque<std::shared_ptr<Job>> queue_ ABSL_GUARDED_BY(mutex_);
  std::set<Call*> calls_ ABSL_GUARDED_BY(mutex_);
  int describing_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

WorkerPool::WorkerPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerPool::~WorkerPool() = default;

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Create(WorkerPoolOptions options,
                                                               std::function<void()> on_change) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(on_change));
  KC_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<WorkerPool>(new WorkerPool(std::move(impl)));
}

void WorkerPool::Compile(std::shared_ptr<const Problem> problem, const Candidate& candidate,
                         CompileDone done) {
  auto job = std::make_shared<Job>();
  job->kind = Kind::kCompile;
  job->target = candidate.target;
  job->compile_request.set_problem_id(problem->problem_id);
  job->compile_request.set_target(candidate.target);
  *job->compile_request.mutable_candidate() = ToProto(candidate);
  job->problem = std::move(problem);
  job->compile_done = std::move(done);
  impl_->Submit(std::move(job));
}

void WorkerPool::CompileReference(std::shared_ptr<const Problem> problem, const std::string& target,
                                  CompileDone done) {
  auto job = std::make_shared<Job>();
  job->kind = Kind::kCompile;
  job->target = target;
  job->compile_request.set_problem_id(problem->problem_id);
  job->compile_request.set_target(target);
  job->compile_request.set_reference(true);
  job->problem = std::move(problem);
  job->compile_done = std::move(done);
  impl_->Submit(std::move(job));
}

void WorkerPool::Measure(std::shared_ptr<const Problem> problem, const Candidate& candidate,
                         MeasureLevel level, MeasureDone done) {
  auto job = std::make_shared<Job>();
  job->kind = Kind::kMeasure;
  job->target = candidate.target;
  *job->measure_request.mutable_candidate() = ToProto(candidate);
  job->measure_request.set_level(ToProto(level));
  job->problem = std::move(problem);
  job->measure_done = std::move(done);
  impl_->Submit(std::move(job));
}

Workers::Capacity WorkerPool::CapacityFor(const std::string& target) const {
  return impl_->CapacityFor(target);
}

DeviceInfo WorkerPool::DeviceFor(const std::string& target) const {
  return impl_->DeviceFor(target);
}

std::vector<WorkerView> WorkerPool::View() const { return impl_->View(); }
size_t WorkerPool::QueueDepth() const { return impl_->QueueDepth(); }

}  // namespace kernelcast::orchestrator
