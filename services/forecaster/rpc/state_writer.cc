#include "services/forecaster/rpc/state_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast::forecaster {
namespace {

constexpr absl::Duration kRetryWriteAfter = absl::Milliseconds(50);

const absl::Status& NobodyWaits() {
  static const absl::Status& kStatus =
      *new absl::Status(absl::CancelledError("the caller has left"));
  return kStatus;
}

}  // namespace

StateWriter::StateWriter(const Options& options, LabelStore* store,
                         LruCache<ProblemContext>* problems, std::vector<Backend*> backends,
                         ServiceMetrics* metrics)
    : options_(options),
      store_(store),
      problems_(problems),
      backends_(std::move(backends)),
      metrics_(metrics),
      thread_([this] { Loop(); }) {}

StateWriter::~StateWriter() { Stop(); }

void StateWriter::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status StateWriter::PutProblem(v1::Problem problem, Open open, ProblemDone done) {
  const int64_t bytes = static_cast<int64_t>(problem.ByteSizeLong());
  return Submit({PutProblemCall{std::move(problem), std::move(open), std::move(done)}, bytes});
}

absl::Status StateWriter::Observe(std::vector<LabelToKeep> labels, Open open, ObserveDone done) {
  int64_t bytes = 0;
  // The parsed label is about as large as its content.
  for (const LabelToKeep& label : labels) bytes += 2 * static_cast<int64_t>(label.content.size());
  return Submit({ObserveCall{std::move(labels), std::move(open), std::move(done)}, bytes});
}

absl::Status StateWriter::Submit(Queued queued) {
  {
    std::lock_guard lock(mutex_);
    if (stop_) return absl::UnavailableError("the forecaster is shutting down");
    if (queue_.size() >= options_.max_calls ||
        (!queue_.empty() && queued_bytes_ + queued.bytes > options_.max_bytes)) {
      return OverloadedError("too many calls wait for the disk", kRetryWriteAfter);
    }
    queued_bytes_ += queued.bytes;
    queue_.push_back(std::move(queued));
    metrics_->QueueLength(queue_.size());
  }
  changed_.notify_one();
  return absl::OkStatus();
}

void StateWriter::Loop() {
  for (;;) {
    std::deque<Queued> batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      batch.swap(queue_);
      queued_bytes_ = 0;
      metrics_->QueueLength(0);
    }
    std::vector<ObserveCall*> observations;
    const auto flush = [&] {
      if (!observations.empty()) Handle(observations);
      observations.clear();
    };
    for (Queued& queued : batch) {
      if (auto* observe = std::get_if<ObserveCall>(&queued.call)) {
        observations.push_back(observe);
      } else {
        flush();
        Handle(std::get<PutProblemCall>(queued.call));
      }
    }
    flush();
  }
}

void StateWriter::Handle(PutProblemCall& call) {
  if (!call.open()) return call.done(NobodyWaits());
  const auto put = [&]() -> absl::StatusOr<std::shared_ptr<const ProblemContext>> {
    KC_ASSIGN_OR_RETURN(ProblemContent content, ContentFromProto(call.problem));
    std::shared_ptr<const ProblemContext> context = problems_->Find(content.problem_id);
    if (context == nullptr) {
      KC_ASSIGN_OR_RETURN(Problem problem, ParseProblem(std::move(content.files)));
      context = std::make_shared<const ProblemContext>(std::move(problem));
      const std::string& id = context->problem.problem_id;
      const std::string bytes = ProblemFilesToProto(context->problem).SerializeAsString();
      KC_RETURN_IF_ERROR(store_->PutProblem(id, bytes));
      problems_->Put(id, context, bytes.size());
    }
    for (Backend* backend : backends_) backend->Prepare(context);
    return context;
  };
  call.done(put());
}

