// The API of `flashinfer-bench serve` (flashinfer_bench/serve/app.py). A served problem is a
// definition, and each of its bench shapes a workload.

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/domain/python_task.h"
#include "services/gateway/dialects/dialects.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;

constexpr char kFlashinfer[] = "flashinfer";
constexpr double kLongestPoll = 3600;
constexpr size_t kMaxTasks = 1000;
constexpr std::string_view kIdPrefix = "k_";  // of a candidate's id
constexpr size_t kNameHashDigits = 8;

struct Solution {
  std::string name;
  std::string definition;
  Language language = Language::kPython;
  std::string entry_symbol;
  std::string source;
};

std::string WorkloadId(const Served& served, size_t shape) {
  return ContentHasher().Add(served.problem.problem_id).Add(served.target).Add(shape).Hex128();
}

const std::vector<AxisValues>& Shapes(const Served& served) {
  return served.problem.targets.at(served.target).bench_shapes;
}

json WorkloadOf(const Served& served, size_t shape) {
  json axes = json::object();
  for (const auto& [axis, value] : Shapes(served)[shape]) axes[axis] = value;
  json inputs = json::object();
  for (const TensorSpec& input : served.problem.inputs) inputs[input.name] = {{"type", "random"}};
  return {{"uuid", WorkloadId(served, shape)}, {"axes", axes}, {"inputs", inputs}};
}

json TensorsOf(const std::vector<TensorSpec>& tensors) {
  json described = json::object();
  for (const TensorSpec& tensor : tensors) {
    json shape = json::array();
    for (const Expression& size : tensor.shape) shape.push_back(size.text());
    described[tensor.name] = {{"shape", shape}, {"dtype", std::string(Name(tensor.dtype))}};
  }
  return described;
}

// The reference as Python that defines `run`, which clients check. Native code is a comment.
std::string ReferenceOf(const Served& served) {
  const std::string& source = served.problem.targets.at(served.target).reference.source;
  if (served.problem.task.has_value()) {
    const PythonTask::Format format = served.problem.task->format;
    const std::string name(ReferenceName(format));
    if (name == "run") return source;
    const char* const call =
        format == PythonTask::Format::kGpuMode ? "(inputs)\n" : "(*get_init_inputs())(*inputs)\n";
    return absl::StrCat(source, "\n\ndef run(*inputs):\n    return ", name, call);
  }
  const std::string inputs =
      absl::StrJoin(served.problem.inputs, ", ",
                    [](std::string* out, const TensorSpec& input) { out->append(input.name); });
  return absl::StrCat("# ", absl::StrReplaceAll(source, {{"\n", "\n# "}}), "\ndef run(", inputs,
                      "):\n    raise NotImplementedError(\"the reference is native code\")\n");
}

json DefinitionOf(const Served& served) {
  json axes = json::object();
  for (const Axis& axis : served.problem.axes) axes[axis.name] = {{"type", "var"}};
  return {{"name", served.name},
          {"op_type", served.problem.family},
          {"description", served.description},
          {"axes", axes},
          {"inputs", TensorsOf(served.problem.inputs)},
          {"outputs", TensorsOf(served.problem.outputs)},
          {"reference", ReferenceOf(served)}};
}

// Returns the function that a solution's entry point must name.
std::string EntryOf(const Problem& problem) {
  return problem.task.has_value() ? std::string(CandidateName(problem.task->format))
                                  : "kernelcast_run";
}

absl::StatusOr<Language> LanguageOf(const std::string& name) {
  if (name == "python" || name == "triton") return Language::kPython;
  if (name == "cuda" || name == "cpp") return Language::kNative;
  return absl::InvalidArgumentError(absl::StrCat(
      "spec.language: '", name, "' is not supported; python, triton, cuda and cpp are"));
}

