#include "services/orchestrator/clients/worker_pool.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/monotonic_time.h"
#include "common/base/status.h"
#include "common/convert/batch_protocols.h"
#include "common/convert/convert.h"
#include "common/rpc/batch_caller.h"
#include "common/rpc/call_trace.h"
#include "common/rpc/protocol_version.h"
#include "common/rpc/request_error.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/orchestrator/clients/transient.h"
#include "services/orchestrator/clients/worker_devices.h"
#include "services/orchestrator/clients/worker_replies.h"

namespace kernelcast::orchestrator {
namespace {

using Stub = v1::Worker::Stub;

// A refusal is not the candidate's fault.
bool IsRefusal(absl::StatusCode code) { return code == absl::StatusCode::kResourceExhausted; }

enum class Kind { kCompile, kMeasure };

// A request from its arrival to its answer, across workers.
struct Job {
  Kind kind = Kind::kCompile;
  std::string request_id;  // empty for references
  std::shared_ptr<const Problem> problem;
  std::string target;
  std::string device_model;
  v1::CompileRequest compile_request;
  v1::MeasureRequest measure_request;
  Workers::CompileDone compile_done;
  Workers::MeasureDone measure_done;
  TraceContext trace;  // of the caller
  Span waiting;        // while it waits for a worker
  int attempts = 0;
  int losses = 0;
  std::set<uint64_t> failed_on;  // numbers of workers
  bool put_problem = false;      // the worker does not know the problem
  bool cancelled = false;        // the caller no longer waits for it
  absl::Time not_before = absl::InfinitePast();

  void Fail(const absl::Status& status) {
    if (kind == Kind::kCompile) {
      compile_done(status);
    } else {
      measure_done(status);
    }
  }
};

struct WorkerState;

// Objects that gRPC needs until a call has ended.
struct Call {
  grpc::ClientContext context;
  v1::WorkerPutProblemRequest put_request;
  v1::WorkerPutProblemReply put_reply;
  v1::CompileReply compile_reply;
  v1::MeasureReply measure_reply;
  // The content of the reply, once read.
  CompileResult compiled;
  MeasureResult measured;
  std::shared_ptr<Job> job;
  std::shared_ptr<WorkerState> worker;
  // The call was ended because the worker did not answer.
  bool given_up = false;
  Span span;
};

// Shared by the pool and its calls, which continue after the worker is removed from DNS. Stub,
// batches, number and address are constant; the rest is protected by the pool's mutex.
struct WorkerState {
  uint64_t number = 0;  // never reused
  std::unique_ptr<Stub> stub;
  std::unique_ptr<BatchCaller<CompileBatches>> compiles_in_batches;
  std::atomic<bool> takes_batches = true;
  WorkerView view;
  bool removed = false;
  uint64_t last_chosen = 0;
  // Work that other orchestrators had there when it last described itself.
  uint32_t others_compiles = 0;
  uint32_t others_measures = 0;
  OutlierDetector record;
  std::set<std::string> problems;  // put to this incarnation
  std::string incarnation;
  std::unique_ptr<grpc::ClientContext> describe_context;
  v1::WorkerDescribeRequest describe_request;
  v1::WorkerDescription describe_reply;
  absl::Time next_describe = absl::InfinitePast();
  absl::Time last_answer = absl::InfinitePast();
};

const v1::TargetDescription* FindTarget(const WorkerState& worker, const std::string& target) {
  for (const v1::TargetDescription& description : worker.view.description.targets()) {
    if (description.target() == target) return &description;
  }
  return nullptr;
}

// Delay of Describe after a failure.
constexpr absl::Duration kDescribeAgain = absl::Milliseconds(500);

}  // namespace

class WorkerPool::Impl {
 public:
  Impl(WorkerPoolOptions options, std::function<void()> on_change)
      : options_(std::move(options)),
        on_change_(std::move(on_change)),
        devices_(options_.gpu_model) {}

  absl::Status Start() {
    // An invalid address or TLS file must be reported to the operator at once.
    for (const std::string& address : options_.discovery.addresses) {
      KC_RETURN_IF_ERROR(MakeChannel(address, options_.channel).status());
    }
    KC_ASSIGN_OR_RETURN(
        discovery_,
        AddressWatch::Start(options_.discovery, [this](const auto& peers) { OnPeers(peers); }));
    thread_ = std::thread([this] { Watch(); });
    return absl::OkStatus();
  }

