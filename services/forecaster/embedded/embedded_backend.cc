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

// A shared model is made anew when there is this much more to learn from.
constexpr double kSharedGrowth = 1.25;
constexpr uint64_t kLeastSharedRows = 8;
// Records that a calibration rests on, the newest of each problem and target.
constexpr size_t kMaxRecords = 256;
constexpr int kTrainerNiceness = 10;
// Labels that are taken in before models are trained.
constexpr size_t kMostAtOnce = 256;
constexpr size_t kFewLabels = 4;
constexpr size_t kManyLabels = 64;
constexpr size_t kMostPauses = 16;
constexpr int64_t kMaxTrainerPauseNs = 5'000'000'000;
// Those who want more are asked to say so again.
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

// The labels of one problem on one target. Training thread only.
struct EmbeddedBackend::Group {
  std::shared_ptr<const ProblemContext> problem;
  std::vector<TrainingRow> rows;
  std::vector<uint64_t> sequences;
  std::vector<PrequentialRecord> records;

  // The model that the next labels are held against has seen the first `checkpoint` labels; it is
  // made when it is first needed.
  size_t checkpoint = 0;
  std::shared_ptr<const ProblemModel> checkpoint_model;

  // The shared model rests on the labels of other problems up to this sequence; likewise.
  uint64_t shared_sequence = 0;
  uint64_t shared_rows = 0;
  std::shared_ptr<const SharedModel> shared;
  bool shared_is_made = false;

  std::shared_ptr<const ProblemModel> serving;
  // Labels that `serving` has not seen, and since when, in labels taken in.
  bool dirty = false;
  uint64_t dirty_since = 0;
};

struct EmbeddedBackend::Snapshot {
  struct Served {
    std::shared_ptr<const ProblemModel> model;
    ScaleCalibration calibration;
  };
  std::map<GroupKey, Served> groups;
  std::map<std::string, std::shared_ptr<const ProblemModel>> cold;  // by target
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
  static const ProblemModel kNothingKnown;
  const ProblemModel* model = &kNothingKnown;
  ScaleCalibration calibration;
  const GroupKey key(input.problem->problem.problem_id, input.candidate.target);
  if (const auto group = snapshot->groups.find(key); group != snapshot->groups.end()) {
    model = group->second.model.get();
    calibration = group->second.calibration;
  } else {
    Want(key);
    const auto cold = snapshot->cold.find(input.candidate.target);
    if (cold != snapshot->cold.end()) model = cold->second.get();
  }
  const CandidateFeatures features =
      MakeFeatures(*input.problem, input.candidate, input.facts, input.reference_facts);
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
  for (const auto& [target, details] : problem->problem.targets) {
    Want({problem->problem.problem_id, target});
  }
}

