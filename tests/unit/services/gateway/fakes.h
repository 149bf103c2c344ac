#ifndef KERNELCAST_TESTS_UNIT_SERVICES_GATEWAY_FAKES_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_GATEWAY_FAKES_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/trace_context.h"
#include "services/gateway/core/dialect.h"

namespace kernelcast::gateway::testing {

inline constexpr char kTaskSource[] =
    "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
    "        return torch.relu(x)\n\n\ndef get_inputs():\n    return [torch.randn(8)]\n\n\n"
    "def get_init_inputs():\n    return []\n";

// A problem with one axis n and the bench shapes n = 1024 and n = 2048, as parsed.
inline Problem SmallProblem() {
  Problem problem;
  problem.problem_id = "p_00000000000000000000000000000001";
  problem.name = "small";
  problem.title = "A small problem";
  problem.family = "elementwise";
  problem.axes = {Axis{.name = "n"}};
  ProblemTarget target;
  target.reference.source = "// reference\n";
  target.bench_shapes = {{{"n", 1024}}, {{"n", 2048}}};
  problem.targets["cpu"] = target;
  problem.files = {{"problem.yaml", "small"}};
  return problem;
}

inline Served ServedAs(std::string name, Problem problem) {
  Served served;
  served.name = std::move(name);
  served.description = problem.title;
  served.problem = std::move(problem);
  served.target = "cpu";
  return served;
}

// The times are 1 and 4 ms, those of the reference 2 and 8 ms.
inline Verdict OkVerdict() {
  MeasuredOk ok;
  ok.speedup = {.value = 2, .low = 1.9, .high = 2.1, .confidence = 0.95};
  ok.correctness_cases = 12;
  for (const auto& [n, ms] : {std::pair<int64_t, double>{1024, 1}, {2048, 4}}) {
    ShapeTiming shape;
    shape.shape = {{"n", n}};
    shape.candidate = {.median_ns = ms * 1e6, .min_ns = ms * 9e5, .samples = 50};
    shape.reference = {.median_ns = 2 * ms * 1e6, .min_ns = ms * 1e6, .samples = 50};
    shape.speedup = {.value = 2, .low = 1.9, .high = 2.1, .confidence = 0.95};
    ok.shapes.push_back(shape);
  }
  Verdict verdict;
  verdict.measurement.emplace();
  verdict.measurement->device.model = "NVIDIA H200";
  verdict.measurement->outcome = ok;
  verdict.feedback = "2.00x";
  verdict.accepted_ns = 1'000'000'000;
  verdict.settled_ns = 3'000'000'000;
  return verdict;
}

inline Verdict Failed(MeasureOutcome outcome, std::string feedback) {
  Verdict verdict;
  verdict.measurement.emplace();
  verdict.measurement->outcome = std::move(outcome);
  verdict.feedback = std::move(feedback);
  return verdict;
}

inline Verdict NotCompiled(std::string log) {
  Verdict verdict;
  verdict.compile_error = CompileError{.log = std::move(log)};
  return verdict;
}

inline Verdict NoVerdict(std::string why) {
  Verdict verdict;
  verdict.no_verdict = std::move(why);
  return verdict;
}

// Answers when the test says so. For one thread.
class FakeEvaluator final : public Evaluator {
 public:
  void Evaluate(const std::string& request_id, std::shared_ptr<const Submission> submission,
                Done done) override {
    request_ids.push_back(request_id);
    traces.push_back(CurrentTrace() == nullptr ? TraceContext() : *CurrentTrace());
    submissions.push_back(std::move(submission));
    waiting.push_back(std::move(done));
  }
  bool healthy() const override { return is_healthy; }

  // Answers the oldest request that waits.
  void Answer(Verdict verdict) {
    const Done done = std::move(waiting.front());
    waiting.erase(waiting.begin());
    done(std::move(verdict));
  }

  std::vector<std::string> request_ids;
  std::vector<TraceContext> traces;  // of the threads that asked
  std::vector<std::shared_ptr<const Submission>> submissions;
  std::vector<Done> waiting;
  bool is_healthy = true;
};

class FakeArchive final : public TaskArchive {
 public:
  absl::Status Put(const Submission& submission, int64_t created_ns) override {
    if (!failure.ok()) return failure;
    if (on_put) std::exchange(on_put, nullptr)();
    if (!tasks.emplace(submission.task_id, StoredTask{submission, created_ns}).second) return {};
    order.push_back(submission.task_id);
    ++counts[{submission.dialect, submission.name}];
    return absl::OkStatus();
  }
  absl::StatusOr<StoredTask> Find(const std::string& task_id) override {
    if (!failure.ok()) return failure;
    const auto found = tasks.find(task_id);
    if (found == tasks.end()) return absl::NotFoundError("there is no such task");
    return found->second;
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& dialect,
                                                const std::string& owner, const std::string& name,
                                                size_t limit, size_t offset) override {
    std::vector<std::string> ids;
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const Submission& one = tasks.at(*id).submission;
      if (one.dialect != dialect || one.owner != owner) continue;
      if (name.empty() || one.name == name) ids.push_back(*id);
    }
    ids.erase(ids.begin(), ids.begin() + static_cast<long>(std::min(offset, ids.size())));
    ids.resize(std::min(limit, ids.size()));
    return ids;
  }
  absl::StatusOr<uint64_t> Count(const std::string& dialect, const std::string& name) override {
    const uint64_t count = counts[{dialect, name}];
    if (on_count) std::exchange(on_count, nullptr)();
    return count;
  }

  absl::Status failure;
  // Called once: while a task is put, before it counts, and after a count was read.
  std::function<void()> on_put;
  std::function<void()> on_count;
  std::map<std::string, StoredTask> tasks;
  std::vector<std::string> order;
  std::map<std::pair<std::string, std::string>, uint64_t> counts;
};

// A gateway without sockets. "small" has candidates in C++, "relu" is a task in Python.
struct World {
  explicit World(std::vector<Served> served = DefaultServed())
      : catalogue(std::move(served), Site()), desk({}, &evaluator, &archive, &clock, nullptr) {
    context.catalogue = &catalogue;
    context.desk = &desk;
    context.archive = &archive;
    context.evaluator = &evaluator;
    context.clock = &clock;
    context.longest_wait = absl::ZeroDuration();
  }

  static std::vector<Served> DefaultServed() {
    Problem task = *ParseProblem({{"relu.py", kTaskSource}});
    std::vector<Served> served = {ServedAs("small", SmallProblem()),
                                  ServedAs("relu", std::move(task))};
    served[0].device_models = {"h200", "b200"};
    return served;
  }

  Catalogue catalogue;
  FakeEvaluator evaluator;
  FakeArchive archive;
  FakeClock clock;
  TaskDesk desk;
  DialectContext context;
};

inline HttpRequest Get(const std::string& target, const std::string& caller = "") {
  HttpRequest request;
  request.method = "GET";
  request.caller = caller;
  static_cast<void>(ParseTarget(target, request).ok());
  return request;
}

inline HttpRequest Post(const std::string& target, const nlohmann::json& body) {
  HttpRequest request = Get(target);
  request.method = "POST";
  request.content_type = "application/json";
  request.body = body.dump();
  return request;
}

}  // namespace kernelcast::gateway::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_GATEWAY_FAKES_H_
