// The API of GPU MODE's kernelbot (src/kernelbot/api/main.py), as popcorn-cli uses it. A served
// problem is a leaderboard.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "services/gateway/dialects/dialects.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;

constexpr char kPopcorn[] = "popcorn";
constexpr size_t kIdHexDigits = 13;  // 52 bits, which every reader of JSON numbers holds
constexpr size_t kMaxListed = 100;
constexpr size_t kMaxFileName = 128;
constexpr size_t kMaxReasonBytes = 200;
constexpr double kSecondsPerNs = 1e-9;

absl::Status NoSuchSubmission() { return absl::NotFoundError("Submission not found"); }

std::string TaskIdOf(int64_t submission_id) { return absl::StrCat("popcorn-", submission_id); }

// The GPUs of a leaderboard. Without device models the target stands for all.
std::vector<std::string> GpusOf(const Served& served) {
  if (!served.device_models.empty()) return served.device_models;
  return {served.target};
}

absl::StatusOr<Language> LanguageOfFile(const std::string& name) {
  if (absl::EndsWith(name, ".py")) return Language::kPython;
  for (const char* extension : {".cu", ".cuh", ".cpp"}) {
    if (absl::EndsWith(name, extension)) return Language::kNative;
  }
  return absl::InvalidArgumentError(
      "Please provide a Python (.py) or CUDA (.cu / .cuh / .cpp) file");
}

// The score of a leaderboard: seconds, the weighted geometric mean over the bench shapes. Null: no
// times.
json ScoreOf(const MeasuredOk& ok) {
  if (ok.shapes.empty()) return nullptr;
  const std::vector<double> weights = ShapeWeights(ok);
  double logs = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    logs += weights[i] * std::log(ok.shapes[i].candidate.median_ns);
  }
  const double score = std::exp(logs) * kSecondsPerNs;
  return std::isfinite(score) ? json(score) : json(nullptr);
}

std::string SpecOf(const AxisValues& shape) {
  return absl::StrJoin(shape, "; ", [](std::string* out, const auto& axis) {
    absl::StrAppend(out, axis.first, ": ", axis.second);
  });
}

// As the evaluation script of a task reports them, with medians in place of means.
json BenchmarksOf(const MeasuredOk& ok) {
  json result = {{"benchmark-count", absl::StrCat(ok.shapes.size())}, {"check", "pass"}};
  for (size_t i = 0; i < ok.shapes.size(); ++i) {
    const ShapeTiming& shape = ok.shapes[i];
    const std::string key = absl::StrCat("benchmark.", i, ".");
    result[key + "spec"] = SpecOf(shape.shape);
    result[key + "runs"] = absl::StrCat(shape.candidate.samples);
    result[key + "mean"] = absl::StrCat(shape.candidate.median_ns);
    result[key + "best"] = absl::StrCat(shape.candidate.min_ns);
  }
  return result;
}

// popcorn-cli's list of a submission's runs shows their runner, and no error.
std::string RunnerOf(const Task& task) {
  const std::string gpu = task.submission->note["gpu"].get<std::string>();
  if (task.verdict->passed()) return gpu;
  const std::string text = FailureText(*task.verdict);
  const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  return absl::StrCat(gpu, " (", std::string(TruncateUtf8(line, kMaxReasonBytes)), ")");
}

json RunOf(const Task& task, const std::string& mode) {
  const Verdict& verdict = *task.verdict;
  json run = {{"start_time", FormatTime(verdict.accepted_ns)},
              {"end_time", FormatTime(verdict.settled_ns)},
              {"mode", mode},
              {"secret", false},
              {"runner", RunnerOf(task)},
              {"score", nullptr},
              {"passed", verdict.passed()}};
  if (const MeasuredOk* ok = verdict.ok(); ok != nullptr) {
    if (mode == "leaderboard") run["score"] = ScoreOf(*ok);
    if (mode == "benchmark") run["result"] = BenchmarksOf(*ok);
  }
  return run;
}

// A submission to a leaderboard is also tested and benchmarked. Without a verdict there is one run,
// which says why.
json RunsOf(const Task& task) {
  json runs = json::array();
  if (task.verdict == nullptr) return runs;
  if (!task.verdict->settled()) return json::array({RunOf(task, "test")});
  const std::string mode = task.submission->note["mode"].get<std::string>();
  runs.push_back(RunOf(task, "test"));
  if (mode != "test") runs.push_back(RunOf(task, "benchmark"));
  if (mode == "leaderboard") runs.push_back(RunOf(task, "leaderboard"));
  return runs;
}

