// The API of GEPA's EvalServer (src/gepa/oa/eval_server.py). /gepa/NAME is the server of one served
// problem, a task without examples.

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "services/gateway/dialects/dialects.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;

constexpr char kGepa[] = "gepa";
// Clients end their search at this status, so it stands for nothing else.
constexpr int kBudgetSpent = 429;
constexpr char kExample[] = "_single";

// A candidate is a text, or an object of texts with one component.
absl::StatusOr<std::string> CandidateText(const json& body) {
  const auto found = body.find("candidate");
  if (found != body.end() && found->is_object()) {
    if (found->size() != 1 || !found->begin()->is_string()) {
      return absl::InvalidArgumentError("candidate: one component with a text is supported");
    }
    return found->begin()->get<std::string>();
  }
  return JsonText(body, "candidate");
}

json InfoOf(const Verdict& verdict) {
  json info = {{"feedback", verdict.ok() != nullptr ? verdict.feedback : FailureText(verdict)},
               {"correct", verdict.ok() != nullptr}};
  if (const MeasuredOk* ok = verdict.ok(); ok != nullptr) {
    info["speedup"] = ok->speedup.value;
    info["speedup_low"] = ok->speedup.low;
    info["speedup_high"] = ok->speedup.high;
  }
  return info;
}

class Gepa final : public Dialect {
 public:
  explicit Gepa(const DialectContext& context) : context_(context) {}

  std::string_view name() const override { return kGepa; }
  HttpReply Refuse(const absl::Status& error) const override {
    HttpReply reply = ErrorReply(error, {{"error", std::string(error.message())}});
    if (reply.status == kBudgetSpent) reply.status = HttpStatus(absl::UnavailableError(""));
    return reply;
  }

  HttpReply Handle(const HttpRequest& request) override {
    const Served* served =
        request.path.size() != 2 ? nullptr : context_.catalogue->Find(request.path[0]);
    if (served == nullptr) {
      return Refuse(absl::NotFoundError("the server of a problem is at /gepa/NAME"));
    }
    const absl::StatusOr<uint64_t> used = context_.archive->Count(kGepa, served->name);
    if (!used.ok()) return Refuse(used.status());
    if (Matches(request, "GET", {"*", "status"})) return {200, StatusOf(*served, *used)};
    if (Matches(request, "GET", {"*", "task"})) return {200, TaskOf(*served)};
    const bool examples = Matches(request, "POST", {"*", "evaluate_examples"});
    if (!examples && !Matches(request, "POST", {"*", "evaluate"})) {
      return Refuse(absl::NotFoundError("Not Found"));
    }
    HttpReply reply = Evaluate(request, *served, examples);
    const absl::StatusOr<uint64_t> now_used = context_.archive->Count(kGepa, served->name);
    if (now_used.ok() && reply.body.is_object()) {
      reply.body["budget"] = BudgetOf(*served, *now_used);
    }
    return reply;
  }

 private:
  static bool Spent(const Served& served, uint64_t used) {
    return served.max_evaluations.has_value() && used >= *served.max_evaluations;
  }

  static json BudgetOf(const Served& served, uint64_t used) {
    json budget = {{"exhausted", Spent(served, used)}, {"used", used}};
    if (served.max_evaluations.has_value()) {
      budget["max_evals"] = *served.max_evaluations;
      budget["remaining_evals"] = *served.max_evaluations - std::min(used, *served.max_evaluations);
    }
    return budget;
  }

  json StatusOf(const Served& served, uint64_t used) const {
    const std::lock_guard lock(mutex_);
    const auto best = best_.find(served.name);
    return {{"budget", BudgetOf(served, used)},
            {"task", served.name},
            {"best_score", best == best_.end() ? json(nullptr) : json(best->second)},
            {"total_evals", used},
            {"total_cost", 0.0}};
  }

  static json TaskOf(const Served& served) {
    return {{"objective", absl::StrCat("Make this kernel faster: ", served.description)},
            {"background", served.problem.description},
            {"seed_candidate", served.problem.targets.at(served.target).reference.source},
            {"has_dataset", false},
            {"train_size", 0},
            {"val_size", 0},
            {"test_size", 0}};
  }

  // Submits within the budget. OUT_OF_RANGE: the budget is spent. A repeated candidate costs
  // nothing.
  absl::StatusOr<Task> Start(const Served& served, Submission submission) {
    const std::lock_guard lock(budget_mutex_);
    KC_ASSIGN_OR_RETURN(const uint64_t used, context_.archive->Count(kGepa, served.name));
    if (Spent(served, used) && !context_.desk->Knows(submission.task_id)) {
      return absl::OutOfRangeError("Budget exhausted");
    }
    return context_.desk->Submit(std::move(submission));
  }

  HttpReply Evaluate(const HttpRequest& request, const Served& served, bool examples) {
    absl::StatusOr<Submission> submission = Read(request, served);
    if (!submission.ok()) return Refuse(submission.status());
    const std::string id = submission->task_id;
    const absl::StatusOr<Task> started = Start(served, *std::move(submission));
    if (absl::IsOutOfRange(started.status())) {
      return {kBudgetSpent, {{"error", std::string(started.status().message())}}};
    }
    if (!started.ok()) return Refuse(started.status());
    NoteSubject(request, *started);
    context_.desk->Wait({id}, context_.longest_wait);
    const absl::StatusOr<Task> task = context_.desk->Find(id);
    if (!task.ok()) return Refuse(task.status());
    if (task->verdict == nullptr) {
      return Refuse(absl::UnavailableError("the candidate is still being measured; ask again"));
    }
    const Verdict& verdict = *task->verdict;
    if (!verdict.settled()) return Refuse(absl::UnavailableError(FailureText(verdict)));
    const double score = verdict.ok() != nullptr ? verdict.ok()->speedup.value : 0.0;
    Note(served, score);
    if (!examples) return {200, {{"score", score}, {"info", InfoOf(verdict)}}};
    return {200,
            {{"average_score", score},
             {"scores", {{kExample, score}}},
             {"infos", {{kExample, InfoOf(verdict)}}},
             {"num_evaluated", 1},
             {"errors", json::object()}}};
  }

  absl::StatusOr<Submission> Read(const HttpRequest& request, const Served& served) const {
    KC_ASSIGN_OR_RETURN(const json body, ParseJsonBody(request));
    KC_ASSIGN_OR_RETURN(std::string source, CandidateText(body));
    const Language language =
        served.problem.task.has_value() ? Language::kPython : Language::kNative;
    Submission submission;
    KC_ASSIGN_OR_RETURN(submission.candidate,
                        MakeCandidate(served.problem, served.target, language, std::move(source)));
    submission.dialect = kGepa;
    submission.owner = request.caller;
    submission.name = served.name;
    submission.device_model = served.site().device_model;
    submission.task_id = ContentHasher()
                             .Add(kGepa)
                             .Add(served.name)
                             .Add(submission.candidate.candidate_id)
                             .Add(submission.device_model)
                             .Hex128();
    return submission;
  }

  void Note(const Served& served, double score) {
    const std::lock_guard lock(mutex_);
    const auto [best, first] = best_.try_emplace(served.name, score);
    if (!first) best->second = std::max(best->second, score);
  }

  const DialectContext context_;
  // Held from the check of the budget until the task counts.
  std::mutex budget_mutex_;
  mutable std::mutex mutex_;
  // Since this process started, by name.
  std::map<std::string, double> best_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Dialect> MakeGepa(const DialectContext& context) {
  return std::make_unique<Gepa>(context);
}

}  // namespace kernelcast::gateway