  ~Impl() {
    std::deque<std::shared_ptr<Job>> abandoned;
    std::vector<std::shared_ptr<WorkerState>> known;
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      known = workers_;
      known.insert(known.end(), leaving_.begin(), leaving_.end());
      for (Call* call : calls_) call->context.TryCancel();
      for (auto& worker : workers_) {
        if (worker->describe_context != nullptr) worker->describe_context->TryCancel();
      }
      abandoned.swap(queue_);
      wake_.notify_all();
    }
    discovery_.reset();
    for (auto& job : abandoned) job->Fail(absl::CancelledError("the worker pool is stopping"));
    if (thread_.joinable()) thread_.join();
    for (const auto& worker : known) worker->compiles_in_batches->Stop();
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

  void Cancel(const std::vector<std::string>& request_ids) {
    const std::set<std::string> ids(request_ids.begin(), request_ids.end());
    std::vector<std::shared_ptr<Job>> dropped;
    {
      std::lock_guard lock(mutex_);
      std::erase_if(queue_, [&](const std::shared_ptr<Job>& job) {
        if (!ids.contains(job->request_id)) return false;
        dropped.push_back(job);
        return true;
      });
      for (Call* call : calls_) {
        if (!ids.contains(call->job->request_id)) continue;
        call->job->cancelled = true;
        call->context.TryCancel();
      }
    }
    for (const auto& job : dropped) job->Fail(absl::CancelledError("no caller waits for it"));
  }

  Workers::Capacity CapacityFor(const std::string& target, const std::string& model) const {
    std::lock_guard lock(mutex_);
    return Capacity(target, model);
  }

  std::string DeviceModelFor(const std::string& target, const std::string& wanted) {
    std::lock_guard lock(mutex_);
    return devices_.Choose(target, wanted, SlotsFunction());
  }

  std::vector<Workers::Device> Devices() const {
    std::lock_guard lock(mutex_);
    return devices_.List(SlotsFunction());
  }

  DeviceInfo DeviceFor(const std::string& target, const std::string& model) const {
    std::lock_guard lock(mutex_);
    return devices_.Info(target, model);
  }

  std::vector<WorkerView> View() const {
    std::lock_guard lock(mutex_);
    std::vector<WorkerView> views;
    for (const auto& worker : workers_) {
      views.push_back(worker->view);
      views.back().ejected = !worker->record.in();
    }
    return views;
  }

  WorkerPoolCounts Counts() const {
    std::lock_guard lock(mutex_);
    return counts_;
  }

  size_t QueueDepth() const {
    std::lock_guard lock(mutex_);
    return queue_.size();
  }

 private:
  Workers::Capacity Capacity(const std::string& target, const std::string& model) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Ejected workers count only if there are no others, because they are used then.
    Workers::Capacity capacity, ejected;
    for (const auto& worker : workers_) {
      if (!Usable(*worker)) continue;
      Workers::Capacity& sum = worker->record.in() ? capacity : ejected;
      if (Serves(*worker, target, model, Kind::kCompile)) {
        sum.compile_credits += worker->view.description.compile_credits();
      }
      // Credits include queued work; a device runs one measurement at a time.
      sum.measure_slots += DevicesOf(*worker, target, model);
    }
    if (capacity.compile_credits == 0) capacity.compile_credits = ejected.compile_credits;
    if (capacity.measure_slots == 0) capacity.measure_slots = ejected.measure_slots;
    return capacity;
  }

  // Requires the mutex.
  DeviceRegistry::Slots SlotsFunction() const {
    return [this](const std::string& target, const std::string& model)
               ABSL_NO_THREAD_SAFETY_ANALYSIS { return Capacity(target, model).measure_slots; };
  }

  // Number of the worker's devices of a model, or of any model if `model` is empty.
  static uint32_t DevicesOf(const WorkerState& worker, const std::string& target,
                            const std::string& model) {
    const v1::TargetDescription* const described = FindTarget(worker, target);
    if (described == nullptr) return 0;
    uint32_t count = 0;
    for (const v1::TargetDevice& device : MeasuringDevices(*described)) {
      if (model.empty() || DeviceModelOf(target, device.device()) == model) ++count;
    }
    return count;
  }

