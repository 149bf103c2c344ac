// The API of `flashinfer-bench serve` (flashinfer_bench/serve/app.py). A served problem is a
// definition, and each of its bench shapes a workload.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/bounded_json.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/domain/python_task.h"
#include "common/domain/text.h"
#include "services/gateway/dialects/dialects.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;

constexpr char kFlashinfer[] = "flashinfer";
constexpr double kLongestPoll = 3600;
constexpr size_t kMaxTasks = 1000;
constexpr std::string_view kIdPrefix = "k_";  // of a candidate's id
constexpr size_t kNameHashDigits = 8;
// Ids of tasks that fail at once. The rest of such an id is all that is known of the task.
constexpr char kFailedPrefix[] = "failed_";

struct Solution {
  std::string name;
  std::string definition;
  json spec;
  json sources;
};

// A solution for a problem whose candidates are one source.
struct SingleSource {
  Language language = Language::kPython;
  std::string source;
};

const std::vector<AxisValues>& Shapes(const Served& served) {
  return served.problem.targets.at(served.target).bench_shapes;
}

bool IsDefinition(const Problem& problem) {
  return problem.task.has_value() &&
         (problem.task->format == PythonTask::Format::kFlashInferBench ||
          problem.task->format == PythonTask::Format::kSolExecBench);
}

// The workloads of a problem, by bench shape.
std::vector<json> WorkloadsOf(const Served& served) {
  json stored = json::array();
  if (IsDefinition(served.problem)) {
    stored = ParseBoundedJson<json>(served.problem.task->details).at("cases");
  }
  std::vector<json> workloads;
  for (const AxisValues& shape : Shapes(served)) {
    json workload = {{"uuid", ContentHasher()
                                  .Add(served.problem.problem_id)
                                  .Add(served.target)
                                  .Add(workloads.size())
                                  .Hex128()},
                     {"axes", json::object()},
                     {"inputs", json::object()}};
    for (const auto& [axis, value] : shape) workload["axes"][axis] = value;
    for (const TensorSpec& input : served.problem.inputs) {
      workload["inputs"][input.name] = {{"type", "random"}};
    }
    for (size_t i = 0; i < stored.size(); ++i) {
      if (served.problem.task->cases[i].axes != shape) continue;
      for (const char* const field : {"uuid", "inputs"}) {
        if (stored[i].contains(field)) workload[field] = stored[i][field];
      }
    }
    workloads.push_back(std::move(workload));
  }
  return workloads;
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
    if (name.empty()) {
      return absl::StrCat(source,
                          "\n\ndef run(*inputs):\n    raise NotImplementedError(\"the task's ",
                          "program calls ", WordList(served.problem.task->entries, "and"), "\")\n");
    }
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
  if (IsDefinition(served.problem)) {
    json definition = ParseBoundedJson<json>(served.problem.task->details).at("definition");
    definition["name"] = served.name;
    return definition;
  }
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
  return problem.task.has_value() ? problem.task->entries.front() : "kernelcast_run";
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
  KC_ASSIGN_OR_RETURN(const std::vector<std::string> dependencies,
                      JsonTexts(*spec, "dependencies"));
  if (!dependencies.empty()) {
    return absl::InvalidArgumentError("spec.dependencies: are not supported");
  }
  solution.spec = *spec;
  for (const json& file : *sources) {
    if (!file.is_object()) return absl::InvalidArgumentError("sources: expected objects");
    KC_ASSIGN_OR_RETURN(const std::string path, JsonText(file, "path"));
    KC_ASSIGN_OR_RETURN(const std::string content, JsonText(file, "content"));
    solution.sources.push_back({{"path", path}, {"content", content}});
  }
  return solution;
}

// The parts of a solution that decide what runs, as a candidate's source. Solutions that differ in
// their names are one candidate.
std::string SourceOf(const Solution& solution) {
  json spec = json::object();
  for (const char* const field : {"language", "languages", "entry_point", "binding",
                                  "destination_passing_style", "compile_options"}) {
    if (solution.spec.contains(field)) spec[field] = solution.spec[field];
  }
  return json{{"spec", spec}, {"sources", solution.sources}}.dump();
}

