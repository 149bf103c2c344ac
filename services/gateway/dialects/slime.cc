// The reward that slime's remote_rm asks for (slime/rollout/rm_hub/__init__.py): the whole reply is
// the reward. It gives up after 120 s and asks again.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "services/gateway/dialects/dialects.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;

constexpr char kSlime[] = "slime";
constexpr std::string_view kFence = "```";

// The last fenced block of a response, or all of it if it has none.
std::string SourceOf(const std::string& response) {
  std::string source = response;
  for (size_t open = response.find(kFence); open != std::string::npos;) {
    const size_t line_end = response.find('\n', open);
    if (line_end == std::string::npos) break;
    const size_t close = response.find(kFence, line_end + 1);
    if (close == std::string::npos) break;
    source = response.substr(line_end + 1, close - line_end - 1);
    open = response.find(kFence, close + kFence.size());
  }
  return source;
}

class Slime final : public Dialect {
 public:
  explicit Slime(const DialectContext& context) : context_(context) {}

  std::string_view name() const override { return kSlime; }
  HttpReply Refuse(const absl::Status& error) const override {
    return ErrorReply(error, {{"error", std::string(error.message())}});
  }

  HttpReply Handle(const HttpRequest& request) override {
    absl::StatusOr<double> reward = Reward(request);
    if (!reward.ok()) return Refuse(reward.status());
    return {200, json(*reward)};
  }

 private:
  absl::StatusOr<double> Reward(const HttpRequest& request) {
    if (!Matches(request, "POST", {}) && !Matches(request, "POST", {"*"})) {
      return absl::NotFoundError("POST /slime/NAME, or POST /slime with the name as the label");
    }
    KC_ASSIGN_OR_RETURN(const json body, ParseJsonBody(request));
    KC_ASSIGN_OR_RETURN(const std::string response, JsonText(body, "response"));
    std::string name;
    if (!request.path.empty()) {
      name = request.path[0];
    } else {
      KC_ASSIGN_OR_RETURN(name, JsonText(body, "label"));
    }
    const Served* served = context_.catalogue->Find(name);
    if (served == nullptr) {
      return absl::NotFoundError(absl::StrCat("no problem is served as '", name, "'"));
    }
    const Language language =
        served->problem.task.has_value() ? Language::kPython : Language::kNative;
    absl::StatusOr<Candidate> candidate =
        MakeCandidate(served->problem, served->target, language, SourceOf(response));
    if (!candidate.ok()) return 0.0;  // the model's answer is no source, such as an empty one
    Submission submission;
    submission.dialect = kSlime;
    submission.owner = request.caller;
    submission.name = served->name;
    submission.candidate = *std::move(candidate);
    submission.device_model = served->site().device_model;
    submission.task_id = ContentHasher()
                             .Add(kSlime)
                             .Add(served->name)
                             .Add(submission.candidate.candidate_id)
                             .Add(submission.device_model)
                             .Hex128();
    const std::string id = submission.task_id;
    KC_ASSIGN_OR_RETURN(const Task started, context_.desk->Submit(std::move(submission)));
    NoteSubject(request, started);
    context_.desk->Wait({id}, context_.longest_wait);
    KC_ASSIGN_OR_RETURN(const Task task, context_.desk->Find(id));
    if (task.verdict == nullptr) {
      return absl::UnavailableError("the candidate is still being measured; ask again");
    }
    if (!task.verdict->settled()) return absl::UnavailableError(FailureText(*task.verdict));
    return task.verdict->ok() != nullptr ? task.verdict->ok()->speedup.value : 0.0;
  }

  const DialectContext context_;
};

}  // namespace

std::unique_ptr<Dialect> MakeSlime(const DialectContext& context) {
  return std::make_unique<Slime>(context);
}

}  // namespace kernelcast::gateway
