#include "services/forecaster/embedded/embedded_backend.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

// A shared model is retrained when the usable labels have grown by this factor.
constexpr double kSharedGrowth = 1.25;
constexpr uint64_t kLeastSharedRows = 8;
// Maximum records per problem and target used for calibration, newest first.
constexpr size_t kMaxRecords = 256;
// With 10, training that needs one second has taken minutes on two cores with five busy processes.
constexpr int kTrainerNiceness = 5;
// Maximum number of labels handled before models are trained.
constexpr size_t kMostAtOnce = 256;
constexpr size_t kFewLabels = 4;
constexpr size_t kManyLabels = 64;
constexpr size_t kMostPauses = 16;
constexpr int64_t kMaxTrainerPauseNs = 5'000'000'000;
// Further requests are dropped and must be repeated.
constexpr size_t kMaxWanted = 4096;

size_t NextCheckpoint(size_t labels) { return labels + std::max<size_t>(1, labels / 9); }

bool WorthRetraining(uint64_t rows_now, uint64_t rows_then) {
  return rows_now >= kLeastSharedRows &&
         static_cast<double>(rows_now) >= kSharedGrowth * static_cast<double>(rows_then);
}

}  // namespace

struct EmbeddedBackend::Pending {
  GroupKey key;
  std::shared_ptr<const ProblemContext> problem;
  uint64_t sequence = 0;
  std::string label_id;
  double weight = 1;
  TrainingRow row;
  bool replayed = false;
  std::optional<StoredPrediction> prediction;
};

// The labels of one problem on one device model. Used by the training thread only.
struct EmbeddedBackend::Group {
  std::shared_ptr<const ProblemContext> problem;
  std::string device_model;
  std::vector<TrainingRow> rows;
  std::vector<uint64_t> sequences;
  std::vector<PrequentialRecord> records;

  // The model that scores the next labels has seen the first `checkpoint` labels. It is trained
  // when first needed.
  size_t checkpoint = 0;
  std::shared_ptr<const ProblemModel> checkpoint_model;

  // The shared model uses labels of other problems up to this sequence. Also trained when first
  // needed.
  uint64_t shared_sequence = 0;
  uint64_t shared_rows = 0;
  std::shared_ptr<const SharedModel> shared;
  bool shared_is_made = false;

  std::shared_ptr<const ProblemModel> serving;
  // Whether there are labels that `serving` has not seen, and since when, counted in labels
  // handled.
  bool dirty = false;
  uint64_t dirty_since = 0;
};

struct EmbeddedBackend::Snapshot {
  struct Served {
    std::shared_ptr<const ProblemModel> model;
    ScaleCalibration calibration;
  };
  std::map<GroupKey, Served> groups;
  std::map<ScopeKey, std::shared_ptr<const ProblemModel>> cold;
  std::map<std::string, std::shared_ptr<const ProblemModel>> cold_for_others;  // by target
};

EmbeddedBackend::EmbeddedBackend(EmbeddedOptions options)
    : options_(std::move(options)),
      version_(options_.prior.id.empty() ? std::string(kVersion)
                                         : std::string(kVersion) + "+" + options_.prior.id),
      snapshot_(MakeSnapshot()),
      trainer_([this] { TrainingLoop(); }) {}

EmbeddedBackend::~EmbeddedBackend() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  trainer_.join();
}

void EmbeddedBackend::Forecast(ForecastInput input, const ForecastCall&, Done done) {
  done(ForecastNow(input));
}

