// The API of KernelGYM (kernelgym/server/api/server.py). Each request has its own reference, a task
// in the form of KernelBench.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "services/gateway/dialects/dialects.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;

constexpr char kKernelgym[] = "kernelgym";
constexpr size_t kMaxTaskId = 100;
constexpr size_t kMaxBatch = 100;
constexpr size_t kMinCode = 10;
constexpr size_t kMaxCode = 100'000;
constexpr char kName[] = "own_references";
constexpr char kReferenceFile[] = "reference.py";

std::string InternalId(const std::string& caller, const std::string& task_id) {
  return ContentHasher().Add(kKernelgym).Add(caller).Add(task_id).Hex128();
}

// Options whose other values are not supported, and the only value that is.
absl::Status CheckOptions(const json& body) {
  const std::pair<const char*, const char*> texts[] = {{"toolkit", "kernelbench"},
                                                       {"backend_adapter", "kernelbench"},
                                                       {"workflow", "kernelbench"},
                                                       {"entry_point", "Model"}};
  for (const auto& [field, only] : texts) {
    KC_ASSIGN_OR_RETURN(const std::string value, JsonText(body, field, only));
    if (value != only) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": only '", only, "' is supported"));
    }
  }
  KC_ASSIGN_OR_RETURN(const std::string backend, JsonText(body, "backend", "triton"));
  if (backend != "triton" && backend != "cuda") {
    return absl::InvalidArgumentError("backend: only 'triton' and 'cuda' are supported");
  }
  if (body.value("force_refresh", json(false)) == json(true)) {
    return absl::InvalidArgumentError(
        "force_refresh: is not supported; give another task_id for another measurement");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Code(const json& body, const char* field) {
  KC_ASSIGN_OR_RETURN(std::string code, JsonText(body, field));
  if (code.size() < kMinCode || code.size() > kMaxCode) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": must have ", kMinCode, " to ", kMaxCode, " bytes"));
  }
  return code;
}

absl::StatusOr<std::string> TaskId(const json& body) {
  KC_ASSIGN_OR_RETURN(std::string id, JsonText(body, "task_id"));
  if (id.empty() || id.size() > kMaxTaskId) {
    return absl::InvalidArgumentError("task_id: must have 1 to 100 characters");
  }
  return id;
}

std::string StatusOf(const Task& task) {
  if (task.verdict == nullptr) return "processing";
  return task.verdict->settled() ? "completed" : "failed";
}

json MeasuredFields(const Measurement& measurement) {
  json fields = {{"compiled", true},
                 {"correctness", false},
                 {"decoy_kernel", std::holds_alternative<Exploit>(measurement.outcome)},
                 {"metadata",
                  {{"hardware", measurement.device.model},
                   {"gpu_name", measurement.device.model},
                   {"outcome", std::string(OutcomeName(measurement.outcome))}}}};
  if (const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome); ok != nullptr) {
    fields["correctness"] = true;
    fields["speedup"] = ok->speedup.value;
    fields["metadata"]["speedup_low"] = ok->speedup.low;
    fields["metadata"]["speedup_high"] = ok->speedup.high;
    if (!ok->shapes.empty()) {
      fields["kernel_runtime"] = CandidateMs(*ok);
      fields["reference_runtime"] = ReferenceMs(*ok);
    }
  }
  return fields;
}

json ResultOf(const Task& task) {
  json result = {{"task_id", task.submission->note["task_id"]},
                 {"status", StatusOf(task)},
                 {"compiled", nullptr},
                 {"correctness", nullptr},
                 {"decoy_kernel", nullptr},
                 {"reference_runtime", nullptr},
                 {"kernel_runtime", nullptr},
                 {"speedup", nullptr},
                 {"metadata", nullptr},
                 {"error_message", nullptr},
                 {"error_code", nullptr},
                 {"submitted_at", FormatTime(task.created_ns)},
                 {"completed_at", nullptr},
                 {"processing_time", nullptr}};
  if (task.verdict == nullptr) return result;
  const Verdict& verdict = *task.verdict;
  if (verdict.ok() == nullptr) result["error_message"] = FailureText(verdict);
  if (!verdict.settled()) return result;
  result["completed_at"] = FormatTime(verdict.settled_ns);
  result["processing_time"] =
      absl::ToDoubleSeconds(absl::Nanoseconds(verdict.settled_ns - verdict.accepted_ns));
  if (verdict.compile_error.has_value()) {
    result["compiled"] = false;
    result["correctness"] = false;
  } else {
    result.update(MeasuredFields(*verdict.measurement));
  }
  return result;
}

