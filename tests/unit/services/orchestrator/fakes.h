#ifndef KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_FAKES_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_FAKES_H_

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/callback_scope.h"
#include "services/orchestrator/core/event_store.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator::testing {

// A problem with a space of 2 templates, 6 x 5 + 10 = 40 points.
inline std::vector<ProblemFile> SmallProblemFiles() {
  return {
      {"problem.yaml", R"(schema: 1
name: toy
title: Toy
family: toy
description: A toy.
axes:
  n: {held_out: [1, 64]}
inputs:
  - {name: x, dtype: float32, shape: [n], init: {distribution: normal, mean: 0, stddev: 1}}
outputs:
  - {name: y, dtype: float32, shape: [n], tolerance: {atol: 1.0e-6, rtol: 1.0e-5, normwise: 1.0e-6}}
oracle: oracle.cc
targets:
  cpu: {reference: reference.cc, space: space/cpu.yaml}
check_shapes:
  - {n: 7}
bench_shapes:
  - {n: 1024}
)"},
      {"oracle.cc", "// oracle\n"},
      {"reference.cc", "// reference\n"},
      {"space/cpu.yaml", R"(schema: 1
target: cpu
templates:
  - name: blocked
    file: blocked.cc
    description: Blocks.
    tunables:
      BLOCK: [1, 2, 4, 8, 16, 32]
      UNROLL: [1, 2, 4, 8, 16]
  - name: plain
    file: plain.cc
    description: Plain.
    tunables:
      WIDTH: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
)"},
      {"space/blocked.cc", "// blocked\n"},
      {"space/plain.cc", "// plain\n"},
  };
}

inline std::vector<ProblemFile> ProblemFilesWithoutSpace() {
  std::vector<ProblemFile> files = SmallProblemFiles();
  std::erase_if(files, [](const ProblemFile& file) { return file.path.starts_with("space/"); });
  std::string& yaml = files.front().content;
  const std::string space = ", space: space/cpu.yaml";
  yaml.erase(yaml.find(space), space.size());
  return files;
}