kernelcast::Forecast EmbeddedBackend::ForecastNow(const ForecastInput& input) const {
  std::shared_ptr<const Snapshot> snapshot;
  {
    std::lock_guard lock(mutex_);
    snapshot = snapshot_;
  }
  static const ProblemModel kNothingKnown =
      ProblemModel::Train(TunableEncoder(), {}, nullptr, ProblemModelOptions());
  const ProblemModel* model = &kNothingKnown;
  ScaleCalibration calibration;
  const GroupKey key{input.problem->problem.problem_id,
                     {input.candidate.target, input.device_model}};
  if (const auto group = snapshot->groups.find(key); group != snapshot->groups.end()) {
    model = group->second.model.get();
    calibration = group->second.calibration;
  } else {
    Want(key);
    const auto cold = snapshot->cold.find(key.scope);
    const auto other = snapshot->cold_for_others.find(input.candidate.target);
    if (cold != snapshot->cold.end()) {
      model = cold->second.get();
    } else if (other != snapshot->cold_for_others.end()) {
      model = other->second.get();
    }
  }
  const CandidateFeatures features = MakeFeatures(*input.problem, input.candidate, input.facts,
                                                  input.reference_facts, input.device_model);
  const ProblemModel::Prediction prediction =
      model->Predict(input.problem->EncoderFor(input.candidate.target), features);

  StudentT distribution = prediction.log2_speedup;
  distribution.scale *= calibration.multiplier;
  distribution.location -= std::log2(input.baseline_speedup);

  kernelcast::Forecast forecast;
  forecast.candidate_id = input.candidate.candidate_id;
  forecast.bin_scheme_id = input.bin_scheme->id();
  forecast.bin_probabilities =
      BinsFromStudentT(*input.bin_scheme, distribution.location, distribution.scale,
                       distribution.degrees_of_freedom);
  forecast.failure_probability = prediction.failure_probability;
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.expected_log2_speedup = distribution.location;
  forecast.stddev_log2_speedup = StandardDeviation(distribution);
  forecast.baseline_candidate_id = input.baseline_candidate_id;
  forecast.backend = kName;
  forecast.backend_version = version_;
  forecast.calibrator_version = model->labels() > 0 ? calibration.version() : "none";
  forecast.labels_seen = model->labels();
  forecast.device_model = input.device_model;
  forecast.basis = prediction.basis;
  forecast.evidence_id = EvidenceId(features);
  return forecast;
}

void EmbeddedBackend::Want(const GroupKey& key) const {
  {
    std::lock_guard lock(mutex_);
    if (wanted_.size() >= kMaxWanted) wanted_.clear();
    if (!wanted_.insert(key).second) return;
    more_wanted_ = true;
  }
  changed_.notify_all();
}

void EmbeddedBackend::Prepare(const std::shared_ptr<const ProblemContext>& problem) {
  // For device models with labels of any problem. Others become wanted by their first forecast.
  std::set<GroupKey> keys;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, counts] : counts_) {
      if (!problem->problem.targets.contains(key.scope.first)) continue;
      keys.insert({problem->problem.problem_id, key.scope});
    }
  }
  for (const GroupKey& key : keys) Want(key);
}

void EmbeddedBackend::Observe(std::vector<ObservedLabel> labels) {
  std::vector<Pending> pending;
  pending.reserve(labels.size());
  for (ObservedLabel& observed : labels) {
    const Label& label = observed.label;
    Pending& entry = pending.emplace_back();
    entry.key = {observed.problem->problem.problem_id,
                 {label.candidate.target, label.device_model}};
    entry.sequence = observed.sequence;
    entry.label_id = label.label_id;
    entry.weight = 1 / label.propensity;
    entry.row.features = MakeFeatures(*observed.problem, label.candidate, label.facts,
                                      label.reference_facts, label.device_model);
    if (const auto* speedup = std::get_if<Ratio>(&label.truth)) {
      entry.row.log2_speedup = std::log2(speedup->value);
    } else {
      entry.row.compile_error = std::get<FailureKind>(label.truth) == FailureKind::kCompileError;
    }
    entry.replayed = observed.replayed;
    entry.prediction = std::move(observed.prediction);
    entry.problem = std::move(observed.problem);
  }
  {
    std::lock_guard lock(mutex_);
    for (Pending& entry : pending) {
      TargetLabels& counts = counts_[entry.key];
      counts.problem_id = entry.key.problem_id;
      counts.target = entry.key.scope.first;
      counts.device_model = entry.key.scope.second;
      ++counts.labels;
      if (!entry.row.log2_speedup.has_value()) ++counts.failures;
      if (!entry.replayed) wanted_.insert(entry.key);
      queue_.push_back(std::move(entry));
      ++observed_;
    }
  }
  changed_.notify_all();
}

BackendDescription EmbeddedBackend::Describe() const {
  BackendDescription description;
  description.name = kName;
  description.version = version_;
  std::lock_guard lock(mutex_);
  for (const auto& [key, counts] : counts_) description.labels.push_back(counts);
  return description;
}

size_t EmbeddedBackend::PausesAfterTraining(size_t came, size_t known) {
  const size_t not_learnt = came > kFewLabels ? came - kFewLabels : 0;
  return std::min(std::max(not_learnt, known / kManyLabels), kMostPauses);
}

