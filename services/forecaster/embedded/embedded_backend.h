#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_EMBEDDED_BACKEND_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_EMBEDDED_BACKEND_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "services/forecaster/core/backend.h"
#include "services/forecaster/core/calibration.h"
#include "services/forecaster/embedded/prior.h"
#include "services/forecaster/embedded/problem_model.h"

namespace kernelcast::forecaster {

struct EmbeddedOptions {
  uint64_t seed = 1;
  ProblemModelOptions model;
  // Replaces a shared model while this process has labels of fewer problems than the prior was
  // trained on.
  Prior prior = {};
  // Called on the training thread with predictions to store, so that a restart need not compute
  // them again. May be empty.
  std::function<void(const std::vector<StoredPrediction>&)> keep_predictions;
};

// Forecasts from models trained in this process, which learn from every label.
//
// Labels and models are separate per problem, target and device model. Device models share only two
// things: ProblemModel::OtherDevice uses labels of the same problem from the device model with the
// most labels, and SharedModel::ForOtherDevice uses a prior.
//
// A separate thread handles labels in the order of their sequence. For each label it records the
// prediction from before the label was known, made by the model of the last checkpoint. Checkpoints
// are dense at first and later about a ninth of the labels apart. Calibration uses these
// predictions. Then the thread trains the models that serve, once for all labels that have arrived,
// and only for problems in use: by Prepare, a forecast, or a label that is not replayed. Once all
// labels are handled, forecasts depend only on the labels, their order and the seed.
//
// Forecast reads an immutable snapshot and never waits for training. Until a problem has a model,
// the answer is based on other problems or kPrior, and its labels_seen is 0.
//
// Memory: about 1 KiB per label, never freed.
class EmbeddedBackend final : public Backend {
 public:
  static constexpr std::string_view kName = "embedded";
  // Must change when the same labels would give different forecasts.
  static constexpr std::string_view kVersion =
      "embedded/7+embedded-cpu/1+embedded-cuda/1+embedded-sim/1+embedded-cuda-failures/2";

  explicit EmbeddedBackend(EmbeddedOptions options);
  // Ends training at the next opportunity. Labels not handled yet are dropped.
  ~EmbeddedBackend() override;

  std::string_view name() const override { return kName; }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Prepare(const std::shared_ptr<const ProblemContext>& problem) override;
  void Observe(std::vector<ObservedLabel> labels) override;
  BackendDescription Describe() const override;

  // kVersion, followed by the prior's id if there is one.
  const std::string& version() const { return version_; }

  // Forecasts synchronously.
  kernelcast::Forecast ForecastNow(const ForecastInput& input) const;

  // Blocks until the served models of all problems in use have seen every label observed so far.
  // Training runs without pauses meanwhile.
  void WaitUntilTrained() const;

  // How long the trainer pauses before it learns from further labels, in multiples of the last
  // training time. It pauses if more than a few labels arrived during training, because they arrive
  // faster than it can learn from each, and if it knows many labels, because one more adds little.
  static size_t PausesAfterTraining(size_t came, size_t known);

 private:
  struct Pending;
  struct Group;
  struct Snapshot;
  using ScopeKey = std::pair<std::string, std::string>;  // target, device model
  struct GroupKey {
    std::string problem_id;
    ScopeKey scope;
    friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
  };

  // Common data of all problems on one device model. Used by the training thread only.
  struct Scope {
    // Labels usable by a SharedModel, in total and per problem.
    uint64_t shared_rows = 0;
    std::map<std::string, uint64_t> problem_shared_rows;
    // The model for problems without labels uses the labels up to this sequence. It is trained when
    // first needed.
    uint64_t cold_sequence = 0;
    uint64_t cold_rows = 0;
    bool cold_is_due = false;
    std::shared_ptr<const ProblemModel> cold;
  };

  void Want(const GroupKey& key) const;

  void TrainingLoop();
  void TakeIn(Pending pending, std::vector<StoredPrediction>& made);
  // Trains one model that is wanted and out of date. Returns false if there is none.
  bool TrainOne(const std::set<GroupKey>& wanted);
  // The model of the group's first `labels` labels.
  std::shared_ptr<const ProblemModel> TrainGroup(const GroupKey& key, Group& group, size_t labels);
  // The prior's model, or null.
  std::shared_ptr<const SharedModel> PriorModel(const ScopeKey& scope) const {
    return options_.prior.Find(scope.first, scope.second);
  }
  // The problem's labels on the other device model with the most of them. Null: none.
  Group* OtherDevice(const GroupKey& key) const;
  std::shared_ptr<const SharedModel> TrainShared(const ScopeKey& scope,
                                                 const std::string& without_problem,
                                                 uint64_t up_to_sequence) const;
  void ChooseSharedLabels(const GroupKey& key, Group& group, uint64_t up_to_sequence);
  std::shared_ptr<const Snapshot> MakeSnapshot() const;

  const EmbeddedOptions options_;
  const std::string version_;

  // Used by the training thread only.
  std::map<GroupKey, std::unique_ptr<Group>> groups_;
  std::map<ScopeKey, Scope> scopes_;
  uint64_t taken_in_ = 0;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Protected by mutex_.
  std::deque<Pending> queue_;
  uint64_t observed_ = 0;
  uint64_t served_ = 0;
  bool stop_ = false;
  mutable std::set<GroupKey> wanted_;
  mutable bool more_wanted_ = false;  // since the trainer last checked
  mutable int waiting_ = 0;           // number of threads in WaitUntilTrained
  std::map<GroupKey, TargetLabels> counts_;
  // Shared by the forecasts that use it and the trainer, which replaces it.
  std::shared_ptr<const Snapshot> snapshot_;

  std::thread trainer_;  // last: uses the other members
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_EMBEDDED_BACKEND_H_
