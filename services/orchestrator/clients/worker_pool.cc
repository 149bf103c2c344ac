#include "services/orchestrator/clients/worker_pool.h"

#include <algorithm>
#include <utility>

#include "common/base/id.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/rpc/protocol_version.h"
#include "services/orchestrator/clients/worker_calls.h"
#include "services/orchestrator/clients/worker_devices.h"
#include "services/orchestrator/clients/worker_replies.h"

namespace kernelcast::orchestrator {
namespace {

const WorkerPeer& AsWorker(const Peer& peer) { return static_cast<const WorkerPeer&>(peer); }
WorkerPeer& AsWorker(Peer& peer) { return static_cast<WorkerPeer&>(peer); }

const v1::TargetDescription* FindTarget(const Peer& peer, const std::string& target) {
  for (const v1::TargetDescription& described : AsWorker(peer).description.targets()) {
    if (described.target() == target) return &described;
  }
  return nullptr;
}

uint32_t CreditsOf(const v1::WorkerDescription& description, int lane) {
  return lane == kCompileLane ? description.compile_credits() : description.measure_credits();
}

std::shared_ptr<CompileJob> NewCompile(std::shared_ptr<const Problem> problem,
                                       const std::string& target, const std::string& device_model,
                                       Workers::CompileDone done) {
  auto job = std::make_shared<CompileJob>();
  job->target = target;
  job->device_model = device_model;
  job->request.set_request_id(RandomId("r_"));
  job->request.set_problem_id(problem->problem_id);
  job->request.set_target(target);
  job->problem = std::move(problem);
  job->done = std::move(done);
  return job;
}

size_t SlotsIn(const v1::WorkerDescription& description) {
  size_t slots = 0;
  for (const auto& target : description.targets()) slots += CountDevices(target, "");
  return slots;
}

}  // namespace

class WorkerPool::Impl final : public PeerKind {
 public:
  Impl(const WorkerPoolOptions& options, std::function<void()> on_change)
      : options_(options),
        on_change_(std::move(on_change)),
        devices_(options.gpu_model),
        pool_(options.peers, this) {}

  absl::Status Start() { return pool_.Start(options_.discovery); }

  void Submit(std::shared_ptr<WorkerJob> job) {
    if (const TraceContext* trace = CurrentTrace()) {
      job->trace = *trace;
      job->waiting = StartSpan("kernelcast.queue", SpanKind::kInternal, trace);
    }
    job->timeout = job->lane == kCompileLane ? options_.compile_timeout : options_.measure_timeout;
    pool_.Submit(std::move(job));
  }

  PeerPool& pool() { return pool_; }

  Workers::Capacity CapacityFor(const std::string& target, const std::string& model) const {
    return pool_.WithPeers([&](const Peers& peers) { return CapacityOf(peers, target, model); });
  }
  std::string DeviceModelFor(const std::string& target, const std::string& wanted) {
    return pool_.WithPeers(
        [&](const Peers& peers) { return devices_.Choose(target, wanted, SlotsOf(peers)); });
  }
  std::vector<Workers::Device> Devices() const {
    return pool_.WithPeers([&](const Peers& peers) { return devices_.List(SlotsOf(peers)); });
  }
  DeviceInfo DeviceFor(const std::string& target, const std::string& model) const {
    return pool_.WithPeers([&](const Peers&) { return devices_.Info(target, model); });
  }
  std::vector<WorkerView> View() const {
    return pool_.WithPeers([](const Peers& peers) {
      std::vector<WorkerView> views;
      for (const auto& peer : peers) {
        WorkerView& view = views.emplace_back();
        view.address = peer->address;
        view.healthy = peer->healthy;
        view.unhealthy_reason = peer->unhealthy_reason;
        view.ejected = !peer->record.in();
        view.description = AsWorker(*peer).description;
        view.description.set_draining(peer->draining);
      }
      return views;
    });
  }

  std::string_view noun() const override { return "worker"; }
  bool asks_unavailable() const override { return false; }

  absl::StatusOr<std::shared_ptr<Peer>> Connect(const PeerAddress& address) override {
    ChannelOptions channel_options = options_.channel;
    channel_options.authority = address.authority;
    KC_ASSIGN_OR_RETURN(const auto channel, MakeChannel(address.address, channel_options));
    return std::make_shared<WorkerPeer>(address.address, channel);
  }

  Report ReportOf(const Peer& peer) const override {
    const v1::WorkerDescription& reported = AsWorker(peer).reported;
    return {reported.worker_id(), reported.protocol_version(), reported.draining()};
  }