absl::StatusOr<std::shared_ptr<const ProblemContext>> StateWriter::FindProblem(
    const std::string& problem_id) {
  if (auto known = problems_->Find(problem_id)) return known;
  KC_ASSIGN_OR_RETURN(const std::string content, store_->GetProblem(problem_id));
  v1::Problem proto;
  if (!proto.ParseFromString(content)) {
    return absl::DataLossError(absl::StrCat("problem '", problem_id, "' is stored damaged"));
  }
  KC_ASSIGN_OR_RETURN(Problem problem, ProblemFromProto(proto));
  auto context = std::make_shared<const ProblemContext>(std::move(problem));
  problems_->Put(problem_id, context, content.size());
  return context;
}

void StateWriter::Handle(std::vector<ObserveCall*>& calls) {
  struct Accepted {
    ObserveCall* call;
    std::vector<std::shared_ptr<const ProblemContext>> problems;
  };
  std::vector<Accepted> accepted;
  std::vector<LabelRecord> records;
  for (ObserveCall* call : calls) {
    if (!call->open()) {
      call->done(NobodyWaits());
      continue;
    }
    Accepted entry = {call, {}};
    absl::Status status;
    for (size_t i = 0; i < call->labels.size() && status.ok(); ++i) {
      auto problem = FindProblem(call->labels[i].label.candidate.problem_id);
      if (problem.ok()) {
        entry.problems.push_back(*std::move(problem));
      } else {
        status = absl::Status(
            problem.status().code(),
            absl::StrCat("labels[", i, "].candidate.problem_id: ", problem.status().message()));
      }
    }
    if (!status.ok()) {
      call->done(status);
      continue;
    }
    for (LabelToKeep& label : call->labels) {
      records.push_back({label.label.label_id, label.label.candidate.problem_id,
                         label.label.candidate.target, label.label.device_model,
                         std::move(label.content)});
    }
    accepted.push_back(std::move(entry));
  }
  if (accepted.empty()) return;

  std::vector<const LabelRecord*> pointers;
  pointers.reserve(records.size());
  for (const LabelRecord& record : records) pointers.push_back(&record);
  const absl::StatusOr<std::vector<uint64_t>> sequences = store_->Append(pointers);
  if (!sequences.ok()) {
    Log(LogLevel::kError, "labels could not be written",
        {{"labels", records.size()}, {"error", std::string(sequences.status().message())}});
    for (const Accepted& entry : accepted) entry.call->done(sequences.status());
    return;
  }

  std::vector<ObservedLabel> fresh;
  std::vector<v1::ObserveReply> replies(accepted.size());
  size_t position = 0;
  for (size_t i = 0; i < accepted.size(); ++i) {
    for (size_t j = 0; j < accepted[i].problems.size(); ++j, ++position) {
      const uint64_t sequence = (*sequences)[position];
      if (sequence == 0) {
        replies[i].set_duplicates(replies[i].duplicates() + 1);
        continue;
      }
      replies[i].set_accepted(replies[i].accepted() + 1);
      ObservedLabel& observed = fresh.emplace_back();
      observed.problem = std::move(accepted[i].problems[j]);
      observed.sequence = sequence;
      observed.label = std::move(accepted[i].call->labels[j].label);
      bool applies = observed.label.forecast.has_value();
      if (applies && !observed.label.forecast->baseline_candidate_id.empty()) {
        const auto reference =
            observed.problem->reference_ids.find(observed.label.candidate.target);
        applies = reference != observed.problem->reference_ids.end() &&
                  reference->second == observed.label.forecast->baseline_candidate_id;
      }
      metrics_->Observed(observed.label, applies);
    }
  }
  if (!fresh.empty()) {
    for (size_t i = 0; i + 1 < backends_.size(); ++i) backends_[i]->Observe(fresh);
    if (!backends_.empty()) backends_.back()->Observe(std::move(fresh));
  }
  for (size_t i = 0; i < accepted.size(); ++i) accepted[i].call->done(std::move(replies[i]));
}

}  // namespace kernelcast::forecaster