  // Workers follow their DNS records. Removed workers get no new work but finish what they have.
  void OnPeers(const std::vector<PeerAddress>& peers) {
    std::vector<std::shared_ptr<WorkerState>> added;
    for (const PeerAddress& peer : peers) {
      {
        std::lock_guard lock(mutex_);
        const bool known = std::ranges::any_of(
            workers_, [&](const auto& worker) { return worker->view.address == peer.address; });
        if (known) continue;
      }
      ChannelOptions channel_options = options_.channel;
      channel_options.authority = peer.authority;
      auto channel = MakeChannel(peer.address, channel_options);
      if (!channel.ok()) {
        Log(LogLevel::kError, "a worker cannot be called",
            {{"address", peer.address}, {"error", std::string(channel.status().message())}});
        continue;
      }
      auto worker = std::make_shared<WorkerState>();
      worker->view.address = peer.address;
      worker->view.unhealthy_reason = "not asked yet";
      worker->stub = v1::Worker::NewStub(*channel);
      worker->compiles_in_batches = std::make_unique<BatchCaller<CompileBatches>>(
          [stub = worker->stub.get()](grpc::ClientContext* context, auto* reactor) {
            stub->async()->CompileStream(context, reactor);
          });
      added.push_back(std::move(worker));
    }
    std::vector<std::string> gone;
    {
      std::lock_guard lock(mutex_);
      std::erase_if(workers_, [&](const std::shared_ptr<WorkerState>& worker) {
        const bool stays = std::ranges::any_of(
            peers, [&](const PeerAddress& peer) { return peer.address == worker->view.address; });
        if (stays) return false;
        worker->removed = true;
        gone.push_back(worker->view.address);
        leaving_.push_back(worker);
        return true;
      });
      for (auto& worker : added) {
        worker->number = ++last_number_;
        workers_.push_back(worker);
      }
      wake_.notify_all();
    }
    for (const auto& worker : added) {
      Log(LogLevel::kInfo, "worker found", {{"address", worker->view.address}});
    }
    for (const std::string& address : gone) {
      Log(LogLevel::kInfo, "worker removed from DNS", {{"address", address}});
    }
    if (!gone.empty()) on_change_();
  }

  static bool Usable(const WorkerState& worker) {
    return worker.view.healthy && !worker.removed && !worker.view.description.draining();
  }

  bool Serves(const WorkerState& worker, const std::string& target, const std::string& model,
              Kind kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const v1::TargetDescription* const described = FindTarget(worker, target);
    if (described == nullptr) return false;
    const bool has_device = DevicesOf(worker, target, model) > 0;
    if (kind == Kind::kMeasure) return has_device;
    if (!described->can_compile()) return false;
    if (has_device || model.empty()) return true;
    // A compile for another architecture has different facts, and its result may not run.
    if (DevicesOf(worker, target, "") > 0) return false;
    const std::string architecture = devices_.Architecture(target, model);
    return target != kCudaTargetName || architecture.empty() ||
           described->architecture() == architecture;
  }

  struct Room {
    int64_t credits = 0;
    int64_t free = 0;       // credits that this pool may still use
    double free_share = 0;  // share of all credits, including other orchestrators' use
  };
  static Room RoomFor(const WorkerState& worker, Kind kind) {
    const bool compile = kind == Kind::kCompile;
    const auto& description = worker.view.description;
    const int64_t credits = compile ? description.compile_credits() : description.measure_credits();
    const int64_t own = compile ? worker.view.compiles : worker.view.measures;
    const int64_t others = compile ? worker.others_compiles : worker.others_measures;
    if (credits == 0) return {};
    // The use by others is seconds old: it is good enough to compare workers, but not to rule one
    // out.
    return {credits, credits - own,
            static_cast<double>(credits - own - others) / static_cast<double>(credits)};
  }