  std::string Objection(const Peer& peer, const Peers& peers) const override {
    const v1::WorkerDescription& reported = AsWorker(peer).reported;
    if (std::string why = ImpossibleInDescription(reported); !why.empty()) return why;
    // Several addresses may lead to the same worker, for example over IPv4 and IPv6. Its credits
    // count once.
    for (const auto& other : peers) {
      if (other->number < peer.number && other->healthy && !reported.worker_id().empty() &&
          AsWorker(*other).description.worker_id() == reported.worker_id()) {
        return absl::StrCat("is the same worker as ", other->address);
      }
    }
    return "";
  }

  bool Keep(Peer& peer, bool accepted) override {
    WorkerPeer& worker = AsWorker(peer);
    const v1::WorkerDescription& reported = worker.reported;
    const v1::WorkerDescription& known = worker.description;
    const bool changed = known.compile_credits() != reported.compile_credits() ||
                         known.measure_credits() != reported.measure_credits() ||
                         SlotsIn(known) != SlotsIn(reported);
    worker.description = reported;
    if (!accepted) return false;
    const auto beyond = [](uint32_t all, uint32_t own) { return all > own ? all - own : 0; };
    worker.others_in_flight[kCompileLane] =
        beyond(reported.compiles_in_flight(), worker.in_flight[kCompileLane]);
    worker.others_in_flight[kMeasureLane] =
        beyond(reported.measures_in_flight(), worker.in_flight[kMeasureLane]);
    for (const v1::TargetDescription& described : reported.targets()) devices_.Add(described);
    return changed;
  }

  // Credits that this pool may still use, and the share of all credits that nobody uses.
  std::optional<Fit> FitFor(const Peer& peer, const PeerJob& some_job,
                            const Peers&) const override {
    const auto& job = static_cast<const WorkerJob&>(some_job);
    if (!Serves(peer, job.target, job.device_model, job.lane)) return std::nullopt;
    const WorkerPeer& worker = AsWorker(peer);
    const int64_t credits = CreditsOf(worker.description, job.lane);
    const int64_t free = credits - worker.in_flight[job.lane];
    if (credits == 0) return Fit();
    // The use by others is seconds old: it is good enough to compare workers, but not to rule one
    // out.
    const int64_t unused = free - worker.others_in_flight[job.lane];
    return Fit{.free = free,
               .tier = worker.record.in() ? 0 : 1,  // probes come first
               .score = static_cast<double>(unused) / static_cast<double>(credits)};
  }

  // Names no device to a worker that measures and describes no devices. One that only compiles for
  // GPUs simulates each model of its architecture.
  void Prepare(const Peer& peer, PeerJob& some_job) const override {
    auto& job = static_cast<WorkerJob&>(some_job);
    const v1::TargetDescription* const described = FindTarget(peer, job.target);
    const bool has_device =
        described != nullptr &&
        std::ranges::any_of(described->devices(), [&](const v1::TargetDevice& device) {
          return device.device().model() == job.device_model;
        });
    const bool only_compiles = described != nullptr && job.lane == kCompileLane &&
                               job.target == kCudaTargetName && !described->can_measure() &&
                               AsWorker(peer).description.protocol_version() == kProtocolVersion;
    job.NameDevice(has_device || only_compiles ? job.device_model : "");
  }

  std::optional<absl::Duration> RetryIn(Peer& peer, PeerJob& job, CallEnd end,
                                        std::optional<absl::Duration> hint, const Peers&) override {
    int failed_before = job.attempts + job.losses;
    switch (end) {
      case CallEnd::kHandedBack: return absl::ZeroDuration();
      case CallEnd::kContentUnknown:
        if (job.attempts > 2 * options_.max_attempts) return std::nullopt;
        return absl::ZeroDuration();
      case CallEnd::kRefused:
        // It has more work from other orchestrators than it last reported, so workers with room
        // come first.
        AsWorker(peer).others_in_flight[job.lane] = CreditsOf(AsWorker(peer).description, job.lane);
        break;
      default:
        if (job.attempts >= options_.max_attempts || job.losses >= options_.max_losses) {
          return std::nullopt;
        }
        --failed_before;
    }
    return hint.value_or(absl::Milliseconds(20 << std::min(failed_before, 5)));
  }

  void OnPeersChanged(const Peers&, const Peers&) override {}
  void OnDescribed(const std::shared_ptr<Peer>&) override {}
  void OnCapacityChanged() override { on_change_(); }
  void OnPoll() override {}