// Keeps events in memory. It can fail or delay appends on request, and be copied to represent a
// disk after a crash.
class MemoryEventStore final : public EventStore {
 public:
  absl::StatusOr<uint64_t> Append(std::span<const AppendEntry> entries) override {
    std::unique_lock lock(mutex_);
    ++appends_;
    released_.wait(lock, [this] { return !hold_; });
    if (fail_) return absl::ResourceExhaustedError("disk full");
    const uint64_t first = rows_.size() + 1;
    for (const AppendEntry& entry : entries) {
      rows_.push_back(Row{entry.request_id, entry.search_id, *entry.event});
    }
    return first;
  }
  absl::Status Replay(uint64_t from, const Visitor& visit) const override {
    std::lock_guard lock(mutex_);
    for (size_t i = from - 1; i < rows_.size(); ++i) {
      if (absl::Status status = visit(StoredEvent{i + 1, rows_[i].event}); !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<StoredEvent>> ReadEvaluation(std::string_view id) const override {
    {
      std::lock_guard lock(mutex_);
      reader_ = std::this_thread::get_id();
      ++evaluations_read_;
    }
    return Select([&](const Row& row) { return row.request_id == id; }, 1, SIZE_MAX);
  }
  absl::StatusOr<std::vector<StoredEvent>> ReadSearch(std::string_view id, uint64_t from,
                                                      size_t limit) const override {
    return Select([&](const Row& row) { return id.empty() || row.search_id == id; }, from, limit);
  }
  absl::StatusOr<uint64_t> LastSequence() const override {
    std::lock_guard lock(mutex_);
    return rows_.size();
  }
  void FailFromNowOn() {
    std::lock_guard lock(mutex_);
    fail_ = true;
  }
  // Appends block until they are released.
  void HoldAppends() {
    std::lock_guard lock(mutex_);
    hold_ = true;
  }
  void ReleaseAppends() {
    {
      std::lock_guard lock(mutex_);
      hold_ = false;
    }
    released_.notify_all();
  }
  // Number of appends that have begun.
  int appends() const {
    std::lock_guard lock(mutex_);
    return appends_;
  }
  // Number of evaluations read, and the thread of the last read.
  int evaluations_read() const {
    std::lock_guard lock(mutex_);
    return evaluations_read_;
  }
  std::thread::id reader() const {
    std::lock_guard lock(mutex_);
    return reader_;
  }
  // The data that a crash would leave on disk.
  std::unique_ptr<MemoryEventStore> Copy() const {
    std::lock_guard lock(mutex_);
    auto copy = std::make_unique<MemoryEventStore>();
    copy->rows_ = rows_;
    return copy;
  }
  template <class Body>
  std::vector<Body> All() const {
    std::lock_guard lock(mutex_);
    std::vector<Body> result;
    for (const Row& row : rows_) {
      if (const auto* body = std::get_if<Body>(&row.event.body)) result.push_back(*body);
    }
    return result;
  }

 private:
  struct Row {
    std::string request_id;
    std::string search_id;
    Event event;
  };
  template <class Predicate>
  std::vector<StoredEvent> Select(Predicate wanted, uint64_t from, size_t limit) const {
    std::lock_guard lock(mutex_);
    std::vector<StoredEvent> result;
    for (size_t i = from - 1; i < rows_.size() && result.size() < limit; ++i) {
      if (wanted(rows_[i])) result.push_back(StoredEvent{i + 1, rows_[i].event});
    }
    return result;
  }

  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::vector<Row> rows_;
  bool fail_ = false;
  bool hold_ = false;
  int appends_ = 0;
  mutable int evaluations_read_ = 0;
  mutable std::thread::id reader_;
};

// Runs callbacks on its own thread in posting order, like a client library.
class CallbackThread {
 public:
  CallbackThread() : thread_([this] { Run(); }) {}
  ~CallbackThread() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  void Post(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      {
        const CallbackScope scope;
        task();
      }
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

// Speedup of a candidate of the toy problem: a smooth function of its tunables, best at 3.2.
inline double ToySpeedup(const Candidate& candidate) {
  double block = 0, unroll = 0, width = 0;
  for (const Tunable& tunable : candidate.tunables) {
    if (tunable.name == "BLOCK") block = std::log2(std::stod(tunable.value));
    if (tunable.name == "UNROLL") unroll = std::log2(std::stod(tunable.value));
    if (tunable.name == "WIDTH") width = std::stod(tunable.value);
  }
  if (width > 0) return 0.4 + 0.05 * width;
  return 3.2 - 0.3 * (block - 3) * (block - 3) - 0.2 * (unroll - 2) * (unroll - 2) > 0.1
             ? 3.2 - 0.3 * (block - 3) * (block - 3) - 0.2 * (unroll - 2) * (unroll - 2)
             : 0.1;
}

class FakeWorkers final : public Workers {
 public:
  explicit FakeWorkers(CallbackThread* thread) : thread_(thread) {}

  std::function<CompileResult(const Candidate&)> compile = [](const Candidate&) {
    return CompileResult(CompiledCandidate{CompileFacts{"", {}}, Artifact{}});
  };
  std::function<MeasureOutcome(const Candidate&)> measure = [](const Candidate& candidate) {
    MeasuredOk ok;
    const double speedup = ToySpeedup(candidate);
    ok.speedup = Ratio{speedup, speedup * 0.99, speedup * 1.01, 0.95};
    ok.comparison = Comparison::kFaster;
    return MeasureOutcome(ok);
  };
  // Replaces `measure` where the outcome depends on the device.
  std::function<MeasureOutcome(const Candidate&, const std::string& device_model)> measure_on;
  bool reference_compiles = true;
  // Measurements are held until Release.
  bool hold_measurements = false;

  static MeasureOutcome Ok(double speedup) {
    MeasuredOk ok;
    ok.speedup = Ratio{speedup, speedup * 0.99, speedup * 1.01, 0.95};
    ok.comparison = Comparison::kFaster;
    return ok;
  }

  // The available devices; 0 slots: known but away.
  void SetDevices(std::vector<Device> devices) {
    std::lock_guard lock(mutex_);
    devices_ = std::move(devices);
  }
  // Credits of workers without devices, for every target.
  std::atomic<uint32_t> compile_credits = 0;

  void Compile(const std::string&, std::shared_ptr<const Problem>, Candidate candidate,
               const std::string&, CompileDone done) override {
    thread_->Post([this, candidate = std::move(candidate), done] {
      CompileResult result = compile(candidate);
      if (auto* compiled = std::get_if<CompiledCandidate>(&result)) {
        if (compiled->facts.schema.empty()) compiled->facts = Facts();
      }
      done(result);
    });
  }
  void CompileReference(std::shared_ptr<const Problem>, const std::string&, const std::string&,
                        CompileDone done) override {
    thread_->Post([this, done] {
      if (!reference_compiles) {
        done(CompileResult(CompileError{CompileStage::kCompiler, "reference.cc:1: error"}));
      } else {
        done(CompileResult(CompiledCandidate{Facts(), Artifact{}}));
      }
    });
  }
  void Measure(const std::string& request_id, std::shared_ptr<const Problem>, Candidate candidate,
               const std::string& device_model, MeasureSpec spec, bool profile,
               MeasureDone done) override {
    auto run = [this, candidate, device_model, spec, profile, done] {
      Measurement measurement;
      measurement.candidate_id = candidate.candidate_id;
      measurement.problem_id = candidate.problem_id;
      measurement.target = candidate.target;
      measurement.level = spec.level;
      measurement.device_time_ns = 1'000'000;
      measurement.device.model = device_model;
      measurement.outcome = measure_on ? measure_on(candidate, device_model) : measure(candidate);
      {
        std::lock_guard lock(mutex_);
        ++measured_[candidate.candidate_id];
        specs_[candidate.candidate_id].push_back(spec);
        ++measurements_;
        profiles_ += profile;
      }
      done(MeasureResult(std::move(measurement)));
    };
    std::lock_guard lock(mutex_);
    // Measurements for an absent device wait for it.
    if (hold_measurements || SlotsLocked(candidate.target, device_model) == 0) {
      held_.push_back({request_id, run, done});
    } else {
      thread_->Post(run);
    }
  }
  Capacity CapacityFor(const std::string& target, const std::string& model) const override {
    std::lock_guard lock(mutex_);
    const uint32_t slots = SlotsLocked(target, model);
    return {2 * slots + compile_credits, slots};
  }
  std::string DeviceModelFor(const std::string& target, const std::string& wanted) const override {
    std::lock_guard lock(mutex_);
    for (const Device& device : devices_) {
      if (device.target == target && (wanted.empty() || device.model == wanted)) {
        return device.model;
      }
    }
    return "";
  }
  std::vector<Device> Devices() const override {
    std::lock_guard lock(mutex_);
    return devices_;
  }

  void Cancel(const std::vector<std::string>& request_ids) override {
    std::lock_guard lock(mutex_);
    for (const std::string& id : request_ids) {
      std::erase_if(held_, [&](const Held& one) {
        if (one.request_id != id) return false;
        thread_->Post([done = one.done] { done(absl::CancelledError("cancelled")); });
        return true;
      });
    }
  }

  void Release() {
    std::lock_guard lock(mutex_);
    hold_measurements = false;
    for (Held& one : held_) thread_->Post(one.run);
    held_.clear();
  }
  size_t held() const {
    std::lock_guard lock(mutex_);
    return held_.size();
  }
  int measurements() const {
    std::lock_guard lock(mutex_);
    return measurements_;
  }

  // The requests, by candidate.
  int profiles() const {
    std::lock_guard lock(mutex_);
    return profiles_;
  }
  std::map<std::string, std::vector<MeasureSpec>> specs() const {
    std::lock_guard lock(mutex_);
    return specs_;
  }

  static CompileFacts Facts() {
    const FactSchema& schema = *FindFactSchema(kCpuAssemblySchemaId).value();
    return CompileFacts{std::string(schema.id), std::vector<double>(schema.names.size(), 1.0)};
  }

 private:
  struct Held {
    std::string request_id;
    std::function<void()> run;
    MeasureDone done;
  };
  uint32_t SlotsLocked(const std::string& target, const std::string& model) const {
    uint32_t slots = 0;
    for (const Device& device : devices_) {
      if (device.target == target && device.model == model) slots += device.measure_slots;
    }
    return slots;
  }

  CallbackThread* const thread_;
  mutable std::mutex mutex_;
  std::vector<Device> devices_ = {{"cpu", "fake cpu", 1}};
  std::map<std::string, int> measured_;
  std::map<std::string, std::vector<MeasureSpec>> specs_;
  int profiles_ = 0;
  std::vector<Held> held_;
  int measurements_ = 0;
};

// Knows the toy's truth up to `blur` octaves, and states that uncertainty.
class FakeForecasters final : public Forecasters {
 public:
  explicit FakeForecasters(CallbackThread* thread) : thread_(thread) {}

  double blur_octaves = 0.2;
  bool away = false;
  // Does not count its labels, like a language model.
  bool forgetful = false;
  // How often labels are polled before forecasts include them.
  int slow_to_learn = 0;
  // Replaces ToySpeedup where the speedup depends on the device.
  std::function<double(const Candidate&, const std::string& device_model)> truth;
  // Replaces the forecast if it returns one.
  std::function<std::optional<ForecastResult>(const ForecastQuery&)> answer;

  static kernelcast::Forecast Make(const Candidate& candidate, double blur, uint64_t labels) {
    return Make(candidate, ToySpeedup(candidate), blur, labels);
  }
  static kernelcast::Forecast Make(const Candidate& candidate, double speedup, double blur,
                                   std::optional<uint64_t> labels) {
    kernelcast::Forecast forecast;
    forecast.candidate_id = candidate.candidate_id;
    forecast.expected_log2_speedup = std::log2(speedup);
    forecast.stddev_log2_speedup = blur;
    forecast.bin_probabilities =
        BinsFromStudentT(BinScheme::Default(), forecast.expected_log2_speedup, blur, 1e9);
    forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
    forecast.backend = "fake";
    forecast.labels_seen = labels;
    return forecast;
  }

  void Forecast(std::shared_ptr<const Problem>, ForecastQuery query, ForecastDone done) override {
    {
      std::lock_guard lock(mutex_);
      queries_.push_back(query);
    }
    thread_->Post([this, query = std::move(query), done] {
      if (away) {
        done(absl::UnavailableError("no forecaster"));
      } else {
        done(Answer(query, labels()));
      }
    });
  }
  void ForecastAll(std::shared_ptr<const Problem>, std::vector<ForecastQuery> queries,
                   ForecastAllDone done) override {
    thread_->Post([this, queries = std::move(queries), done] {
      std::vector<ForecastResult> results;
      const uint64_t known = Known();
      for (const ForecastQuery& query : queries) {
        results.push_back(Answer(query, known));
      }
      done(std::move(results));
    });
  }
  void Observe(std::shared_ptr<const Problem>, std::vector<Label> labels,
               ObserveDone done) override {
    thread_->Post([this, labels = std::move(labels), done] {
      if (away) {
        done(absl::UnavailableError("no forecaster"));
        return;
      }
      {
        std::lock_guard lock(mutex_);
        for (const Label& label : labels) ++label_counts_[label.label_id];
      }
      done(absl::OkStatus());
    });
  }
  std::vector<ForecastQuery> queries() const {
    std::lock_guard lock(mutex_);
    return queries_;
  }
  uint64_t labels() const {
    std::lock_guard lock(mutex_);
    return forgetful ? 0 : label_counts_.size();
  }

 private:
  ForecastResult Answer(const ForecastQuery& query, uint64_t known) const {
    if (answer) {
      if (std::optional<ForecastResult> said = answer(query)) return *std::move(said);
    }
    const double speedup =
        truth ? truth(query.candidate, query.device_model) : ToySpeedup(query.candidate);
    return Make(query.candidate, speedup, blur_octaves, known);
  }

  // Labels included in a ranking.
  uint64_t Known() {
    const uint64_t now = labels();
    if (now != asked_labels_) {
      asked_labels_ = now;
      asked_ = 0;
    }
    if (asked_++ >= slow_to_learn) known_ = now;
    return known_;
  }

  CallbackThread* const thread_;
  mutable std::mutex mutex_;
  std::vector<ForecastQuery> queries_;
  std::map<std::string, int> label_counts_;
  // Accessed only by the thread.
  uint64_t asked_labels_ = 0;
  uint64_t known_ = 0;
  int asked_ = 0;
};

// A kernel of the toy problem whose speed depends on its block and unrolling.
inline Candidate ToyKernel(const std::string& source, int block, int unroll) {
  Candidate candidate;
  candidate.source = source;
  candidate.tunables = {{"BLOCK", std::to_string(block)}, {"UNROLL", std::to_string(unroll)}};
  candidate.origin = "llm:fake";
  return candidate;
}

// Generates what the test specifies.
class FakeWriter final : public KernelWriter {
 public:
  explicit FakeWriter(CallbackThread* thread) : thread_(thread) {}

  // The reply to the n-th request, counted from 1.
  std::function<GenerationReply(int number, const GenerationQuery&)> write;
  // Requests that are answered only by Release.
  std::function<bool(int number)> holds = [](int) { return false; };

  void Write(GenerationQuery query, WriteDone done) override {
    std::lock_guard lock(mutex_);
    queries_.push_back(query);
    const int number = static_cast<int>(queries_.size());
    auto answer = [this, number, query = std::move(query), done = std::move(done)] {
      GenerationReply reply = write(number, query);
      if (reply.prompt_version.empty()) reply.prompt_version = "fake/1@00000000";
      reply.model = "fake";
      done(std::move(reply));
    };
    if (holds(number)) {
      held_.emplace(number, std::move(answer));
    } else {
      thread_->Post(std::move(answer));
    }
    changed_.notify_all();
  }

  // The answer to a request for advice.
  std::function<AdviceReply(const GenerationQuery&)> advise = [](const GenerationQuery& query) {
    AdviceReply reply;
    reply.advice = "Advice for " + query.request_id;
    reply.usage = {10, 0, 5, false, 0.25};
    return reply;
  };
  void Advise(GenerationQuery query, AdviseDone done) override {
    std::lock_guard lock(mutex_);
    ++advised_;
    thread_->Post(
        [this, query = std::move(query), done = std::move(done)] { done(advise(query)); });
  }
  int advised() const {
    std::lock_guard lock(mutex_);
    return advised_;
  }

  void Release(int number) {
    std::lock_guard lock(mutex_);
    thread_->Post(std::move(held_.at(number)));
    held_.erase(number);
  }
  // Returns whether this many requests arrived before the limit.
  bool WaitForRequests(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return queries_.size() >= count; });
  }
  std::vector<GenerationQuery> queries() const {
    std::lock_guard lock(mutex_);
    return queries_;
  }

  static GenerationReply Says(Candidate candidate) {
    GenerationReply reply;
    reply.result = std::move(candidate);
    reply.usage = {100, 0, 20, false, 0.5};
    return reply;
  }
  static GenerationReply SaysNothingUseful(const std::string& reason) {
    GenerationReply reply;
    reply.result = GenerationReply::Unusable{reason};
    reply.usage = {100, 0, 20, false, 0.5};
    return reply;
  }
  static GenerationReply Away() {
    GenerationReply reply;
    reply.result = GenerationReply::Unanswered{"unreachable"};
    return reply;
  }

 private:
  CallbackThread* const thread_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<GenerationQuery> queries_;
  int advised_ = 0;
  std::map<int, std::function<void()>> held_;
};

}  // namespace kernelcast::orchestrator::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_ORCHESTRATOR_FAKES_H_