absl::StatusOr<SingleSource> SingleSourceOf(const Solution& solution, const Served& served) {
  SingleSource single;
  KC_ASSIGN_OR_RETURN(const std::string language, JsonText(solution.spec, "language"));
  KC_ASSIGN_OR_RETURN(single.language, LanguageOf(language));
  KC_ASSIGN_OR_RETURN(const std::string entry, JsonText(solution.spec, "entry_point"));
  const std::vector<std::string> parts = absl::StrSplit(entry, "::");
  if (parts.size() != 2) {
    return absl::InvalidArgumentError("spec.entry_point: expected FILE::FUNCTION");
  }
  if (solution.sources.size() != 1 || solution.sources[0]["path"] != parts[0]) {
    return absl::InvalidArgumentError(
        "sources: one source, with the entry point, is supported; put all code in it");
  }
  const std::string function = EntryOf(served.problem);
  if (parts[1] != function) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec.entry_point: solutions of ", served.name, " define ", function));
  }
  single.source = solution.sources[0]["content"].get<std::string>();
  return single;
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
  if (const auto* const wrong = std::get_if<WrongResult>(&outcome)) {
    switch (wrong->cause) {
      case WrongResult::Cause::kShape: return "INCORRECT_SHAPE";
      case WrongResult::Cause::kDtype: return "INCORRECT_DTYPE";
      case WrongResult::Cause::kForm: return "RUNTIME_ERROR";
      default: return "INCORRECT_NUMERICAL";
    }
  }
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

struct Endpoint {
  const char* method;
  const char* path;
  const char* description;
};
constexpr Endpoint kEndpoints[] = {
    {"GET", "/", "The server and its endpoints"},
    {"GET", "/docs", "The endpoints as a page"},
    {"GET", "/openapi.json", "The endpoints as an OpenAPI document"},
    {"GET", "/health", "Whether the server works, its devices, and the number of pending tasks"},
    {"GET", "/definitions", "All definitions"},
    {"GET", "/definitions/{name}", "A definition"},
    {"GET", "/definitions/{name}/workloads", "The workloads of a definition"},
    {"GET", "/workloads/{uuid}", "A workload"},
    {"POST", "/evaluate", "Submits a solution: {solution, workload_uuids}"},
    {"GET", "/tasks/{task_id}", "A task; ?timeout=SECONDS waits for its end"},
    {"POST", "/tasks/batch", "Several tasks: {task_ids, timeout}"},
};

json Endpoints() {
  json all = json::array();
  for (const Endpoint& endpoint : kEndpoints) {
    all.push_back({{"method", endpoint.method},
                   {"path", endpoint.path},
                   {"description", endpoint.description}});
  }
  return all;
}

json OpenApi() {
  json paths = json::object();
  for (const Endpoint& endpoint : kEndpoints) {
    const std::string path = endpoint.path;
    json operation = {{"summary", endpoint.description},
                      {"responses", {{"200", {{"description", "OK"}}}}}};
    const size_t open = path.find('{');
    if (open != std::string::npos) {
      const std::string parameter = path.substr(open + 1, path.find('}') - open - 1);
      operation["parameters"] = json::array({{{"name", parameter},
                                              {"in", "path"},
                                              {"required", true},
                                              {"schema", {{"type", "string"}}}}});
    }
    const bool posts = std::string_view(endpoint.method) == "POST";
    if (posts) {
      operation["requestBody"] = {
          {"content", {{"application/json", {{"schema", {{"type", "object"}}}}}}}};
    }
    paths[path][posts ? "post" : "get"] = std::move(operation);
  }
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "FlashInfer-Bench Server"}, {"version", std::string(Version())}}},
          {"servers", json::array({{{"url", absl::StrCat("/", kFlashinfer)}}})},
          {"paths", paths}};
}

HttpReply DocsPage() {
  std::string rows;
  for (const Endpoint& endpoint : kEndpoints) {
    absl::StrAppend(&rows, "<tr><td>", endpoint.method, "</td><td><code>", endpoint.path,
                    "</code></td><td>", endpoint.description, "</td></tr>\n");
  }
  HttpReply reply;
  reply.page = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<title>FlashInfer-Bench Server</title>\n"
      "<h1>FlashInfer-Bench Server</h1>\n<p>Served by Kernelcast ",
      std::string(Version()), ". <a href=\"openapi.json\">OpenAPI document</a></p>\n<table>\n",
      rows, "</table>\n</html>\n");
  return reply;
}

class Flashinfer final : public JsonDialect {
 public:
  explicit Flashinfer(const DialectContext& context) : context_(context) {}

  std::string_view name() const override { return kFlashinfer; }

  HttpReply Handle(const HttpRequest& request) override {
    if (Matches(request, "GET", {"docs"})) return DocsPage();
    return JsonDialect::Handle(request);
  }

