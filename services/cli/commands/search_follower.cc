#include "services/cli/commands/search_follower.h"

#include <signal.h>

#include <cmath>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/convert/convert.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/archive_table.h"
#include "services/cli/report/tree_html.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/records.h"
#include "services/cli/rpc/search_watch.h"

namespace kernelcast::cli {
namespace {

constexpr absl::Duration kFrame = absl::Milliseconds(100);
constexpr int64_t kLogLineNs = 10'000'000'000;
constexpr size_t kLineageSteps = 6;
// The tree and the archive are drawn again at this interval.
constexpr int64_t kDetailsNs = 1'000'000'000;
// After an interrupt.
constexpr absl::Duration kEndPatience = absl::Milliseconds(700);
constexpr absl::Duration kStopTimeout = absl::Milliseconds(500);
constexpr absl::Duration kArchiveTimeout = absl::Seconds(1);
constexpr size_t kLiveCandidates = 8;
constexpr size_t kLiveTreeLines = 12;
constexpr size_t kMaxArchiveRows = 8;

}  // namespace

SearchFollower::SearchFollower(Context& context, Connection& connection, const v1::Search& search,
                               const FollowOptions& options)
    : context_(context), connection_(connection), options_(options) {
  UpdateProgress(search, progress_);
  progress_.prices = options.prices;
  started_ns_ = Clock::Real().MonotonicNs();
  if (search.has_started_at()) {
    // An existing search: continue its clock.
    const int64_t age_ns = Clock::Real().WallNs() - ToNanoseconds(search.started_at());
    if (age_ns > 0) started_ns_ -= age_ns;
  }
}

absl::Status SearchFollower::Follow(bool& interrupted) {
  const Interrupt& interrupt = context_.interrupt;
  interrupt.SetFarewell(ContinuesText());
  const absl::Cleanup forget = [&interrupt] { interrupt.SetFarewell(""); };
  SearchWatch watch(progress_.search_id, [this] { return connection_.Orchestrator(); });
  interrupted = false;
  for (int64_t tick = 0;; ++tick) {
    const SearchWatch::Update update = watch.Next(kFrame);
    for (const v1::SearchEvent& event : update.events) Apply(event);
    progress_.connection =
        update.trouble.empty() ? "" : absl::StrCat("connection lost: ", OneLine(update.trouble));
    progress_.elapsed_seconds =
        static_cast<double>(Clock::Real().MonotonicNs() - started_ns_) * 1e-9;
    progress_.seconds_left = pace_.Update(progress_);
    Show(tick);
    if (update.ended.has_value()) {
      context_.console.Draw({});
      return *update.ended;
    }
    if (interrupt.requested() && !interrupted) {
      interrupted = true;
      if (interrupt.signal() == SIGINT) {
        context_.console.Note("stopping the search; interrupt again to quit now");
        if (const absl::Status stopped = Stop(); !stopped.ok()) {
          context_.console.Warn(absl::StrCat("the search could not be stopped: ",
                                             OneLine(std::string(stopped.message()))));
        }
      }
    }
    if (interrupted && (interrupt.signal() != SIGINT || interrupt.age() > kEndPatience)) {
      context_.console.Draw({});
      context_.console.Note(ContinuesText());
      return absl::OkStatus();
    }
  }
}

absl::Status SearchFollower::Stop() {
  return connection_.AskOrchestrator([this](v1::Orchestrator::Stub& stub) {
    v1::StopSearchRequest request;
    request.set_search_id(progress_.search_id);
    v1::StopSearchReply reply;
    return Call(stub, &v1::Orchestrator::Stub::StopSearch, request, &reply, kStopTimeout);
  });
}

std::string SearchFollower::ContinuesText() const {
  // Services of this process end with it.
  return absl::StrCat(
      "the search ", progress_.search_id,
      connection_.owns_services() ? " continues with: " : " continues; follow it with: ",
      connection_.WatchCommand(progress_.search_id));
}

std::string SearchFollower::Label(const std::string& candidate_id) const {
  const auto name = names_.find(candidate_id);
  const std::string id = candidate_id.substr(0, 10);
  return name == names_.end() ? id : absl::StrCat(name->second, " ", id);
}

void SearchFollower::Apply(const v1::SearchEvent& event) {
  progress_.phase = PhaseOf(event.status());
  if (event.has_counts()) UpdateProgress(event.counts(), progress_);
  switch (event.event_case()) {
    case v1::SearchEvent::kProposed: {
      Candidate named;
      named.origin = event.proposed().origin();
      named.name = event.proposed().name();
      names_[event.proposed().candidate_id()] = OneLine(NameOf(named));
      parents_[event.proposed().candidate_id()] = event.proposed().parent_candidate_id();
      break;
    }
    case v1::SearchEvent::kSettled: ApplySettled(event.settled()); break;
    case v1::SearchEvent::kGeneration: ApplyGeneration(event.generation()); break;
    case v1::SearchEvent::kImproved:
      progress_.best = FromProto(event.improved().speedup());
      progress_.best_name = Label(event.improved().candidate_id());
      progress_.improvements.push_back(
          {progress_.best->value, progress_.device_seconds_spent, progress_.all_tokens});
      improved_ = true;
      break;
    default: break;
  }
}

void SearchFollower::ApplyGeneration(const v1::Generation& generation) {
  const bool answered = generation.outcome() != v1::GENERATION_OUTCOME_UNANSWERED;
  if (answered == model_away_) {
    model_away_ = !answered;
    context_.console.Note(
        answered ? "the model is available again"
                 : absl::StrCat("the model is unavailable: ", OneLine(generation.detail())));
  }
  if (generation.outcome() == v1::GENERATION_OUTCOME_UNUSABLE) {
    progress_.latest = absl::StrCat("unusable answer: ", OneLine(generation.detail()));
  }
}

void SearchFollower::AddToTree(const std::string& candidate_id, TreeEntry::Fate fate,
                               double speedup) {
  const TreeEntry entry = {.candidate_id = candidate_id,
                           .parent_id = parents_[candidate_id],
                           .label = Label(candidate_id),
                           .fate = fate,
                           .speedup = speedup};
  if (options_.tree) entries_.push_back(entry);
  if (fate != TreeEntry::Fate::kMeasured) return;
  measured_.push_back(entry);
  if (speedup <= fastest_) return;
  fastest_ = speedup;
  const SearchTree tree = MakeSearchTree(measured_, 1);
  progress_.lineage = tree.nodes[tree.best].depth > 1 ? LineageText(tree, kLineageSteps) : "";
}

void SearchFollower::ApplySettled(const v1::Evaluation& evaluation) {
  const std::string& id = evaluation.candidate_id();
  const std::string name = Label(id);
  const absl::StatusOr<ReportCandidate> candidate =
      ReportCandidateFromProto(evaluation, v1::Candidate());
  if (!candidate.ok()) return;
  const Ratio* const speedup = SpeedupOf(*candidate);
  // A finalist at held-out bench shapes has another id there, so it would be another candidate.
  const bool confirms = progress_.phase == SearchProgress::Phase::kFinishing &&
                        evaluation.measured().level() == v1::MEASURE_LEVEL_FINAL;
  if (!confirms) {
    learning_.Add(*candidate);
    progress_.learnt = LearningText(learning_.learning());
    AddToTree(id, TreeFate(FateOf(*candidate)), speedup != nullptr ? speedup->value : 0);
  }
  if (evaluation.has_forecast()) {
    progress_.latest =
        absl::StrCat(name, " pruned, forecast ", ExpectedText(FromProto(evaluation.forecast())));
    return;
  }
  if (evaluation.has_rejected()) {
    progress_.latest = absl::StrCat(name, " rejected");
    return;
  }
  const v1::Measurement& measured = evaluation.measured();
  if (!measured.device().model().empty()) progress_.device = OneLine(measured.device().model());
  progress_.latest = speedup != nullptr
                         ? absl::StrCat(name, " measured ", FormatSpeedup(*speedup))
                         : absl::StrCat(name, " ", OneLine(FailurePhrase(*candidate)));
}

void SearchFollower::FetchArchive() {
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = connection_.Orchestrator();
  if (!channel.ok()) return;
  const auto stub = v1::Orchestrator::NewStub(*channel);
  v1::GetSearchRequest request;
  request.set_search_id(progress_.search_id);
  request.set_include_archive(true);
  v1::GetSearchReply reply;
  // The next one may succeed.
  if (!Call(*stub, &v1::Orchestrator::Stub::GetSearch, request, &reply, kArchiveTimeout).ok()) {
    return;
  }
  Console& console = context_.console;
  archive_lines_ = ArchiveLines(SearchesIn(reply).front().archive(), kMaxArchiveRows,
                                console.live_style(), console.live_width());
}

void SearchFollower::UpdateDetails() {
  const int64_t now_ns = Clock::Real().MonotonicNs();
  if (now_ns - details_ns_ < kDetailsNs) return;
  details_ns_ = now_ns;
  Console& console = context_.console;
  if (options_.tree && entries_.size() > drawn_entries_) {
    drawn_entries_ = entries_.size();
    tree_lines_ = TreeLines(MakeSearchTree(entries_, kLiveCandidates), kLiveTreeLines,
                            console.live_style(), console.live_width());
  }
  if (options_.archive && progress_.connection.empty()) FetchArchive();
}

void SearchFollower::Show(int64_t tick) {
  Console& console = context_.console;
  if (console.live()) {
    UpdateDetails();
    std::vector<std::string> lines =
        RenderProgressBlock(progress_, console.live_style(), console.live_width(), tick);
    lines.insert(lines.end(), tree_lines_.begin(), tree_lines_.end());
    lines.insert(lines.end(), archive_lines_.begin(), archive_lines_.end());
    console.Draw(lines);
    return;
  }
  const int64_t now_ns = Clock::Real().MonotonicNs();
  const bool due = now_ns - last_line_ns_ > kLogLineNs;
  const bool changed = progress_.phase != last_phase_ || progress_.connection != last_connection_;
  if (!due && !changed && !improved_) return;
  if (!progress_.connection.empty() && progress_.connection != last_connection_) {
    console.Note(progress_.connection);
  } else {
    console.Note(RenderProgressLine(progress_));
  }
  last_line_ns_ = now_ns;
  last_phase_ = progress_.phase;
  last_connection_ = progress_.connection;
  improved_ = false;
}

}  // namespace kernelcast::cli