void EmbeddedBackend::Observe(std::vector<ObservedLabel> labels) {
  std::vector<Pending> pending;
  pending.reserve(labels.size());
  for (ObservedLabel& observed : labels) {
    const Label& label = observed.label;
    Pending& entry = pending.emplace_back();
    entry.key = {observed.problem->problem.problem_id, label.candidate.target};
    entry.sequence = observed.sequence;
    entry.label_id = label.label_id;
    entry.weight = 1 / label.propensity;
    entry.row.features =
        MakeFeatures(*observed.problem, label.candidate, label.facts, label.reference_facts);
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
      counts.problem_id = entry.key.first;
      counts.target = entry.key.second;
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
  // On Linux niceness is a thread's own: forecasts come first.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kTrainerNiceness);
  bool up_to_date = true;
  bool rested = true;
  const Clock& clock = Clock::Real();
  int64_t trained_ns = 0;  // how long it took to be up to date the last time
  size_t known = 0;        // labels of the problem that the latest one is of
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
      // What comes while models are trained waits until they are.
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
  Target& target = targets_[pending.key.second];
  std::unique_ptr<Group>& slot = groups_[pending.key];
  if (slot == nullptr) {
    slot = std::make_unique<Group>();
    slot->problem = pending.problem;
    ChooseSharedLabels(pending.key, *slot, pending.sequence - 1);
  }
  Group& group = *slot;

  // Forecasts from before the first label are not scaled, and tell nothing about how to.
  if (pending.row.log2_speedup.has_value() && !group.rows.empty()) {
    StudentT predicted;
    if (pending.prediction.has_value() && pending.prediction->backend_version == version_) {
      predicted = pending.prediction->log2_speedup;
    } else {
      if (group.checkpoint_model == nullptr) {
        group.checkpoint_model = TrainGroup(pending.key, group, group.checkpoint);
      }
      const TunableEncoder& encoder = group.problem->EncoderFor(pending.key.second);
      predicted = group.checkpoint_model->Predict(encoder, pending.row.features).log2_speedup;
      made.push_back({pending.label_id, version_, predicted});
    }
    if (group.records.size() == kMaxRecords) group.records.erase(group.records.begin());
    group.records.push_back({predicted, *pending.row.log2_speedup, pending.weight});
  }

  if (pending.row.log2_speedup.has_value() && !pending.row.features.shared.empty()) {
    ++target.shared_rows;
    ++target.problem_shared_rows[pending.key.first];
    if (WorthRetraining(target.shared_rows, target.cold_rows)) {
      target.cold_rows = target.shared_rows;
      target.cold_sequence = pending.sequence;
      target.cold_is_due = true;
    }
  }
  group.rows.push_back(std::move(pending.row));
  group.sequences.push_back(pending.sequence);
  if (!group.dirty) group.dirty_since = taken_in_;
  group.dirty = true;
  if (group.rows.size() >= NextCheckpoint(group.checkpoint)) {
    group.checkpoint = group.rows.size();
    group.checkpoint_model = nullptr;
    ChooseSharedLabels(pending.key, group, pending.sequence);
  }
}

void EmbeddedBackend::ChooseSharedLabels(const GroupKey& key, Group& group,
                                         uint64_t up_to_sequence) {
  const Target& target = targets_[key.second];
  const auto own = target.problem_shared_rows.find(key.first);
  const uint64_t rows =
      target.shared_rows - (own == target.problem_shared_rows.end() ? 0 : own->second);
  if (!WorthRetraining(rows, group.shared_rows)) return;
  group.shared_rows = rows;
  group.shared_sequence = up_to_sequence;
  group.shared = nullptr;
  group.shared_is_made = false;
}

std::shared_ptr<const ProblemModel> EmbeddedBackend::TrainGroup(const GroupKey& key, Group& group,
                                                                size_t labels) {
  if (!group.shared_is_made) {
    group.shared = group.shared_rows > 0 ? TrainShared(key.second, key.first, group.shared_sequence)
                                         : PriorModel(key.second);
    group.shared_is_made = true;
  }
  std::vector<const TrainingRow*> rows;
  rows.reserve(labels);
  for (size_t i = 0; i < labels; ++i) rows.push_back(&group.rows[i]);
  ProblemModelOptions model_options = options_.model;
  model_options.seed = DeriveSeed(options_.seed, key.first + "/" + key.second, labels);
  return std::make_shared<const ProblemModel>(ProblemModel::Train(
      group.problem->EncoderFor(key.second), rows, group.shared, model_options));
}

std::shared_ptr<const SharedModel> EmbeddedBackend::TrainShared(const std::string& target,
                                                                const std::string& without_problem,
                                                                uint64_t up_to_sequence) const {
  std::map<std::string, ProblemRows> rows;
  for (const auto& [key, group] : groups_) {
    if (key.second != target || key.first == without_problem) continue;
    rows[key.first].family = group->problem->problem.family;
    for (size_t i = 0; i < group->rows.size() && group->sequences[i] <= up_to_sequence; ++i) {
      rows[key.first].rows.push_back(&group->rows[i]);
    }
  }
  std::shared_ptr<const SharedModel> prior = PriorModel(target);
  if (prior != nullptr && prior->problems() >= rows.size()) return prior;
  absl::StatusOr<SharedModel> model =
      SharedModel::Train(rows, DeriveSeed(options_.seed, target, up_to_sequence));
  if (!model.ok()) {
    if (!absl::IsNotFound(model.status())) {
      Log(LogLevel::kWarning, "training of the shared model failed; it is left out",
          {{"target", target}, {"error", std::string(model.status().message())}});
    }
    return prior;
  }
  return std::make_shared<const SharedModel>(*std::move(model));
}

std::shared_ptr<const SharedModel> EmbeddedBackend::PriorModel(const std::string& target) const {
  const auto found = options_.prior.targets.find(target);
  return found == options_.prior.targets.end() ? nullptr : found->second;
}

bool EmbeddedBackend::TrainOne(const std::set<GroupKey>& wanted) {
  // The group that has waited longest; before any, what problems without labels need.
  const GroupKey* oldest = nullptr;
  Group* group = nullptr;
  for (const GroupKey& key : wanted) {
    const auto found = groups_.find(key);
    if (found == groups_.end()) {
      const auto target = targets_.find(key.second);
      if (target == targets_.end() || !target->second.cold_is_due) continue;
      target->second.cold_is_due = false;
      static const TunableEncoder kNoTunables;
      target->second.cold = std::make_shared<const ProblemModel>(ProblemModel::Train(
          kNoTunables, {}, TrainShared(key.second, "", target->second.cold_sequence),
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
  for (const auto& [target, prior] : options_.prior.targets) {
    static const TunableEncoder kNoTunables;
    snapshot->cold[target] = std::make_shared<const ProblemModel>(
        ProblemModel::Train(kNoTunables, {}, prior, options_.model));
  }
  for (const auto& [name, target] : targets_) {
    if (target.cold != nullptr) snapshot->cold[name] = target.cold;
    // What all problems of a target have in common is where each starts from.
    std::vector<PrequentialRecord> all;
    for (const auto& [key, group] : groups_) {
      if (key.second == name) all.insert(all.end(), group->records.begin(), group->records.end());
    }
    const ScaleCalibration common = FitScale(all);
    for (const auto& [key, group] : groups_) {
      if (key.second != name || group->serving == nullptr) continue;
      snapshot->groups[key] = {group->serving, FitScale(group->records, common)};
    }
  }
  return snapshot;
}

}  // namespace kernelcast::forecaster
