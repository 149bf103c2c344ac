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
  // Stands in for a shared model where this process has labels of fewer problems than went into it.
  Prior prior = {};
  // Called on the training thread with predictions to be kept, so that a restart need not make them
  // again. May be empty.
  std::function<void(const std::vector<StoredPrediction>&)> keep_predictions;
};

// Forecasts from models trained in this process, learning from every label.
//
// A thread of its own takes labels in the order of their sequence. For each it notes what was
// predicted before the label was known (by the model of the last checkpoint; checkpoints lie close
// at first and about a ninth of the labels apart later), which is what the calibration rests on;
// then it trains the models that serve, once for however many labels have come, and only for
// problems that someone wants: by Prepare, a forecast, or a label that is not replayed. What is
// served depends on the labels, their order and the seed alone, as soon as all labels have been
// taken in.
//
// Forecast reads an immutable snapshot and never waits for training: until a problem's model is
// there, the answer is what other problems tell, or kPrior, and its labels_seen is 0.
//
// Memory: about 1 KiB a label, for ever.
class EmbeddedBackend final : public Backend {
 public:
  static constexpr std::string_view kName = "embedded";
  // Changes when the same labels would give other forecasts.
  static constexpr std::string_view kVersion =
      "embedded/3+embedded-cpu/1+embedded-cuda/1+embedded-sim/1";

  explicit EmbeddedBackend(EmbeddedOptions options);
  // Ends training at the next opportunity; labels not yet taken in are dropped.
  ~EmbeddedBackend() override;

  std::string_view name() const override { return kName; }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Prepare(const std::shared_ptr<const ProblemContext>& problem) override;
  void Observe(std::vector<ObservedLabel> labels) override;
  BackendDescription Describe() const override;

  // kVersion, and the prior's id where there is one.
  const std::string& version() const { return version_; }

  // Forecasts now.
  kernelcast::Forecast ForecastNow(const ForecastInput& input) const;

  // Blocks until what is served to those who want it has seen every label observed so far, which is
  // then trained without a pause.
  void WaitUntilTrained() const;

  // So many times as long as it has trained the trainer leaves the processor to others before it
  // learns from further labels: where more than a few came while it trained, for they come faster
  // than it can learn from each; and where it knows many, for one more tells little.
  static size_t PausesAfterTraining(size_t came, size_t known);

 private:
  struct Pending;
  struct Group;
  struct Snapshot;
  using GroupKey = std::pair<std::string, std::string>;  // problem id, target

  // What problems on one target have in common. Training thread only.
  struct Target {
    // Labels usable by a SharedModel, in all, and per problem.
    uint64_t shared_rows = 0;
    std::map<std::string, uint64_t> problem_shared_rows;
    // What problems without labels are forecast with rests on the labels up to this sequence; made
    // when it is first wanted.
    uint64_t cold_sequence = 0;
    uint64_t cold_rows = 0;
    bool cold_is_due = false;
    std::shared_ptr<const ProblemModel> cold;
  };

  void Want(const GroupKey& key) const;

  void TrainingLoop();
  void TakeIn(Pending pending, std::vector<StoredPrediction>& made);
  // Trains one model that is wanted and not up to date. False: there is none.
  bool TrainOne(const std::set<GroupKey>& wanted);
  // The model of the group's first `labels` labels.
  std::shared_ptr<const ProblemModel> TrainGroup(const GroupKey& key, Group& group, size_t labels);
  // The prior's model of a target, or null.
  std::shared_ptr<const SharedModel> PriorModel(const std::string& target) const;
  std::shared_ptr<const SharedModel> TrainShared(const std::string& target,
                                                 const std::string& without_problem,
                                                 uint64_t up_to_sequence) const;
  void ChooseSharedLabels(const GroupKey& key, Group& group, uint64_t up_to_sequence);
  std::shared_ptr<const Snapshot> MakeSnapshot() const;

  const EmbeddedOptions options_;
  const std::string version_;

  // The training thread's own.
  std::map<GroupKey, std::unique_ptr<Group>> groups_;
  std::map<std::string, Target> targets_;
  uint64_t taken_in_ = 0;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Protected by mutex_.
  std::deque<Pending> queue_;
  uint64_t observed_ = 0;
  uint64_t served_ = 0;
  bool stop_ = false;
  mutable std::set<GroupKey> wanted_;
  mutable bool more_wanted_ = false;  // since the trainer last looked
  mutable int waiting_ = 0;           // in WaitUntilTrained
  std::map<GroupKey, TargetLabels> counts_;
  // Shared by the forecasts that started on it and the trainer, which replaces it.
  std::shared_ptr<const Snapshot> snapshot_;

  std::thread trainer_;  // last: starts when all else is there
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_EMBEDDED_BACKEND_H_