// popcorn-cli shows the error of a job that failed, and nothing about a run that failed.
json JobOf(const Task& task) {
  json job = {{"status", "running"}, {"error", nullptr}, {"last_heartbeat", nullptr}};
  if (task.verdict == nullptr) return job;
  const Verdict& verdict = *task.verdict;
  job["status"] = "succeeded";
  if (verdict.passed()) return job;
  job["status"] = "failed";
  if (verdict.measurement.has_value()) {
    const MeasureOutcome& outcome = verdict.measurement->outcome;
    if (std::holds_alternative<Exploit>(outcome)) job["status"] = "hacked";
    if (std::holds_alternative<Timeout>(outcome)) job["status"] = "timed_out";
  }
  job["error"] = FailureText(verdict);
  return job;
}

int64_t SubmissionIdOf(const Submission& submission) {
  return submission.note["id"].get<int64_t>();
}

class Popcorn final : public JsonDialect {
 public:
  explicit Popcorn(const DialectContext& context) : context_(context) {}

  std::string_view name() const override { return kPopcorn; }

  HttpReply Handle(const HttpRequest& request) override {
    if (Matches(request, "POST", {"submission", "*", "*", "*"})) {
      absl::StatusOr<json> accepted = Submit(request);
      if (!accepted.ok()) return Refuse(accepted.status());
      return {202, *std::move(accepted)};
    }
    return JsonDialect::Handle(request);
  }

 private:
  absl::StatusOr<json> Answer(const HttpRequest& request) override {
    if (Matches(request, "GET", {"health"})) {
      return json{{"status", context_.evaluator->healthy() ? "healthy" : "unavailable"},
                  {"service", "kernelbot-api"}};
    }
    if (Matches(request, "GET", {"leaderboards"})) return Leaderboards();
    if (Matches(request, "GET", {"gpus", "*"})) {
      KC_ASSIGN_OR_RETURN(const Served* served, Leaderboard(request.path[1]));
      return json(GpusOf(*served));
    }
    if (Matches(request, "GET", {"runner_queue", "*"})) return QueueOf(request.path[1]);
    if (Matches(request, "GET", {"user", "submissions"})) return List(request);
    if (Matches(request, "GET", {"user", "submissions", "*"})) return Details(request);
    if (Matches(request, "DELETE", {"user", "submissions", "*"})) {
      return absl::PermissionDeniedError(
          "the submission is not deleted: its candidate and result are in the event log, which "
          "forecasts and audits rest on; the gateway drops the oldest submissions");
    }
    if (Matches(request, "POST", {"*", "*", "*"})) {
      return absl::UnimplementedError(
          "only the modes test, benchmark and leaderboard are supported");
    }
    if (!request.path.empty() && request.path[0] == "auth") {
      return absl::UnimplementedError(
          "there is no registration here: write your token as cli_id into ~/.popcorn.yaml");
    }
    return absl::NotFoundError("Not Found");
  }

  absl::StatusOr<const Served*> Leaderboard(const std::string& name) const {
    const Served* served = context_.catalogue->Find(name);
    if (served == nullptr) {
      return absl::NotFoundError(absl::StrCat("Leaderboard ", name, " does not exist."));
    }
    return served;
  }

  json Leaderboards() const {
    json all = json::array();
    int64_t number = 0;
    for (const Served& served : context_.catalogue->served()) {
      all.push_back({{"id", ++number},
                     {"name", served.name},
                     {"deadline", "9999-12-31T00:00:00+00:00"},
                     {"description", served.description},
                     {"task", {{"lang", served.problem.task.has_value() ? "py" : "cu"}}},
                     {"gpu_types", GpusOf(served)}});
    }
    return all;
  }

  json QueueOf(const std::string& gpu) const {
    return {{"runner", "Kernelcast"}, {"gpu", gpu}, {"queued_jobs", context_.desk->pending()}};
  }