  // The worker with the largest share of free credits; of several, the one chosen longest ago. Null
  // if none has room.
  std::shared_ptr<WorkerState> Choose(const Job& job, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    enum Rank { kTrusted, kProbation, kOut, kFailedBefore, kRanks };
    std::shared_ptr<WorkerState> best[kRanks];
    Room best_room[kRanks];
    bool any[kRanks] = {};
    for (const auto& worker : workers_) {
      if (!Usable(*worker) || !Serves(*worker, job.target, job.device_model, job.kind)) continue;
      const Rank rank = job.failed_on.contains(worker->number) ? kFailedBefore
                        : worker->record.in()                  ? kTrusted
                        : worker->record.out(now)              ? kOut
                                                               : kProbation;
      any[rank] = true;
      const Room room = RoomFor(*worker, job.kind);
      if (room.free <= 0) continue;
      // A probe is a single call.
      if (rank == kProbation && worker->view.compiles + worker->view.measures > 0) continue;
      const bool better = best[rank] == nullptr || room.free_share > best_room[rank].free_share ||
                          (room.free_share == best_room[rank].free_share &&
                           worker->last_chosen < best[rank]->last_chosen);
      if (better) {
        best[rank] = worker;
        best_room[rank] = room;
      }
    }
    // A worker on probation is probed with the next request.
    for (const Rank rank : {kProbation, kTrusted}) {
      if (best[rank] != nullptr) return best[rank];
    }
    // Waits for a busy worker rather than using one that is known to fail.
    if (any[kTrusted] || any[kProbation]) return nullptr;
    if (any[kOut]) return best[kOut];
    return best[kFailedBefore];
  }

  // Starts the requests that can be started. Releases the lock for that, because gRPC may complete
  // calls at once.
  void Dispatch(std::unique_lock<std::mutex>& lock) {
    std::vector<Call*> started;
    const absl::Time now = MonotonicNow();
    // If one request found no room, the next one like it finds none either.
    std::vector<const Job*> refused;
    const auto is_hopeless = [&refused](const Job& job) {
      return std::ranges::any_of(refused, [&](const Job* other) {
        return other->kind == job.kind && other->target == job.target &&
               other->device_model == job.device_model;
      });
    };
    for (auto it = queue_.begin(); it != queue_.end() && !stopping_;) {
      const Job& job = **it;
      const bool choosy = !job.failed_on.empty();
      if (job.not_before > now || (!choosy && is_hopeless(job))) {
        ++it;
        continue;
      }
      std::shared_ptr<WorkerState> worker = Choose(job, now);
      if (worker == nullptr) {
        if (!choosy) refused.push_back(&job);
        ++it;
        continue;
      }
      auto* call = new Call;
      call->job = std::move(*it);
      call->worker = worker;
      it = queue_.erase(it);
      ++(call->job->kind == Kind::kCompile ? worker->view.compiles : worker->view.measures);
      worker->last_chosen = ++choices_;
      NameDevice(*call->job, *worker);
      call->job->put_problem = !worker->problems.contains(call->job->problem->problem_id);
      calls_.insert(call);
      started.push_back(call);
    }
    lock.unlock();
    for (Call* call : started) Begin(call);
    lock.lock();
  }

  // Sets the device that the request is for. Not set for a worker that only compiles or that
  // describes no devices.
  static void NameDevice(Job& job, const WorkerState& worker) {
    const v1::TargetDescription* const described = FindTarget(worker, job.target);
    std::string model;
    if (described != nullptr) {
      for (const v1::TargetDevice& device : described->devices()) {
        if (device.device().model() == job.device_model) model = job.device_model;
      }
    }
    job.compile_request.set_device_model(model);
    job.measure_request.set_device_model(model);
  }

  void Begin(Call* call) {
    Job& job = *call->job;
    job.waiting.End();
    Stub& stub = *call->worker->stub;
    const absl::Duration timeout =
        job.kind == Kind::kCompile ? options_.compile_timeout : options_.measure_timeout;
    call->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    if (job.put_problem) {
      *call->put_request.mutable_problem() = ProblemFilesToProto(*job.problem);
      stub.async()->PutProblem(
          &call->context, &call->put_request, &call->put_reply,
          [this, call](const grpc::Status& status) { OnProblemPut(call, status); });
      return;
    }
    // A traced compile uses a call of its own, because the trace is in the metadata.
    if (job.kind == Kind::kCompile && !job.trace.sampled && call->worker->takes_batches) {
      BeginInBatch(call, timeout);
      return;
    }
    call->span = StartCallSpan(job.kind == Kind::kCompile ? "kernelcast.v1.Worker/Compile"
                                                          : "kernelcast.v1.Worker/Measure",
                               call->worker->view.address, job.trace);
    PassTrace(call->span.context(), call->context);
    if (job.kind == Kind::kCompile) {
      stub.async()->Compile(&call->context, &job.compile_request, &call->compile_reply,
                            [this, call](const grpc::Status& status) { Finish(call, status); });
    } else {
      stub.async()->Measure(&call->context, &job.measure_request, &call->measure_reply,
                            [this, call](const grpc::Status& status) { Finish(call, status); });
    }
  }