void EmbeddedBackend::WaitUntilTrained() const {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = observed_;
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return (served_ >= wanted && !more_wanted_) || stop_; });
  --waiting_;
}

void EmbeddedBackend::TrainingLoop() {
  // On Linux niceness is per thread. Forecasts have priority.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kTrainerNiceness);
  bool up_to_date = true;
  bool rested = true;
  const Clock& clock = Clock::Real();
  int64_t trained_ns = 0;  // duration of the last training
  size_t known = 0;        // number of labels of the latest label's problem
  for (;;) {
    std::deque<Pending> batch;
    std::set<GroupKey> wanted;
    {
      std::unique_lock lock(mutex_);
      if (up_to_date && !rested) {
        const auto pauses = static_cast<int64_t>(PausesAfterTraining(queue_.size(), known));
        const auto pause =
            std::chrono::nanoseconds(std::min(pauses * trained_ns, kMaxTrainerPauseNs));
        changed_.wait_for(lock, pause, [&] { return stop_ || waiting_ > 0 || more_wanted_; });
        trained_ns = 0;
        rested = true;
      }
      changed_.wait(lock, [&] { return stop_ || !queue_.empty() || more_wanted_ || !up_to_date; });
      if (stop_) return;
      // Labels that arrive during training wait until it is done.
      while (up_to_date && !queue_.empty() && batch.size() < kMostAtOnce) {
        batch.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      wanted = wanted_;
    }
    const int64_t start_ns = clock.MonotonicNs();
    std::vector<StoredPrediction> made;
    for (Pending& pending : batch) {
      const GroupKey key = pending.key;
      TakeIn(std::move(pending), made);
      known = groups_[key]->rows.size();
      ++taken_in_;
      std::lock_guard lock(mutex_);
      if (stop_) break;
    }
    if (!made.empty() && options_.keep_predictions) options_.keep_predictions(made);
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
    }
    up_to_date = !TrainOne(wanted);
    if (!up_to_date) rested = false;
    trained_ns += clock.MonotonicNs() - start_ns;
    std::shared_ptr<const Snapshot> snapshot = up_to_date ? nullptr : MakeSnapshot();
    {
      std::lock_guard lock(mutex_);
      if (snapshot != nullptr) snapshot_.swap(snapshot);
      if (!up_to_date) continue;
      served_ = taken_in_;
      more_wanted_ = wanted != wanted_;
    }
    changed_.notify_all();
  }
}

void EmbeddedBackend::TakeIn(Pending pending, std::vector<StoredPrediction>& made) {
  Scope& scope = scopes_[pending.key.scope];
  std::unique_ptr<Group>& slot = groups_[pending.key];
  if (slot == nullptr) {
    slot = std::make_unique<Group>();
    slot->problem = pending.problem;
    slot->device_model = pending.key.scope.second;
    ChooseSharedLabels(pending.key, *slot, pending.sequence - 1);
  }
  Group& group = *slot;

  // Forecasts from before the first label are not scaled and are not used for calibration.
  if (pending.row.log2_speedup.has_value() && !group.rows.empty()) {
    StudentT predicted;
    if (pending.prediction.has_value() && pending.prediction->backend_version == version_) {
      predicted = pending.prediction->log2_speedup;
    } else {
      if (group.checkpoint_model == nullptr) {
        group.checkpoint_model = TrainGroup(pending.key, group, group.checkpoint);
      }
      const TunableEncoder& encoder = group.problem->EncoderFor(pending.key.scope.first);
      predicted = group.checkpoint_model->Predict(encoder, pending.row.features).log2_speedup;
      made.push_back({pending.label_id, version_, predicted});
    }
    if (group.records.size() == kMaxRecords) group.records.erase(group.records.begin());
    group.records.push_back({predicted, *pending.row.log2_speedup, pending.weight});
  }

  if (pending.row.log2_speedup.has_value() && !pending.row.features.shared.empty()) {
    ++scope.shared_rows;
    ++scope.problem_shared_rows[pending.key.problem_id];
    if (WorthRetraining(scope.shared_rows, scope.cold_rows)) {
      scope.cold_rows = scope.shared_rows;
      scope.cold_sequence = pending.sequence;
      scope.cold_is_due = true;
    }
  }
  group.rows.push_back(std::move(pending.row));
  group.sequences.push_back(pending.sequence);
  const auto spoil = [this](Group& spoilt) {
    if (!spoilt.dirty) spoilt.dirty_since = taken_in_;
    spoilt.dirty = true;
  };
  spoil(group);
  // Groups of the same problem on other device models learn from it too.
  for (auto sibling = groups_.lower_bound({pending.key.problem_id, {pending.key.scope.first, ""}});
       sibling != groups_.end() && sibling->first.problem_id == pending.key.problem_id &&
       sibling->first.scope.first == pending.key.scope.first;
       ++sibling) {
    if (sibling->second.get() == &group) continue;
    spoil(*sibling->second);
    if (sibling->second->checkpoint == sibling->second->rows.size()) {
      sibling->second->checkpoint_model = nullptr;
    }
  }
  if (group.rows.size() >= NextCheckpoint(group.checkpoint)) {
    group.checkpoint = group.rows.size();
    group.checkpoint_model = nullptr;
    ChooseSharedLabels(pending.key, group, pending.sequence);
  }
}