absl::StatusOr<Solution> ReadSolution(const json& body) {
  const auto object = body.find("solution");
  if (object == body.end() || !object->is_object()) {
    return absl::InvalidArgumentError("solution: is missing");
  }
  const auto spec = object->find("spec");
  const auto sources = object->find("sources");
  if (spec == object->end() || !spec->is_object()) {
    return absl::InvalidArgumentError("spec: is missing");
  }
  if (sources == object->end() || !sources->is_array() || sources->empty()) {
    return absl::InvalidArgumentError("sources: is missing");
  }
  Solution solution;
  KC_ASSIGN_OR_RETURN(solution.name, JsonText(*object, "name"));
  KC_ASSIGN_OR_RETURN(solution.definition, JsonText(*object, "definition"));
  KC_ASSIGN_OR_RETURN(const std::string language, JsonText(*spec, "language"));
  KC_ASSIGN_OR_RETURN(solution.language, LanguageOf(language));
  KC_ASSIGN_OR_RETURN(const std::string entry, JsonText(*spec, "entry_point"));
  const std::vector<std::string> parts = absl::StrSplit(entry, "::");
  if (parts.size() != 2) {
    return absl::InvalidArgumentError("spec.entry_point: expected FILE::FUNCTION");
  }
  solution.entry_symbol = parts[1];
  KC_ASSIGN_OR_RETURN(const std::vector<std::string> dependencies,
                      JsonTexts(*spec, "dependencies"));
  if (!dependencies.empty()) {
    return absl::InvalidArgumentError("spec.dependencies: are not supported");
  }
  for (const json& file : *sources) {
    if (!file.is_object()) return absl::InvalidArgumentError("sources: expected objects");
    KC_ASSIGN_OR_RETURN(const std::string path, JsonText(file, "path"));
    KC_ASSIGN_OR_RETURN(std::string content, JsonText(file, "content"));
    if (path != parts[0] || sources->size() != 1) {
      return absl::InvalidArgumentError(
          "sources: one source, with the entry point, is supported; put all code in it");
    }
    solution.source = std::move(content);
  }
  return solution;
}

// As JSON of flashinfer-bench has numbers that are not finite.
json NumberOrText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

// The largest errors are not known, so they are left out.
json CorrectnessOf(const Verdict& verdict) {
  if (const MeasuredOk* ok = verdict.ok()) return {{"extra", {{"cases", ok->correctness_cases}}}};
  const auto& wrong = std::get<WrongResult>(verdict.measurement->outcome);
  return {{"extra",
           {{"output", wrong.output},
            {"mismatches", wrong.mismatches},
            {"elements", wrong.elements},
            {"first_got", NumberOrText(wrong.got)},
            {"first_expected", NumberOrText(wrong.expected)}}}};
}

std::string StatusOf(const Verdict& verdict) {
  if (verdict.compile_error.has_value()) return "COMPILE_ERROR";
  const MeasureOutcome& outcome = verdict.measurement->outcome;
  if (std::holds_alternative<MeasuredOk>(outcome)) return "PASSED";
  if (std::holds_alternative<WrongResult>(outcome)) return "INCORRECT_NUMERICAL";
  if (std::holds_alternative<Timeout>(outcome)) return "TIMEOUT";
  return "RUNTIME_ERROR";
}

// `timing` is of the workload, and null unless the candidate passed.
json EvaluationOf(const Verdict& verdict, const ShapeTiming* timing) {
  const std::string status = StatusOf(verdict);
  const std::string hardware =
      verdict.measurement.has_value() ? verdict.measurement->device.model : verdict.device_model;
  json evaluation = {{"status", status},
                     {"environment",
                      {{"hardware", hardware.empty() ? "unknown" : hardware},
                       {"libs", {{"kernelcast", std::string(Version())}}}}},
                     {"timestamp", FormatTime(verdict.settled_ns)},
                     {"log", status == "PASSED" ? verdict.feedback : FailureText(verdict)},
                     {"correctness", nullptr},
                     {"performance", nullptr}};
  if (status == "PASSED" || status == "INCORRECT_NUMERICAL") {
    evaluation["correctness"] = CorrectnessOf(verdict);
  }
  if (timing != nullptr) {
    evaluation["performance"] = {{"latency_ms", timing->candidate.median_ns * 1e-6},
                                 {"reference_latency_ms", timing->reference.median_ns * 1e-6},
                                 {"speedup_factor", timing->speedup.value}};
  }
  return evaluation;
}

class Flashinfer final : public Dialect {
 public:
  explicit Flashinfer(const DialectContext& context) : context_(context) {}

  std::string_view name() const override { return kFlashinfer; }
  HttpReply Refuse(const absl::Status& error) const override { return DetailReply(error); }

  HttpReply Handle(const HttpRequest& request) override {
    absl::StatusOr<json> body = Answer(request);
    if (!body.ok()) return Refuse(body.status());
    return {200, *std::move(body)};
  }