  // Sends a compile as one of many in a message.
  void BeginInBatch(Call* call, absl::Duration timeout) {
    WorkerState& worker = *call->worker;  // kept alive by the call
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
      call->worker->problems.insert(call->job->problem->problem_id);
      next->given_up = call->given_up;
      calls_.erase(call);
      calls_.insert(next);
      if (stopping_ || next->given_up || next->job->cancelled) next->context.TryCancel();
    }
    delete call;
    next->job->put_problem = false;
    Begin(next);
  }

  void Finish(Call* raw, const grpc::Status& status) {
    Finish(raw, FromGrpc(status, raw->context));
  }

  void Finish(Call* raw, const absl::Status& ended) {
    std::unique_ptr<Call> call(raw);
    EndCallSpan(call->span, ended);
    const absl::Status status = ended.ok() ? Read(*call) : ended;
    std::shared_ptr<Job> job = call->job;
    bool answered = true;
    bool changed = false;
    absl::Status final_status = status;
    {
      std::unique_lock lock(mutex_);
      WorkerState& worker = *call->worker;
      --(job->kind == Kind::kCompile ? worker.view.compiles : worker.view.measures);
      if (stopping_) {
        if (!status.ok()) final_status = absl::CancelledError("the worker pool is stopping");
      } else if (job->cancelled && !status.ok()) {
        // A cancelled call says nothing about the worker.
        final_status = absl::CancelledError("no caller waits for it");
      } else if (status.code() == absl::StatusCode::kNotFound) {
        // The worker forgot the problem. The next attempt puts it again.
        worker.problems.erase(job->problem->problem_id);
        answered = ++job->attempts > 2 * options_.max_attempts;
      } else if (IsTransient(status.code())) {
        changed = OnFailure(worker, *call, status, *job);
        answered = job->attempts >= options_.max_attempts || job->losses >= options_.max_losses;
      } else {
        changed = OnSuccess(worker);
      }
      if (!answered) {
        queue_.push_front(job);
        wake_.notify_all();
      }
      if (worker.removed) ForgetIfIdle(worker);
      if (!stopping_) Dispatch(lock);
    }
    if (changed) on_change_();
    if (answered) Answer(*job, *call, final_status);
    // Must come last, so that the destructor cannot run before the callback.
    std::lock_guard lock(mutex_);
    calls_.erase(raw);
    if (calls_.empty()) idle_.notify_all();
  }

  // A worker that answers works, regardless of the verdict. Returns whether capacity has changed.
  bool OnSuccess(WorkerState& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    worker.record.Add(/*failed=*/false);
    // A call from before the ejection may still succeed, but proves nothing.
    if (!worker.record.on_probation(MonotonicNow())) return false;
    worker.record.Readmit();
    Log(LogLevel::kInfo, "worker is used again", {{"address", worker.view.address}});
    return true;
  }

  // Decides what an error means for the worker and the request, and when to retry. Returns whether
  // capacity has changed.
  bool OnFailure(WorkerState& worker, const Call& call, const absl::Status& status, Job& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Time now = MonotonicNow();
    if (IsNotStarted(status)) {
      ++counts_.repeated_handed_back;
      job.not_before = now;
      const bool was_draining = worker.view.description.draining();
      worker.view.description.set_draining(true);
      worker.next_describe = now + kDescribeAgain;
      return !was_draining;
    }
    job.not_before = now + RetryAfter(status).value_or(
                               absl::Milliseconds(20 << std::min(job.attempts + job.losses, 5)));
    if (IsRefusal(status.code())) {
      ++counts_.repeated_refused;
      // It has more work from other orchestrators than it last reported, so workers with room come
      // first.
      const bool compile = job.kind == Kind::kCompile;
      const v1::WorkerDescription& told = worker.view.description;
      (compile ? worker.others_compiles : worker.others_measures) =
          compile ? told.compile_credits() : told.measure_credits();
      worker.next_describe = std::min(worker.next_describe, now + kDescribeAgain);
      return false;
    }
    job.failed_on.insert(worker.number);
    // A server that shuts down cancels calls that arrive at that moment.
    const bool lost = call.given_up || status.code() == absl::StatusCode::kUnavailable ||
                      status.code() == absl::StatusCode::kCancelled;
    ++(lost ? job.losses : job.attempts);
    ++(lost ? counts_.repeated_lost : counts_.repeated_failed);
    bool changed = false;
    const bool was_healthy = worker.view.healthy;
    if (lost && was_healthy) {
      Log(LogLevel::kWarning, "worker lost",
          {{"address", worker.view.address}, {"error", std::string(status.message())}});
      MarkUnhealthy(worker, std::string(status.message()));
      worker.next_describe = now + absl::Milliseconds(100);
      changed = true;
    }
    // A lost connection counts as one failure, no matter how many calls it ends.
    if (lost && !was_healthy) return changed;
    worker.record.Add(/*failed=*/true);
    return ConsiderEjecting(worker, status, now) || changed;
  }

  bool ConsiderEjecting(WorkerState& worker, const absl::Status& status, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (worker.removed || worker.record.out(now)) return false;
    size_t out = 0;
    int others_calls = 0, others_failures = 0;
    for (const auto& other : workers_) {
      if (other.get() == &worker) continue;
      if (!other->record.in()) ++out;
      others_calls += other->record.calls();
      others_failures += other->record.failures();
    }
    const bool failed_probe = worker.record.on_probation(now);
    if (!failed_probe) {
      if (2 * (out + 1) > workers_.size()) return false;
      if (!worker.record.Suspicious(options_.outliers, others_calls, others_failures)) return false;
    }
    const absl::Duration pause = worker.record.Eject(options_.outliers, now);
    ++counts_.ejections;
    Log(LogLevel::kWarning, "worker is left out: its calls fail",
        {{"address", worker.view.address},
         {"failed", worker.record.failures()},
         {"of", worker.record.calls()},
         {"seconds", absl::ToDoubleSeconds(pause)},
         {"error", std::string(status.ToString(absl::StatusToStringMode::kWithNoExtraData))}});
    return !failed_probe;
  }

  // Reads the reply. INTERNAL: its content is impossible.
  static absl::Status Read(Call& call) {
    absl::Status status;
    if (call.job->kind == Kind::kCompile) {
      auto compiled = ReadCompileReply(call.compile_reply);
      status = compiled.status();
      if (status.ok()) call.compiled = *std::move(compiled);
    } else {
      auto measured = ReadMeasureReply(call.job->measure_request, call.measure_reply);
      status = measured.status();
      if (status.ok()) call.measured = *std::move(measured);
    }
    if (!status.ok()) {
      Log(LogLevel::kWarning, "a worker's reply is refused",
          {{"address", call.worker->view.address}, {"error", std::string(status.message())}});
    }
    return status;
  }

  static void Answer(Job& job, Call& call, const absl::Status& status) {
    if (!status.ok()) {
      job.Fail(status);
      return;
    }
    if (job.kind == Kind::kMeasure) {
      job.measure_done(std::move(call.measured));
    } else {
      job.compile_done(std::move(call.compiled));
    }
  }

  void MarkUnhealthy(WorkerState& worker, std::string reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    worker.view.healthy = false;
    worker.view.unhealthy_reason = std::move(reason);
    worker.problems.clear();
    discovery_->LookAgain();
  }

  // Deletes a worker that was removed from DNS once it has none of our work.
  void ForgetIfIdle(const WorkerState& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (worker.view.compiles + worker.view.measures > 0 || worker.describe_context != nullptr) {
      return;
    }
    std::erase_if(leaving_, [&](const auto& leaving) { return leaving.get() == &worker; });
  }

  // Ends the calls of a worker that does not answer, so that its work goes to others.
  void GiveUpSilent(WorkerState& worker, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (worker.view.healthy || now - worker.last_answer <= options_.silence_limit) return;
    for (Call* call : calls_) {
      if (call->worker.get() != &worker || call->given_up) continue;
      call->given_up = true;
      call->context.TryCancel();
    }
    worker.compiles_in_batches->CancelAll();
  }

  // Asks every worker for its description in turn, and wakes requests that wait for a point in
  // time.
  void Watch() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const absl::Time now = MonotonicNow();
      std::vector<std::shared_ptr<WorkerState>> due;
      const auto look_at = [&](const std::shared_ptr<WorkerState>& worker) {
        GiveUpSilent(*worker, now);
        if (worker->describe_context != nullptr || worker->next_describe > now) return;
        worker->describe_context = std::make_unique<grpc::ClientContext>();
        worker->describe_context->set_deadline(
            absl::ToChronoTime(absl::Now() + options_.describe_timeout));
        ++describing_;
        due.push_back(worker);
      };
      for (const auto& worker : workers_) look_at(worker);
      std::erase_if(leaving_, [](const auto& worker) {
        return worker->view.compiles + worker->view.measures == 0 &&
               worker->describe_context == nullptr;
      });
      for (const auto& worker : leaving_) look_at(worker);
      lock.unlock();
      for (const auto& worker : due) {
        worker->describe_reply.Clear();
        worker->stub->async()->Describe(
            worker->describe_context.get(), &worker->describe_request, &worker->describe_reply,
            [this, worker](const grpc::Status& status) { OnDescribed(worker, status); });
      }
      lock.lock();
      Dispatch(lock);
      if (stopping_) break;
      wake_.wait_for(lock, std::chrono::milliseconds(queue_.empty() ? 200 : 20));
    }
  }

  // Why a worker that has described itself is not used. Empty: it is used.
  std::string Objection(const WorkerState& worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const v1::WorkerDescription& described = worker.describe_reply;
    const absl::Status version = CheckProtocolVersion(described.protocol_version());
    if (!version.ok()) return std::string(version.message());
    if (std::string why = ImpossibleInDescription(described); !why.empty()) return why;
    // Several addresses may lead to the same worker, for example over IPv4 and IPv6. Its credits
    // count once.
    for (const auto& other : workers_) {
      if (other->number < worker.number && other->view.healthy && !described.worker_id().empty() &&
          other->incarnation == described.worker_id()) {
        return absl::StrCat("is the same worker as ", other->view.address);
      }
    }
    return "";
  }

  void OnDescribed(const std::shared_ptr<WorkerState>& shared, const grpc::Status& status) {
    bool changed = false;
    {
      std::unique_lock lock(mutex_);
      WorkerState& worker = *shared;
      const absl::Time now = MonotonicNow();
      const bool was_healthy = worker.view.healthy;
      const std::string reason_before = worker.view.unhealthy_reason;
      worker.describe_context.reset();
      worker.next_describe = now + options_.describe_interval;
      if (status.ok()) {
        worker.last_answer = now;
        if (const std::string objection = Objection(worker); !objection.empty()) {
          worker.view.description = worker.describe_reply;
          worker.view.healthy = false;
          worker.view.unhealthy_reason = objection;
          worker.problems.clear();
          changed = was_healthy;
        } else {
          changed = Accept(worker);
        }
      } else if (!stopping_) {
        MarkUnhealthy(worker, status.error_message());
        worker.next_describe = now + kDescribeAgain;
        changed = was_healthy;
      }
      // A worker that was never available is not logged, but one that is refused is.
      if (changed || (status.ok() && worker.view.unhealthy_reason != reason_before)) {
        Log(worker.view.healthy ? LogLevel::kInfo : LogLevel::kWarning,
            worker.view.healthy ? "worker is ready"
            : status.ok()       ? "worker is not used"
                                : "worker does not answer",
            {{"address", worker.view.address}, {"reason", worker.view.unhealthy_reason}});
      }
      if (!stopping_) Dispatch(lock);
    }
    if (changed) on_change_();
    std::lock_guard lock(mutex_);
    if (--describing_ == 0) idle_.notify_all();
  }

  static size_t SlotsIn(const v1::WorkerDescription& description) {
    size_t slots = 0;
    for (const auto& target : description.targets()) slots += MeasuringDevices(target).size();
    return slots;
  }

  // Stores the worker's description. Returns whether capacity has changed.
  bool Accept(WorkerState& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const v1::WorkerDescription& told = worker.describe_reply;
    const bool restarted = worker.incarnation != told.worker_id();
    if (restarted) {
      worker.incarnation = told.worker_id();
      worker.problems.clear();
      worker.record = OutlierDetector();
    }
    const v1::WorkerDescription& known = worker.view.description;
    const bool changed = !worker.view.healthy || restarted ||
                         known.compile_credits() != told.compile_credits() ||
                         known.measure_credits() != told.measure_credits() ||
                         known.draining() != told.draining() || SlotsIn(known) != SlotsIn(told);
    worker.view.description = told;
    worker.view.healthy = true;
    worker.view.unhealthy_reason.clear();
    const auto beyond = [](uint32_t all, uint32_t own) { return all > own ? all - own : 0; };
    worker.others_compiles = beyond(told.compiles_in_flight(), worker.view.compiles);
    worker.others_measures = beyond(told.measures_in_flight(), worker.view.measures);
    for (const v1::TargetDescription& described : told.targets()) devices_.Add(described);
    return changed;
  }

  const WorkerPoolOptions options_;
  const std::function<void()> on_change_;
  std::unique_ptr<AddressWatch> discovery_;  // constant from Start to the destructor

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<std::shared_ptr<WorkerState>> workers_ ABSL_GUARDED_BY(mutex_);
  // Removed from DNS, but not finished with their work.
  std::vector<std::shared_ptr<WorkerState>> leaving_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t choices_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::shared_ptr<Job>> queue_ ABSL_GUARDED_BY(mutex_);
  std::set<Call*> calls_ ABSL_GUARDED_BY(mutex_);
  DeviceRegistry devices_ ABSL_GUARDED_BY(mutex_);
  WorkerPoolCounts counts_ ABSL_GUARDED_BY(mutex_);
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