void EmbeddedBackend::ChooseSharedLabels(const GroupKey& key, Group& group,
                                         uint64_t up_to_sequence) {
  const Scope& scope = scopes_[key.scope];
  const auto own = scope.problem_shared_rows.find(key.problem_id);
  const uint64_t rows =
      scope.shared_rows - (own == scope.problem_shared_rows.end() ? 0 : own->second);
  if (!WorthRetraining(rows, group.shared_rows)) return;
  group.shared_rows = rows;
  group.shared_sequence = up_to_sequence;
  group.shared = nullptr;
  group.shared_is_made = false;
}

EmbeddedBackend::Group* EmbeddedBackend::OtherDevice(const GroupKey& key) const {
  Group* most = nullptr;
  for (auto entry = groups_.lower_bound({key.problem_id, {key.scope.first, ""}});
       entry != groups_.end() && entry->first.problem_id == key.problem_id &&
       entry->first.scope.first == key.scope.first;
       ++entry) {
    if (entry->first == key || entry->second->rows.empty()) continue;
    if (most == nullptr || entry->second->rows.size() > most->rows.size()) {
      most = entry->second.get();
    }
  }
  return most;
}

std::shared_ptr<const ProblemModel> EmbeddedBackend::TrainGroup(const GroupKey& key, Group& group,
                                                                size_t labels) {
  const auto shared_of = [this](const GroupKey& of, Group& owner) {
    if (!owner.shared_is_made) {
      owner.shared = owner.shared_rows > 0
                         ? TrainShared(of.scope, of.problem_id, owner.shared_sequence)
                         : PriorModel(of.scope);
      owner.shared_is_made = true;
    }
    return owner.shared;
  };
  const auto first = [](const Group& of, size_t count) {
    std::vector<const TrainingRow*> rows;
    rows.reserve(count);
    for (size_t i = 0; i < count; ++i) rows.push_back(&of.rows[i]);
    return rows;
  };
  ProblemModelOptions model_options = options_.model;
  model_options.seed = DeriveSeed(options_.seed, key.problem_id + "/" + key.scope.first, labels);
  const TunableEncoder& encoder = group.problem->EncoderFor(key.scope.first);

  std::vector<const TrainingRow*> other_rows;
  ProblemModel::OtherDevice other;
  if (Group* const owner = OtherDevice(key); owner != nullptr) {
    // A prediction must not use labels that came after it.
    size_t count = owner->rows.size();
    if (labels < group.rows.size()) {
      const auto end = std::lower_bound(owner->sequences.begin(), owner->sequences.end(),
                                        group.sequences[labels]);
      count = static_cast<size_t>(end - owner->sequences.begin());
    }
    if (count > 0) {
      other_rows = first(*owner, count);
      const GroupKey owner_key{key.problem_id, {key.scope.first, owner->device_model}};
      other.model = std::make_shared<const ProblemModel>(
          ProblemModel::Train(encoder, other_rows, shared_of(owner_key, *owner), model_options));
      other.rows = other_rows;
    }
  }
  return std::make_shared<const ProblemModel>(ProblemModel::Train(
      encoder, first(group, labels), shared_of(key, group), model_options, std::move(other)));
}