 private:
  absl::StatusOr<json> Answer(const HttpRequest& request) {
    if (Matches(request, "GET", {})) {
      return json{{"name", "FlashInfer-Bench Server"}, {"version", std::string(Version())}};
    }
    if (Matches(request, "GET", {"health"})) return Health();
    if (Matches(request, "GET", {"definitions"})) {
      json all = json::array();
      for (const Served& served : context_.catalogue->served()) {
        all.push_back({{"name", served.name}, {"description", served.description}});
      }
      return all;
    }
    if (Matches(request, "GET", {"definitions", "*"})) {
      KC_ASSIGN_OR_RETURN(const Served* served, Definition(request.path[1]));
      return DefinitionOf(*served);
    }
    if (Matches(request, "GET", {"definitions", "*", "workloads"})) {
      KC_ASSIGN_OR_RETURN(const Served* served, Definition(request.path[1]));
      json all = json::array();
      for (size_t i = 0; i < Shapes(*served).size(); ++i) all.push_back(WorkloadOf(*served, i));
      return all;
    }
    if (Matches(request, "GET", {"workloads", "*"})) return Workload(request.path[1]);
    if (Matches(request, "POST", {"evaluate"})) return Evaluate(request);
    if (Matches(request, "GET", {"tasks", "*"})) {
      const auto timeout = request.query.find("timeout");
      double seconds = 0;
      if (timeout != request.query.end() && !absl::SimpleAtod(timeout->second, &seconds)) {
        return absl::InvalidArgumentError("timeout: expected a number of seconds");
      }
      KC_ASSIGN_OR_RETURN(const Task task, Known(request.path[1]));
      NoteSubject(request, task);
      KC_ASSIGN_OR_RETURN(const json tasks, Tasks({request.path[1]}, seconds));
      return tasks[0];
    }
    if (Matches(request, "POST", {"tasks", "batch"})) {
      KC_ASSIGN_OR_RETURN(const json body, ParseJsonBody(request));
      KC_ASSIGN_OR_RETURN(const std::vector<std::string> ids, JsonTexts(body, "task_ids"));
      KC_ASSIGN_OR_RETURN(const double timeout, JsonNumber(body, "timeout", 0));
      return Tasks(ids, timeout);
    }
    if (Matches(request, "POST", {"profile"})) {
      return absl::UnimplementedError(
          "profiles are not served; the feedback of an evaluation says what limits the solution");
    }
    if (Matches(request, "POST", {"shutdown"})) {
      return absl::PermissionDeniedError("clients do not shut down this server");
    }
    return absl::NotFoundError("Not Found");
  }

  json Health() const {
    json workers = json::array();
    std::set<std::string> devices;
    for (const Served& served : context_.catalogue->served()) {
      devices.insert(served.device_models.begin(), served.device_models.end());
      if (served.device_models.empty()) devices.insert(served.target);
    }
    for (const std::string& device : devices) {
      workers.push_back({{"device", device}, {"healthy", context_.evaluator->healthy()}});
    }
    return {{"status", context_.evaluator->healthy() ? "ok" : "unavailable"},
            {"workers", workers},
            {"queue_size", context_.desk->pending()}};
  }

  absl::StatusOr<const Served*> Definition(const std::string& name) const {
    const Served* served = context_.catalogue->Find(name);
    if (served == nullptr) {
      return absl::NotFoundError(absl::StrCat("Definition not found: ", name));
    }
    return served;
  }

  absl::StatusOr<json> Workload(const std::string& id) const {
    for (const Served& served : context_.catalogue->served()) {
      for (size_t i = 0; i < Shapes(served).size(); ++i) {
        if (WorkloadId(served, i) == id) return WorkloadOf(served, i);
      }
    }
    return absl::NotFoundError(absl::StrCat("Workload not found: ", id));
  }

  absl::StatusOr<json> Evaluate(const HttpRequest& request) {
    KC_ASSIGN_OR_RETURN(const json body, ParseJsonBody(request));
    KC_ASSIGN_OR_RETURN(Solution solution, ReadSolution(body));
    KC_ASSIGN_OR_RETURN(const std::vector<std::string> workloads,
                        JsonTexts(body, "workload_uuids"));
    absl::StatusOr<const Served*> served = Definition(solution.definition);
    if (!served.ok()) return absl::InvalidArgumentError(served.status().message());
    const std::string entry = EntryOf((*served)->problem);
    if (solution.entry_symbol != entry) {
      return absl::InvalidArgumentError(
          absl::StrCat("spec.entry_point: solutions of ", (*served)->name, " define ", entry));
    }
    Submission submission;
    submission.dialect = kFlashinfer;
    submission.owner = request.caller;
    submission.name = (*served)->name;
    KC_ASSIGN_OR_RETURN(submission.candidate,
                        MakeCandidate((*served)->problem, (*served)->target, solution.language,
                                      std::move(solution.source)));
    submission.candidate.name = solution.name.substr(0, 128);
    submission.device_model = (*served)->site().device_model;
    const std::string unique_name =
        absl::StrCat(solution.name, "_",
                     submission.candidate.candidate_id.substr(kIdPrefix.size(), kNameHashDigits));
    submission.note = {{"solution", unique_name}, {"workloads", workloads}};
    ContentHasher hasher;
    // The candidate names its problem, so an edited problem has other tasks.
    hasher.Add(kFlashinfer)
        .Add(solution.name)
        .Add(submission.candidate.candidate_id)
        .Add(submission.device_model);
    for (const std::string& workload : workloads) hasher.Add(workload);
    submission.task_id = hasher.Hex128();
    KC_ASSIGN_OR_RETURN(const Task task, context_.desk->Submit(std::move(submission)));
    NoteSubject(request, task);
    return json{{"task_id", task.submission->task_id}, {"normalized_solution_name", unique_name}};
  }