void WorkerPool::Compile(const std::string& request_id, std::shared_ptr<const Problem> problem,
                         const Candidate& candidate, const std::string& device_model,
                         CompileDone done) {
  auto job = std::make_shared<Job>();
  job->request_id = request_id;
  job->kind = Kind::kCompile;
  job->target = candidate.target;
  job->device_model = device_model;
  job->compile_request.set_problem_id(problem->problem_id);
  job->compile_request.set_target(candidate.target);
  *job->compile_request.mutable_candidate() = ToProto(candidate);
  job->problem = std::move(problem);
  job->compile_done = std::move(done);
  impl_->Submit(std::move(job));
}

void WorkerPool::CompileReference(std::shared_ptr<const Problem> problem, const std::string& target,
                                  const std::string& device_model, CompileDone done) {
  auto job = std::make_shared<Job>();
  job->kind = Kind::kCompile;
  job->target = target;
  job->device_model = device_model;
  job->compile_request.set_problem_id(problem->problem_id);
  job->compile_request.set_target(target);
  job->compile_request.set_reference(true);
  job->problem = std::move(problem);
  job->compile_done = std::move(done);
  impl_->Submit(std::move(job));
}

void WorkerPool::Measure(const std::string& request_id, std::shared_ptr<const Problem> problem,
                         const Candidate& candidate, const std::string& device_model,
                         MeasureLevel level, MeasureDone done) {
  auto job = std::make_shared<Job>();
  job->request_id = request_id;
  job->kind = Kind::kMeasure;
  job->target = candidate.target;
  job->device_model = device_model;
  *job->measure_request.mutable_candidate() = ToProto(candidate);
  job->measure_request.set_level(ToProto(level));
  job->problem = std::move(problem);
  job->measure_done = std::move(done);
  impl_->Submit(std::move(job));
}

void WorkerPool::Cancel(const std::vector<std::string>& request_ids) { impl_->Cancel(request_ids); }

Workers::Capacity WorkerPool::CapacityFor(const std::string& target,
                                          const std::string& device_model) const {
  return impl_->CapacityFor(target, device_model);
}

std::string WorkerPool::DeviceModelFor(const std::string& target, const std::string& wanted) const {
  return impl_->DeviceModelFor(target, wanted);
}

std::vector<Workers::Device> WorkerPool::Devices() const { return impl_->Devices(); }

DeviceInfo WorkerPool::DeviceFor(const std::string& target, const std::string& device_model) const {
  return impl_->DeviceFor(target, device_model);
}

std::vector<WorkerView> WorkerPool::View() const { return impl_->View(); }
WorkerPoolCounts WorkerPool::Counts() const { return impl_->Counts(); }
size_t WorkerPool::QueueDepth() const { return impl_->QueueDepth(); }

}  // namespace kernelcast::orchestrator
