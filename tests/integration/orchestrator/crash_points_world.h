#ifndef KERNELCAST_TESTS_INTEGRATION_ORCHESTRATOR_CRASH_POINTS_WORLD_H_
#define KERNELCAST_TESTS_INTEGRATION_ORCHESTRATOR_CRASH_POINTS_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/event_store.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator::testing {

// A world in which a search always takes the same course. Calls of the engine wait until the test
// completes them, one at a time. Which one is next depends on the calls that wait, and not on when
// they were made, so it is the same where a restart has made them again. Labels are completed
// first, then rankings.

class PendingCalls {
 public:
  explicit PendingCalls(uint64_t seed) : seed_(seed) {}

  // Adds a call, or replaces the call of that name.
  void Add(int priority, const std::string& name, std::function<void()> complete);
  // Completes the next call. Returns false if none waits.
  bool CompleteNext();
  // The names of the calls that wait.
  std::set<std::string> names() const;
  // Number of calls made so far.
  uint64_t made() const;

 private:
  struct Call {
    std::string name;
    std::function<void()> complete;
  };

  const uint64_t seed_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, std::string>, Call> waiting_;  // by priority and hash
  uint64_t made_ = 0;
};

// Replays recorded results: each is a function of the candidate. Some candidates do not compile,
// are wrong, or find an unstable environment.
class ReplayWorkers final : public Workers {
 public:
  ReplayWorkers(PendingCalls* calls, uint32_t slots) : calls_(calls), slots_(slots) {}

  void Compile(const std::string& request_id, std::shared_ptr<const Problem> problem,
               Candidate candidate, const std::string& device_model, CompileDone done) override;
  void CompileReference(std::shared_ptr<const Problem> problem, const std::string& target,
                        const std::string& device_model, CompileDone done) override;
  void Measure(const std::string& request_id, std::shared_ptr<const Problem> problem,
               Candidate candidate, const std::string& device_model, MeasureSpec spec, bool profile,
               MeasureDone done) override;
  void Cancel(const std::vector<std::string>&) override {}
  Capacity CapacityFor(const std::string&, const std::string&) const override {
    return {2 * slots_, slots_};
  }
  std::string DeviceModelFor(const std::string&, const std::string&) const override;
  std::vector<Device> Devices() const override;

 private:
  PendingCalls* const calls_;
  const uint32_t slots_;
};

// Forecasts are functions of the candidate and the number of labels. Labels survive the engine.
class DeterministicForecasters final : public Forecasters {
 public:
  explicit DeterministicForecasters(PendingCalls* calls) : calls_(calls) {}

  // Labels that an earlier engine has delivered.
  void Learn(const std::vector<std::string>& label_ids);

  void Forecast(std::shared_ptr<const Problem> problem, ForecastQuery query,
                ForecastDone done) override;
  void ForecastAll(std::shared_ptr<const Problem> problem, std::vector<ForecastQuery> queries,
                   ForecastAllDone done) override;
  void Observe(std::shared_ptr<const Problem> problem, std::vector<Label> labels,
               ObserveDone done) override;

 private:
  ForecastResult Answer(const ForecastQuery& query) const;

  PendingCalls* const calls_;
  std::set<std::string> labels_;  // accessed by the test's thread only
};

// The n-th request of a search always gets the same answer: a kernel, the same kernel again, prose,
// or none.
class ScriptedWriter final : public KernelWriter {
 public:
  ScriptedWriter(PendingCalls* calls, uint64_t seed) : calls_(calls), seed_(seed) {}
  void Write(GenerationQuery query, WriteDone done) override;
  void Advise(GenerationQuery query, AdviseDone done) override;

 private:
  PendingCalls* const calls_;
  const uint64_t seed_;
};

// A store that crashes after a number of appends: later ones fail and leave no trace.
class CrashingStore final : public EventStore {
 public:
  CrashingStore(std::unique_ptr<EventStore> disk, uint64_t appends)
      : disk_(std::move(disk)), appends_left_(appends) {}

  absl::StatusOr<uint64_t> Append(std::span<const AppendEntry> entries) override;
  absl::Status Replay(uint64_t from, const Visitor& visit) const override {
    return disk_->Replay(from, visit);
  }
  absl::StatusOr<std::vector<StoredEvent>> ReadEvaluation(std::string_view id) const override {
    return disk_->ReadEvaluation(id);
  }
  absl::StatusOr<std::vector<StoredEvent>> ReadSearch(std::string_view id, uint64_t from,
                                                      size_t limit) const override {
    return disk_->ReadSearch(id, from, limit);
  }
  absl::StatusOr<uint64_t> LastSequence() const override { return disk_->LastSequence(); }

  // Reads what an earlier engine has written. Call first.
  absl::Status ReadAll();
  bool crashed() const;
  // Sequence number of the last event of each append.
  std::vector<uint64_t> boundaries() const;
  // Time of the last event. 0: none.
  int64_t last_ns() const;
  // Whether the last settlement happened at this time.
  bool SettlesAt(int64_t time_ns) const;
  // Labels that an earlier engine has delivered.
  std::vector<std::string> delivered() const { return delivered_; }

 private:
  void Note(const Event& event);

  const std::unique_ptr<EventStore> disk_;
  mutable std::mutex mutex_;
  uint64_t appends_left_;
  bool crashed_ = false;
  std::vector<uint64_t> boundaries_;
  std::vector<std::string> delivered_;
  int64_t last_ns_ = 0;
  int64_t settled_ns_ = 0;
};

// A kind of search, and what varies within a kind.
struct Scenario {
  GeneratorKind kind = GeneratorKind::kTemplate;
  uint64_t seed = 0;
  std::string policy = "threshold";
  std::string strategy = "";
  uint32_t max_in_flight = 0;  // 0: as many as the workers take
  uint32_t slots = 1;
};

// The final state of a search.
struct Outcome {
  bool crashed = false;
  // The log without time stamps and without delivered labels, one text per event.
  std::vector<std::string> decisions;
  std::vector<uint64_t> boundaries;  // CrashingStore::boundaries
};

using OpenStore = std::function<std::unique_ptr<EventStore>()>;

// Runs or continues the scenario's search on the store, to its end or for a number of appends.
Outcome Run(const Scenario& scenario, const OpenStore& open, uint64_t appends = UINT64_MAX);

// The text of an event in Outcome::decisions.
std::string DecisionText(const StoredEvent& stored);

}  // namespace kernelcast::orchestrator::testing

#endif  // KERNELCAST_TESTS_INTEGRATION_ORCHESTRATOR_CRASH_POINTS_WORLD_H_