  absl::StatusOr<json> Submit(const HttpRequest& request) {
    const std::string& mode = request.path[3];
    if (mode != "test" && mode != "benchmark" && mode != "leaderboard") {
      return absl::InvalidArgumentError(absl::StrCat("Invalid submission mode: '", mode, "'"));
    }
    KC_ASSIGN_OR_RETURN(const Served* served, Leaderboard(request.path[1]));
    const std::vector<std::string> gpus = GpusOf(*served);
    const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&request](const std::string& one) {
      return absl::EqualsIgnoreCase(one, request.path[2]);
    });
    if (gpu == gpus.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("GPU ", request.path[2], " not available for ", served->name,
                       ". Choose one of: ", absl::StrJoin(gpus, ", ")));
    }
    KC_ASSIGN_OR_RETURN(UploadedFile file, FindUpload(request.content_type, request.body, "file"));
    KC_ASSIGN_OR_RETURN(const Language language, LanguageOfFile(file.file_name));
    Submission submission;
    KC_ASSIGN_OR_RETURN(submission.candidate, MakeCandidate(served->problem, served->target,
                                                            language, std::move(file.content)));
    submission.candidate.name = file.file_name.substr(0, kMaxFileName);
    submission.dialect = kPopcorn;
    submission.owner = request.caller;
    submission.name = served->name;
    submission.checks_only = mode == "test";
    if (!served->device_models.empty()) submission.device_model = *gpu;
    const std::string hash = ContentHasher()
                                 .Add(kPopcorn)
                                 .Add(submission.owner)
                                 .Add(served->name)
                                 .Add(*gpu)
                                 .Add(mode)
                                 .Add(file.file_name)
                                 .Add(submission.candidate.candidate_id)
                                 .Hex128();
    int64_t id = 0;
    static_cast<void>(absl::SimpleHexAtoi(hash.substr(0, kIdHexDigits), &id));
    submission.task_id = TaskIdOf(id);
    submission.note = {{"id", id}, {"file", file.file_name}, {"mode", mode}, {"gpu", *gpu}};
    KC_ASSIGN_OR_RETURN(const Task task, context_.desk->Submit(std::move(submission)));
    NoteSubject(request, task);
    return json{{"details", {{"id", id}, {"job_status_id", id}}},
                {"runner_queue", QueueOf(*gpu)},
                {"status", "accepted"}};
  }

  absl::StatusOr<json> List(const HttpRequest& request) {
    const auto number = [&request](const char* name, size_t fallback, size_t low, size_t high,
                                   size_t& value) {
      value = fallback;
      const auto found = request.query.find(name);
      return found == request.query.end() ||
             (absl::SimpleAtoi(found->second, &value) && value >= low && value <= high);
    };
    size_t limit = 0;
    size_t offset = 0;
    if (!number("limit", kMaxListed / 2, 1, kMaxListed, limit)) {
      return absl::InvalidArgumentError("limit must be between 1 and 100");
    }
    if (!number("offset", 0, 0, std::numeric_limits<uint32_t>::max(), offset)) {
      return absl::InvalidArgumentError("offset must be >= 0");
    }
    const auto asked = request.query.find("leaderboard");
    std::string name;
    if (asked != request.query.end()) {
      KC_ASSIGN_OR_RETURN(const Served* served, Leaderboard(asked->second));
      name = served->name;
    }
    KC_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                        context_.archive->List(kPopcorn, request.caller, name, limit, offset));
    context_.desk->Recall(ids);
    json all = json::array();
    for (const std::string& id : ids) {
      const absl::StatusOr<Task> task = context_.desk->Find(id);
      if (!task.ok()) continue;  // dropped since
      json runs = json::array();
      for (const json& run : RunsOf(*task)) {
        if (!run["passed"].get<bool>()) continue;
        runs.push_back({{"gpu_type", run["runner"]}, {"score", run["score"]}});
      }
      all.push_back({{"id", SubmissionIdOf(*task->submission)},
                     {"leaderboard_name", task->submission->name},
                     {"file_name", task->submission->note["file"]},
                     {"submission_time", FormatTime(task->created_ns)},
                     {"done", task->verdict != nullptr},
                     {"runs", runs}});
    }
    return all;
  }

  absl::StatusOr<json> Details(const HttpRequest& request) {
    int64_t id = 0;
    if (!absl::SimpleAtoi(request.path[2], &id)) return NoSuchSubmission();
    const absl::StatusOr<Task> task = context_.desk->Find(TaskIdOf(id));
    if (absl::IsNotFound(task.status())) return NoSuchSubmission();
    KC_RETURN_IF_ERROR(task.status());
    const Submission& submission = *task->submission;
    if (submission.owner != request.caller) {
      return absl::PermissionDeniedError("Not authorized to view this submission");
    }
    NoteSubject(request, *task);
    return json{{"id", id},
                {"leaderboard_id", 0},
                {"leaderboard_name", submission.name},
                {"file_name", submission.note["file"]},
                {"user_id", submission.owner},
                {"submission_time", FormatTime(task->created_ns)},
                {"done", task->verdict != nullptr},
                {"code", submission.candidate.source},
                {"runs", RunsOf(*task)},
                {"job", JobOf(*task)},
                {"runner_queue", QueueOf(submission.note["gpu"].get<std::string>())}};
  }

  const DialectContext context_;
};

}  // namespace

std::unique_ptr<Dialect> MakePopcorn(const DialectContext& context) {
  return std::make_unique<Popcorn>(context);
}

}  // namespace kernelcast::gateway