class Kernelgym final : public JsonDialect {
 public:
  explicit Kernelgym(const DialectContext& context)
      : context_(context), started_ns_(context.clock->MonotonicNs()) {}

  std::string_view name() const override { return kKernelgym; }

  HttpReply Refuse(const absl::Status& error) const override {
    if (!absl::IsInvalidArgument(error)) return DetailReply(error);
    return ErrorReply(error, {{"error", "RequestValidationError"},
                              {"message", std::string(error.message())},
                              {"error_code", "VALIDATION_ERROR"},
                              {"timestamp", FormatTime(context_.clock->WallNs())}});
  }

 private:
  absl::StatusOr<json> Answer(const HttpRequest& request) override {
    if (Matches(request, "GET", {})) return json{{"name", "KernelGym"}};
    if (Matches(request, "GET", {"health"})) return Health();
    if (Matches(request, "POST", {"evaluate"})) {
      KC_ASSIGN_OR_RETURN(const json body, ParseJsonBody(request));
      KC_ASSIGN_OR_RETURN(const std::string id, Submit(request.caller, body));
      context_.desk->Wait({id}, context_.longest_wait);
      KC_ASSIGN_OR_RETURN(const Task task, context_.desk->Find(id));
      NoteSubject(request, task);
      return ResultOf(task);
    }
    if (Matches(request, "POST", {"evaluate", "batch"})) return Batch(request);
    if (Matches(request, "GET", {"status", "*"})) {
      KC_ASSIGN_OR_RETURN(const Task task, Known(request));
      json status = {{"task_id", request.path[1]}, {"status", StatusOf(task)}};
      if (StatusOf(task) == "failed") status["error_message"] = FailureText(*task.verdict);
      return status;
    }
    if (Matches(request, "GET", {"results", "*"})) {
      KC_ASSIGN_OR_RETURN(const Task task, Known(request));
      if (task.verdict == nullptr) return NoSuchTask(request.path[1]);
      return ResultOf(task);
    }
    if (Matches(request, "DELETE", {"tasks", "*"})) {
      return absl::NotFoundError(
          absl::StrCat("Task ", request.path[1], " not found or cannot be cancelled"));
    }
    return absl::NotFoundError("Not Found");
  }

  static absl::Status NoSuchTask(const std::string& id) {
    return absl::NotFoundError(absl::StrCat("Task ", id, " not found"));
  }

  absl::StatusOr<Task> Known(const HttpRequest& request) {
    absl::StatusOr<Task> task = context_.desk->Find(InternalId(request.caller, request.path[1]));
    if (absl::IsNotFound(task.status())) return NoSuchTask(request.path[1]);
    if (task.ok()) NoteSubject(request, *task);
    return task;
  }