 private:
  // Number of the worker's devices of a model, or of any model if `model` is empty.
  static uint32_t DevicesOf(const Peer& peer, const std::string& target, const std::string& model) {
    const v1::TargetDescription* const described = FindTarget(peer, target);
    return described == nullptr ? 0 : CountDevices(*described, model);
  }

  // Called with the pool's lock held, as are the next two.
  bool Serves(const Peer& peer, const std::string& target, const std::string& model,
              int lane) const {
    const v1::TargetDescription* const described = FindTarget(peer, target);
    if (described == nullptr) return false;
    const bool has_device = CountDevices(*described, model) > 0;
    if (lane == kMeasureLane) return has_device;
    if (!described->can_compile()) return false;
    if (has_device || model.empty()) return true;
    // A compile for another architecture has different facts, and its result may not run.
    if (CountDevices(*described, "") > 0) return false;
    const std::string architecture = devices_.Architecture(target, model);
    return target != kCudaTargetName || architecture.empty() ||
           described->architecture() == architecture;
  }

  Workers::Capacity CapacityOf(const Peers& peers, const std::string& target,
                               const std::string& model) const {
    // Ejected workers count only if there are no others, because they are used then.
    Workers::Capacity capacity, ejected;
    for (const auto& peer : peers) {
      if (!peer->available()) continue;
      Workers::Capacity& sum = peer->record.in() ? capacity : ejected;
      if (Serves(*peer, target, model, kCompileLane)) {
        sum.compile_credits += AsWorker(*peer).description.compile_credits();
      }
      // Credits include queued work; a device runs one measurement at a time.
      sum.measure_slots += DevicesOf(*peer, target, model);
    }
    if (capacity.compile_credits == 0) capacity.compile_credits = ejected.compile_credits;
    if (capacity.measure_slots == 0) capacity.measure_slots = ejected.measure_slots;
    return capacity;
  }

  DeviceRegistry::Slots SlotsOf(const Peers& peers) const {
    return [this, &peers](const std::string& target, const std::string& model) {
      return CapacityOf(peers, target, model).measure_slots;
    };
  }

  const WorkerPoolOptions options_;
  const std::function<void()> on_change_;
  DeviceRegistry devices_;  // protected by the pool's lock
  PeerPool pool_;           // last: its calls use the members above
};

WorkerPool::WorkerPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerPool::~WorkerPool() = default;

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Create(WorkerPoolOptions options,
                                                               std::function<void()> on_change) {
  auto impl = std::make_unique<Impl>(options, std::move(on_change));
  KC_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<WorkerPool>(new WorkerPool(std::move(impl)));
}

void WorkerPool::Compile(const std::string& request_id, std::shared_ptr<const Problem> problem,
                         Candidate candidate, const std::string& device_model, CompileDone done) {
  auto job = NewCompile(std::move(problem), candidate.target, device_model, std::move(done));
  job->request_id = request_id;
  job->candidate = std::move(candidate);
  impl_->Submit(std::move(job));
}

void WorkerPool::CompileReference(std::shared_ptr<const Problem> problem, const std::string& target,
                                  const std::string& device_model, CompileDone done) {
  auto job = NewCompile(std::move(problem), target, device_model, std::move(done));
  job->request.set_reference(true);
  impl_->Submit(std::move(job));
}

void WorkerPool::Measure(const std::string& request_id, std::shared_ptr<const Problem> problem,
                         Candidate candidate, const std::string& device_model, MeasureSpec spec,
                         bool profile, MeasureDone done) {
  auto job = std::make_shared<MeasureJob>();
  job->request_id = request_id;
  job->target = candidate.target;
  job->device_model = device_model;
  job->request.set_request_id(RandomId("r_"));
  job->request.mutable_candidate()->set_candidate_id(candidate.candidate_id);
  job->request.mutable_candidate()->set_problem_id(candidate.problem_id);
  job->request.mutable_candidate()->set_target(candidate.target);
  job->candidate = std::move(candidate);
  job->request.set_level(ToProto(spec.level));
  job->request.set_stop_below(spec.stop_below);
  job->request.set_want_hardware_counters(profile);
  job->problem = std::move(problem);
  job->done = std::move(done);
  impl_->Submit(std::move(job));
}

void WorkerPool::Cancel(const std::vector<std::string>& request_ids) {
  impl_->pool().Cancel(request_ids);
}

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
PeerCounts WorkerPool::Counts() const { return impl_->pool().Counts(); }
size_t WorkerPool::QueueDepth() const { return impl_->pool().QueueDepth(); }

}  // namespace kernelcast::orchestrator