 private:
  absl::StatusOr<json> Answer(const HttpRequest& request) override {
    if (Matches(request, "GET", {})) {
      return json{{"name", "FlashInfer-Bench Server"},
                  {"version", std::string(Version())},
                  {"docs", absl::StrCat("/", kFlashinfer, "/docs")},
                  {"endpoints", Endpoints()}};
    }
    if (Matches(request, "GET", {"openapi.json"})) return OpenApi();
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
      return json(WorkloadsOf(*served));
    }
    if (Matches(request, "GET", {"workloads", "*"})) return Workload(request.path[1]);
    if (Matches(request, "POST", {"evaluate"})) return Evaluate(request);
    if (Matches(request, "GET", {"tasks", "*"})) {
      const auto timeout = request.query.find("timeout");
      double seconds = 0;
      if (timeout != request.query.end() && !absl::SimpleAtod(timeout->second, &seconds)) {
        return absl::InvalidArgumentError("timeout: expected a number of seconds");
      }
      if (!FailedAtOnce(request.path[1])) {
        KC_ASSIGN_OR_RETURN(const Task task, Known(request.path[1]));
        NoteSubject(request, task);
      }
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
      for (json& workload : WorkloadsOf(served)) {
        if (workload["uuid"] == id) return std::move(workload);
      }
    }
    return absl::NotFoundError(absl::StrCat("Workload not found: ", id));
  }

  absl::StatusOr<json> Evaluate(const HttpRequest& request) {
    KC_ASSIGN_OR_RETURN(const json body, ParseJsonBody(request));
    KC_ASSIGN_OR_RETURN(const Solution solution, ReadSolution(body));
    KC_ASSIGN_OR_RETURN(const std::vector<std::string> workloads,
                        JsonTexts(body, "workload_uuids"));
    absl::StatusOr<const Served*> served = Definition(solution.definition);
    if (!served.ok()) return absl::InvalidArgumentError(served.status().message());
    // In a definition, the runner reads solutions as they are.
    SingleSource single;
    if (IsDefinition((*served)->problem)) {
      single.source = SourceOf(solution);
    } else {
      KC_ASSIGN_OR_RETURN(single, SingleSourceOf(solution, **served));
    }
    Submission submission;
    submission.dialect = kFlashinfer;
    submission.owner = request.caller;
    submission.name = (*served)->name;
    KC_ASSIGN_OR_RETURN(submission.candidate,
                        MakeCandidate((*served)->problem, (*served)->target, single.language,
                                      std::move(single.source)));
    submission.candidate.name = solution.name.substr(0, 128);
    submission.device_model = (*served)->site().device_model;
    const std::string unique_name =
        absl::StrCat(solution.name, "_",
                     submission.candidate.candidate_id.substr(kIdPrefix.size(), kNameHashDigits));
    if (!workloads.empty() && !HasWorkload(**served, workloads)) {
      const std::string known =
          json{{"definition", solution.definition}, {"solution", unique_name}}.dump();
      return json{{"task_id", absl::StrCat(kFailedPrefix, absl::WebSafeBase64Escape(known))},
                  {"normalized_solution_name", unique_name}};
    }
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
    std::vector<std::string> waiting;
    for (const std::string& id : ids) {
      if (FailedAtOnce(id)) continue;
      KC_RETURN_IF_ERROR(Known(id).status());
      waiting.push_back(id);
    }
    if (seconds > 0) context_.desk->Wait(waiting, absl::Seconds(seconds));
    json all = json::array();
    for (const std::string& id : ids) {
      if (std::optional<json> failed = FailedAtOnce(id)) {
        all.push_back(*std::move(failed));
        continue;
      }
      KC_ASSIGN_OR_RETURN(const Task task, Known(id));
      all.push_back(TaskOf(task));
    }
    return all;
  }

  static bool HasWorkload(const Served& served, const std::vector<std::string>& ids) {
    return std::ranges::any_of(WorkloadsOf(served), [&](const json& workload) {
      return std::ranges::find(ids, workload["uuid"].get<std::string>()) != ids.end();
    });
  }

  // The task of an id with kFailedPrefix; nothing for other ids.
  static std::optional<json> FailedAtOnce(const std::string& id) {
    std::string text;
    if (!id.starts_with(kFailedPrefix) ||
        !absl::WebSafeBase64Unescape(id.substr(std::size(kFailedPrefix) - 1), &text)) {
      return std::nullopt;
    }
    const json known = ParseBoundedJson<json>(text);
    if (!known.is_object() || !known.contains("definition") || !known["definition"].is_string()) {
      return std::nullopt;
    }
    return json{{"task_id", id},
                {"status", "failed"},
                {"definition", known["definition"]},
                {"solution", known.value("solution", json())},
                {"traces", nullptr},
                {"error", absl::StrCat("No workloads found for definition: ",
                                       known["definition"].get<std::string>())}};
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
    std::vector<json> workloads = WorkloadsOf(served);
    for (size_t i = 0; i < workloads.size(); ++i) {
      const json& id = workloads[i]["uuid"];
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
                        {"workload", std::move(workloads[i])},
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