std::shared_ptr<const SharedModel> EmbeddedBackend::TrainShared(const ScopeKey& scope,
                                                                const std::string& without_problem,
                                                                uint64_t up_to_sequence) const {
  std::map<std::string, ProblemRows> rows;
  for (const auto& [key, group] : groups_) {
    if (key.scope != scope || key.problem_id == without_problem || group->rows.empty()) continue;
    ProblemRows& of_problem = rows[key.problem_id];
    of_problem.family = group->problem->problem.family;
    of_problem.encoder = &group->problem->EncoderFor(scope.first);
    for (size_t i = 0; i < group->rows.size() && group->sequences[i] <= up_to_sequence; ++i) {
      of_problem.rows.push_back(&group->rows[i]);
    }
  }
  std::shared_ptr<const SharedModel> prior = PriorModel(scope);
  if (prior != nullptr && prior->problems() >= rows.size()) return prior;
  absl::StatusOr<SharedModel> model =
      SharedModel::Train(rows, DeriveSeed(options_.seed, scope.first, up_to_sequence));
  if (!model.ok()) {
    if (!absl::IsNotFound(model.status())) {
      Log(LogLevel::kWarning, "training of the shared model failed; it is left out",
          {{"target", scope.first},
           {"device_model", scope.second},
           {"error", std::string(model.status().message())}});
    }
    return prior;
  }
  return std::make_shared<const SharedModel>(*std::move(model));
}

bool EmbeddedBackend::TrainOne(const std::set<GroupKey>& wanted) {
  // The group that has waited longest. Before any group: the model for problems without labels.
  const GroupKey* oldest = nullptr;
  Group* group = nullptr;
  for (const GroupKey& key : wanted) {
    auto found = groups_.find(key);
    if (found == groups_.end()) {
      if (const Group* const other = OtherDevice(key); other != nullptr) {
        auto made = std::make_unique<Group>();
        made->problem = other->problem;
        made->device_model = key.scope.second;
        made->dirty = true;
        made->dirty_since = taken_in_;
        ChooseSharedLabels(key, *made, other->sequences.back());
        found = groups_.emplace(key, std::move(made)).first;
      }
    }
    if (found == groups_.end()) {
      const auto scope = scopes_.find(key.scope);
      if (scope == scopes_.end() || !scope->second.cold_is_due) continue;
      scope->second.cold_is_due = false;
      static const TunableEncoder kNoTunables;
      scope->second.cold = std::make_shared<const ProblemModel>(ProblemModel::Train(
          kNoTunables, {}, TrainShared(key.scope, "", scope->second.cold_sequence),
          options_.model));
      return true;
    }
    if (!found->second->dirty) continue;
    if (group == nullptr || found->second->dirty_since < group->dirty_since) {
      oldest = &key;
      group = found->second.get();
    }
  }
  if (group == nullptr) return false;
  group->dirty = false;
  if (group->checkpoint != group->rows.size()) {
    group->serving = TrainGroup(*oldest, *group, group->rows.size());
    return true;
  }
  if (group->checkpoint_model == nullptr) {
    group->checkpoint_model = TrainGroup(*oldest, *group, group->checkpoint);
  }
  group->serving = group->checkpoint_model;
  return true;
}

std::shared_ptr<const EmbeddedBackend::Snapshot> EmbeddedBackend::MakeSnapshot() const {
  auto snapshot = std::make_shared<Snapshot>();
  static const TunableEncoder kNoTunables;
  const auto cold = [this](std::shared_ptr<const SharedModel> prior) {
    return std::make_shared<const ProblemModel>(
        ProblemModel::Train(kNoTunables, {}, std::move(prior), options_.model));
  };
  for (const auto& [key, prior] : options_.prior.models) snapshot->cold[key] = cold(prior);
  for (const auto& [target, prior] : options_.prior.for_others) {
    snapshot->cold_for_others[target] = cold(prior);
  }
  for (const auto& [name, scope] : scopes_) {
    if (scope.cold != nullptr) snapshot->cold[name] = scope.cold;
    // The records of all problems on a device model are the starting point for each of them.
    std::vector<PrequentialRecord> all;
    for (const auto& [key, group] : groups_) {
      if (key.scope == name) all.insert(all.end(), group->records.begin(), group->records.end());
    }
    const ScaleCalibration common = FitScale(all);
    for (const auto& [key, group] : groups_) {
      if (key.scope != name || group->serving == nullptr) continue;
      snapshot->groups[key] = {group->serving, FitScale(group->records, common)};
    }
  }
  return snapshot;
}

}  // namespace kernelcast::forecaster
