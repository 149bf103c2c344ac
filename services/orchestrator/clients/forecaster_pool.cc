#include "services/orchestrator/clients/forecaster_pool.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "common/base/fnv.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "services/orchestrator/clients/forecaster_calls.h"

namespace kernelcast::orchestrator {
namespace {

// Smaller differences are not significant, because descriptions are seconds old.
constexpr uint64_t kFewLabels = 64;

const ForecasterPeer& AsForecaster(const Peer& peer) {
  return static_cast<const ForecasterPeer&>(peer);
}
ForecasterPeer& AsForecaster(Peer& peer) { return static_cast<ForecasterPeer&>(peer); }

}  // namespace

uint64_t RendezvousWeight(std::string_view key, std::string_view peer) {
  uint64_t hash = FnvHash(peer, FnvHash("/", FnvHash(key)));
  // Spreads differences in a few bits.
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

class ForecasterPool::Impl final : public PeerKind {
 public:
  explicit Impl(const ForecasterPoolOptions& options)
      : options_(options),
        labels_(
            options.labels, [this](const LabelReceiver& receiver) { return IsReady(receiver); },
            [this](const auto& receiver, const auto& problem, LabelDelivery::Labels labels,
                   auto done) {
              return SendLabels(receiver, problem, std::move(labels), std::move(done));
            }),
        pool_(options.peers, this) {}
  ~Impl() override { labels_.Stop(); }

  absl::Status Start() { return pool_.Start(options_.discovery); }

  void Submit(std::shared_ptr<ForecastJob> job) {
    if (const TraceContext* trace = CurrentTrace()) job->trace = *trace;
    job->timeout = options_.forecast_timeout;
    pool_.Submit(std::move(job));
  }

  const ForecasterPoolOptions& options() const { return options_; }
  const PeerPool& pool() const { return pool_; }
  LabelDelivery& labels() { return labels_; }

  std::vector<ForecasterView> View() const {
    Peers known;
    std::vector<ForecasterView> views = pool_.WithPeers([&](const Peers& peers) {
      known = peers;
      return ViewOf(peers);
    });
    for (size_t i = 0; i < known.size(); ++i) {
      views[i].pending_labels = labels_.Pending(AsForecaster(*known[i]));
    }
    return views;
  }

  std::string_view noun() const override { return "forecaster"; }
  bool asks_unavailable() const override { return true; }

  absl::StatusOr<std::shared_ptr<Peer>> Connect(const PeerAddress& address) override {
    ChannelOptions channel_options = options_.channel;
    channel_options.authority = address.authority;
    KC_ASSIGN_OR_RETURN(const auto channel, MakeChannel(address.address, channel_options));
    return std::make_shared<ForecasterPeer>(address.address, channel);
  }

  Report ReportOf(const Peer& peer) const override {
    const v1::ForecasterDescription& reported = AsForecaster(peer).reported;
    return {reported.forecaster_id(), reported.protocol_version(), reported.draining()};
  }
  std::string Objection(const Peer&, const Peers&) const override { return ""; }
  bool Keep(Peer& peer, bool) override {
    AsForecaster(peer).description = AsForecaster(peer).reported;
    return false;
  }

  // All have room. The best is the first by rendezvous hash that knows as much as the others.
  std::optional<Fit> FitFor(const Peer& peer, const PeerJob& job,
                            const Peers& peers) const override {
    const std::string& key = static_cast<const ForecastJob&>(job).key;
    return Fit{.free = 1,
               .tier = IsBehind(peer, MostLabels(peers)) ? 0 : 1,
               .score = static_cast<double>(RendezvousWeight(key, peer.address))};
  }

  void Prepare(const Peer& peer, PeerJob& some_job) const override {
    if (some_job.lane != kForecastLane) return;
    auto& job = static_cast<ForecastJob&>(some_job);
    job.sends_anchor = AsForecaster(peer).description.uses_anchors() && job.anchor != nullptr;
  }

  // Every failed call counts: a candidate is decided without a forecast rather than kept waiting.
  std::optional<absl::Duration> RetryIn(Peer& peer, PeerJob& job, CallEnd end,
                                        std::optional<absl::Duration> hint,
                                        const Peers& peers) override {
    if (end != CallEnd::kContentUnknown) job.failed_on.insert(peer.number);
    if (job.failures >= std::max(options_.max_attempts, static_cast<int>(peers.size()) + 1)) {
      return std::nullopt;
    }
    const bool other = std::ranges::any_of(peers, [&](const auto& candidate) {
      return candidate->available() && !job.failed_on.contains(candidate->number);
    });
    if (other) return absl::ZeroDuration();
    return hint.value_or(absl::Milliseconds(50 << (2 * std::min(job.failures, 3))));
  }

  void OnPeersChanged(const Peers& added, const Peers& removed) override {
    const auto receivers = [](const Peers& peers) {
      LabelDelivery::Receivers list;
      for (const auto& peer : peers) list.push_back(std::static_pointer_cast<ForecasterPeer>(peer));
      return list;
    };
    labels_.Change(receivers(added), receivers(removed));
  }
  void OnDescribed(const std::shared_ptr<Peer>& peer) override {
    const bool up_to_date = pool_.WithPeers([&](const Peers& peers) {
      return AsForecaster(*peer).description.labels() >= MostLabels(peers);
    });
    labels_.Resume(std::static_pointer_cast<ForecasterPeer>(peer), up_to_date);
  }
  void OnCapacityChanged() override {}
  void OnPoll() override { labels_.Poll(); }

 private:
  // Called with the pool's lock held, as are the next two.
  static uint64_t MostLabels(const Peers& peers) {
    uint64_t most = 0;
    for (const auto& peer : peers) {
      if (peer->healthy) most = std::max(most, AsForecaster(*peer).description.labels());
    }
    return most;
  }
  static bool IsBehind(const Peer& peer, uint64_t most) {
    const ForecasterPeer& forecaster = AsForecaster(peer);
    const uint64_t labels = forecaster.description.labels();
    return labels < most && (forecaster.missed_labels() || 2 * labels + kFewLabels < most);
  }
  static std::vector<ForecasterView> ViewOf(const Peers& peers) {
    std::vector<ForecasterView> views;
    const uint64_t most = MostLabels(peers);
    for (const auto& peer : peers) {
      const v1::ForecasterDescription& described = AsForecaster(*peer).description;
      ForecasterView& view = views.emplace_back();
      view.address = peer->address;
      view.healthy = peer->healthy;
      view.unhealthy_reason = peer->unhealthy_reason;
      view.ejected = !peer->record.in();
      view.draining = peer->draining;
      view.name = described.forecaster_id();
      view.labels = described.labels();
      view.behind = IsBehind(*peer, most);
      if (described.backends_size() > 0 && described.backends(0).has_model_use()) {
        view.model_use = described.backends(0).model_use();
      }
    }
    return views;
  }

  // Labels go to every forecaster. The next two are called by the delivery.
  bool IsReady(const LabelReceiver& receiver) const {
    return pool_.WithPeers(
        [&](const Peers&) { return static_cast<const ForecasterPeer&>(receiver).available(); });
  }
  bool SendLabels(const std::shared_ptr<LabelReceiver>& receiver,
                  const std::shared_ptr<const Problem>& problem, LabelDelivery::Labels labels,
                  std::function<void(const absl::Status&)> done) {
    auto job = std::make_shared<ObserveJob>();
    job->problem = problem;
    job->timeout = options_.observe_timeout;
    job->labels = std::move(labels);
    job->done = std::move(done);
    return pool_.SendTo(std::static_pointer_cast<ForecasterPeer>(receiver), std::move(job));
  }

  const ForecasterPoolOptions options_;
  LabelDelivery labels_;
  PeerPool pool_;  // last: its calls use the members above
};

ForecasterPool::ForecasterPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ForecasterPool::~ForecasterPool() = default;

absl::StatusOr<std::unique_ptr<ForecasterPool>> ForecasterPool::Create(
    ForecasterPoolOptions options) {
  auto impl = std::make_unique<Impl>(options);
  KC_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<ForecasterPool>(new ForecasterPool(std::move(impl)));
}

void ForecasterPool::Forecast(std::shared_ptr<const Problem> problem, ForecastQuery query,
                              ForecastDone done) {
  auto job = std::make_shared<ForecastJob>();
  job->problem = std::move(problem);
  job->key = query.search_id.empty() ? query.candidate.candidate_id : query.search_id;
  v1::ForecastRequest& request = job->request;
  *request.mutable_facts() = kernelcast::ToProto(query.facts);
  *request.mutable_reference_facts() = kernelcast::ToProto(query.reference_facts);
  request.set_search_id(query.search_id);
  request.set_max_search_tokens(query.max_search_tokens);
  request.set_again(query.again);
  request.set_impatient(query.impatient);
  job->anchor = std::move(query.anchor);
  if (const auto& device_for = impl_->options().device_for) {
    *request.mutable_device() =
        kernelcast::ToProto(device_for(query.candidate.target, query.device_model));
  } else {
    request.mutable_device()->set_model(query.device_model);
  }
  job->candidate = std::move(query.candidate);
  job->done = std::move(done);
  impl_->Submit(std::move(job));
}

void ForecasterPool::ForecastAll(std::shared_ptr<const Problem> problem,
                                 std::vector<ForecastQuery> queries, ForecastAllDone done) {
  // Shared by the calls of the batch. The last one to finish delivers the results.
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
    Forecast(problem, std::move(queries[i]), [batch, i](absl::StatusOr<ForecastResult> result) {
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

void ForecasterPool::Observe(std::shared_ptr<const Problem> problem, std::vector<Label> labels,
                             ObserveDone done) {
  impl_->labels().Offer(problem, std::move(labels), std::move(done));
}

std::vector<ForecasterView> ForecasterPool::View() const { return impl_->View(); }
PeerCounts ForecasterPool::Counts() const { return impl_->pool().Counts(); }

}  // namespace kernelcast::orchestrator