  // Returns the desk's id of the task.
  absl::StatusOr<std::string> Submit(const std::string& caller, const json& body) {
    KC_ASSIGN_OR_RETURN(const std::string task_id, TaskId(body));
    KC_RETURN_IF_ERROR(CheckOptions(body));
    KC_ASSIGN_OR_RETURN(std::string reference, Code(body, "reference_code"));
    KC_ASSIGN_OR_RETURN(std::string kernel, Code(body, "kernel_code"));
    KC_ASSIGN_OR_RETURN(Problem problem, ParseProblem({{kReferenceFile, std::move(reference)}}));
    const Site& site = context_.catalogue->own_references();
    if (!problem.targets.contains(site.target)) {
      return absl::InvalidArgumentError(
          absl::StrCat("reference_code: has no reference for '", site.target, "'"));
    }
    Submission submission;
    submission.task_id = InternalId(caller, task_id);
    submission.dialect = kKernelgym;
    submission.owner = caller;
    submission.name = kName;
    KC_ASSIGN_OR_RETURN(submission.candidate,
                        MakeCandidate(problem, site.target, Language::kPython, std::move(kernel)));
    submission.candidate.name = task_id;
    submission.device_model = site.device_model;
    submission.problem_files = std::move(problem.files);
    submission.note = {{"task_id", task_id}};
    KC_ASSIGN_OR_RETURN(const Task task, context_.desk->Submit(std::move(submission)));
    return task.submission->task_id;
  }

  absl::StatusOr<json> Batch(const HttpRequest& request) {
    KC_ASSIGN_OR_RETURN(const json body, ParseJsonBody(request));
    KC_ASSIGN_OR_RETURN(const std::string batch_id, JsonText(body, "batch_id"));
    const auto tasks = body.find("tasks");
    if (tasks == body.end() || !tasks->is_array() || tasks->empty() || tasks->size() > kMaxBatch) {
      return absl::InvalidArgumentError("tasks: a batch has 1 to 100 tasks");
    }
    std::vector<absl::StatusOr<std::string>> ids;
    std::vector<std::string> accepted;
    for (const json& task : *tasks) {
      if (!task.is_object()) return absl::InvalidArgumentError("tasks: expected objects");
      ids.push_back(Submit(request.caller, task));
      // The client sends all again. Tasks that were accepted are joined then.
      if (absl::IsResourceExhausted(ids.back().status()) ||
          absl::IsUnavailable(ids.back().status())) {
        return ids.back().status();
      }
      if (ids.back().ok()) accepted.push_back(*ids.back());
    }
    context_.desk->Wait(accepted, context_.longest_wait);
    json results = json::array();
    size_t completed = 0;
    size_t processing = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const absl::StatusOr<Task> task =
          ids[i].ok() ? context_.desk->Find(*ids[i]) : absl::StatusOr<Task>(ids[i].status());
      if (task.ok()) {
        results.push_back(ResultOf(*task));
      } else {
        results.push_back({{"task_id", (*tasks)[i].value("task_id", json(nullptr))},
                           {"status", "failed"},
                           {"error_message", std::string(task.status().message())}});
      }
      completed += results.back()["status"] == "completed" ? 1 : 0;
      processing += results.back()["status"] == "processing" ? 1 : 0;
    }
    return json{{"batch_id", batch_id},
                {"total_tasks", tasks->size()},
                {"completed_tasks", completed},
                {"failed_tasks", tasks->size() - completed - processing},
                {"results", results},
                {"batch_status", processing > 0 ? "processing" : "completed"}};
  }

  json Health() const {
    const Site& site = context_.catalogue->own_references();
    const std::string device = site.device_model.empty() ? site.target : site.device_model;
    const uint64_t pending = context_.desk->pending();
    const absl::StatusOr<uint64_t> accepted = context_.archive->Count(kKernelgym, kName);
    return {{"status", context_.evaluator->healthy() ? "healthy" : "unhealthy"},
            {"timestamp", FormatTime(context_.clock->WallNs())},
            {"gpu_status", {{device, json::object()}}},
            {"queue_status", {{"processing", pending}}},
            {"memory_usage", json::object()},
            {"active_tasks", pending},
            {"total_processed", accepted.ok() ? *accepted - std::min(*accepted, pending) : 0},
            {"uptime", absl::ToDoubleSeconds(
                           absl::Nanoseconds(context_.clock->MonotonicNs() - started_ns_))}};
  }

  const DialectContext context_;
  const int64_t started_ns_;
};

}  // namespace

std::unique_ptr<Dialect> MakeKernelgym(const DialectContext& context) {
  return std::make_unique<Kernelgym>(context);
}

}  // namespace kernelcast::gateway