  absl::StatusOr<json> Tasks(const std::vector<std::string>& ids, double seconds) {
    if (ids.size() > kMaxTasks) {
      return absl::InvalidArgumentError(absl::StrCat("task_ids: at most ", kMaxTasks));
    }
    if (!(seconds >= 0 && seconds <= kLongestPoll)) {
      return absl::InvalidArgumentError("timeout: 0 to 3600 seconds");
    }
    std::vector<Task> tasks;
    for (const std::string& id : ids) {
      KC_ASSIGN_OR_RETURN(Task task, Known(id));
      tasks.push_back(std::move(task));
    }
    if (seconds > 0) {
      context_.desk->Wait(ids, absl::Seconds(seconds));
      tasks.clear();
      for (const std::string& id : ids) {
        KC_ASSIGN_OR_RETURN(Task task, Known(id));
        tasks.push_back(std::move(task));
      }
    }
    json all = json::array();
    for (const Task& task : tasks) all.push_back(TaskOf(task));
    return all;
  }

  absl::StatusOr<Task> Known(const std::string& id) {
    absl::StatusOr<Task> task = context_.desk->Find(id);
    if (absl::IsNotFound(task.status()) ||
        (task.ok() && task->submission->dialect != kFlashinfer)) {
      return absl::NotFoundError(absl::StrCat("Task not found: ", id));
    }
    return task;
  }

  json TaskOf(const Task& task) const {
    const Submission& submission = *task.submission;
    json reply = {{"task_id", submission.task_id},
                  {"status", "running"},
                  {"definition", submission.name},
                  {"solution", submission.note["solution"]},
                  {"traces", nullptr},
                  {"error", nullptr}};
    if (task.verdict == nullptr) return reply;
    const Verdict& verdict = *task.verdict;
    const Served* served = context_.catalogue->Find(submission.name);
    reply["status"] = "failed";
    if (served == nullptr) {
      reply["error"] = absl::StrCat("Definition not found: ", submission.name);
      return reply;
    }
    if (!verdict.settled()) {
      reply["error"] = FailureText(verdict);
      return reply;
    }
    if (verdict.ok() != nullptr && verdict.ok()->shapes.empty()) {
      reply["error"] = "the measurement has no times of single workloads";
      return reply;
    }
    json traces = TracesOf(*served, submission, verdict);
    if (traces.empty()) {
      reply["error"] = absl::StrCat("No workloads found for definition: ", submission.name);
      return reply;
    }
    reply["status"] = "completed";
    reply["traces"] = std::move(traces);
    return reply;
  }

  static json TracesOf(const Served& served, const Submission& submission, const Verdict& verdict) {
    const json& asked = submission.note["workloads"];
    json traces = json::array();
    for (size_t i = 0; i < Shapes(served).size(); ++i) {
      const std::string id = WorkloadId(served, i);
      if (!asked.empty() && std::find(asked.begin(), asked.end(), id) == asked.end()) continue;
      const MeasuredOk* ok = verdict.ok();
      const ShapeTiming* timing = nullptr;
      if (ok != nullptr) {
        for (const ShapeTiming& one : ok->shapes) {
          if (one.shape == Shapes(served)[i]) timing = &one;
        }
        if (timing == nullptr) continue;
      }
      traces.push_back({{"definition", served.name},
                        {"workload", WorkloadOf(served, i)},
                        {"solution", submission.note["solution"]},
                        {"evaluation", EvaluationOf(verdict, timing)}});
    }
    return traces;
  }

  const DialectContext context_;
};

}  // namespace

std::unique_ptr<Dialect> MakeFlashinfer(const DialectContext& context) {
  return std::make_unique<Flashinfer>(context);
}

}  // namespace kernelcast::gateway
