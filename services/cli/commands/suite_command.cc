// suite: judges the candidates of many tasks.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/config/number_flags.h"
#include "common/convert/convert.h"
#include "common/domain/python_task.h"
#include "common/domain/text.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/evaluate_modes.h"
#include "services/cli/commands/history_pages.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/core/candidate_files.h"
#include "services/cli/core/progress.h"
#include "services/cli/core/suite_folder.h"
#include "services/cli/core/table.h"
#include "services/cli/report/suite.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/evaluate_stream.h"
#include "services/cli/rpc/suite_file.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kSuiteFrame = std::chrono::milliseconds(200);
constexpr int64_t kDevicePatienceNs = 5'000'000'000;
constexpr absl::Duration kDevicePoll = absl::Milliseconds(20);

struct SuiteFlags {
  ConnectionFlags connection;
  std::string folder;
  std::vector<std::string> candidates;
  std::vector<std::string> only;
  bool list = false;
  std::string output;
  std::string target;
  TaskOptions task_options;
  std::string mode = "measure";
  std::string device_model;
  size_t max_in_flight = 64;
};

// A candidate that was found, without its source.
struct Planned {
  SuiteRow row;
  size_t source = 0;  // of the task
  size_t index = 0;   // in the source
  bool settled = false;
};

struct PlannedTask {
  SuiteTask task;
  std::vector<Planned> candidates;
};

absl::StatusOr<Problem> LoadTask(const SuiteTask& task, const TaskOptions& options) {
  KC_ASSIGN_OR_RETURN(LoadedProblem loaded, LoadProblemFolder(task.path));
  if (options.baseline.empty() && options.rules.empty()) return std::move(loaded.problem);
  // They are about PyTorch tasks.
  if (!loaded.problem.task) return std::move(loaded.problem);
  return WithOptions(loaded.problem, options);
}

// Who or what wrote a candidate: as its folders say, as its description does, or the file's name.
std::string AuthorOf(const SuiteSource& source, const NamedCandidate& named) {
  if (!source.author.empty()) return source.author;
  const std::string& origin = named.candidate.origin;
  return origin.empty() || origin.starts_with("file:") ? named.name : origin;
}

class SuiteRun {
 public:
  SuiteRun(Context& context, const SuiteFlags& flags, SuiteFolder found,
           std::unique_ptr<SuiteFile> file)
      : context_(context),
        flags_(flags),
        unmatched_(std::move(found.unmatched)),
        file_(std::move(file)),
        connection_(context, flags.connection, Needs::kOrchestrator) {
    for (SuiteTask& task : found.tasks) tasks_.push_back({std::move(task), {}});
  }

  // Reads all tasks and candidates, and takes the results that the file has of them.
  absl::Status Plan() {
    for (PlannedTask& planned : tasks_) {
      KC_RETURN_IF_ERROR(CheckInterrupt(context_));
      PlanTask(planned);
    }
    std::vector<SuiteTaskInfo> infos;
    for (const PlannedTask& planned : tasks_) {
      SuiteTaskInfo& info = infos.emplace_back(InfoOf(planned.task));
      for (const Planned& one : planned.candidates) {
        info.candidates[one.row.name] = one.row.content;
      }
    }
    KC_RETURN_IF_ERROR(file_->AddTasks(infos));
    // Results known before any candidate was judged.
    for (PlannedTask& planned : tasks_) {
      for (Planned& one : planned.candidates) {
        if (one.settled && !one.row.judged) Settle(one, nullptr);
      }
    }
    return absl::OkStatus();
  }

  // Judges what has no result yet.
  absl::Status Judge() {
    for (PlannedTask& planned : tasks_) {
      for (Planned& one : planned.candidates) {
        if (!one.settled) pending_.emplace_back(&planned, &one);
      }
    }
    const size_t kept = CountOf([](const Planned& one) { return one.row.judged.has_value(); });
    if (kept > 0) {
      context_.console.Note(absl::StrCat("kept from earlier runs: ", FormatCount(kept),
                                         ", to judge: ", FormatCount(pending_.size())));
    }
    if (pending_.empty()) return absl::OkStatus();
    started_ns_ = Clock::Real().MonotonicNs();
    progress_.phase = SearchProgress::Phase::kRunning;
    progress_.max_candidates = pending_.size();
    EvaluateOptions options;
    options.max_in_flight = flags_.max_in_flight;
    options.cancelled = [this] { return context_.interrupt.requested() || write_failed_; };
    options.reconnect = [this] { return connection_.Orchestrator(); };
    options.on_trouble = [this](const std::string& trouble) {
      if (!trouble.empty()) {
        context_.console.Warn(absl::StrCat("connection lost: ", OneLine(trouble)));
      }
    };
    std::jthread clock;
    if (context_.console.live()) {
      clock = std::jthread([this](const std::stop_token& stop) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any wake;
        while (!wake.wait_for(lock, stop, kSuiteFrame, [&stop] { return stop.stop_requested(); })) {
          const std::lock_guard guard(mutex_);
          Draw();
        }
      });
    }
    const absl::Status status =
        EvaluateEach([this] { return Next(); }, options,
                     [this](const v1::EvaluateReply& reply) { Take(reply); });
    if (clock.joinable()) {
      clock.request_stop();
      clock.join();
    }
    context_.console.Draw({});
    KC_RETURN_IF_ERROR(write_status_);
    return status;
  }

  SuiteInput Input() const {
    SuiteInput input;
    input.title = file_->results().settings.title;
    input.mode = flags_.mode;
    for (const PlannedTask& planned : tasks_) {
      input.tasks.push_back(InfoOf(planned.task));
      for (const Planned& one : planned.candidates) {
        if (one.settled) input.rows.push_back(one.row);
      }
    }
    input.unmatched = unmatched_;
    input.generated_ns = Clock::Real().WallNs();
    input.generator_version = absl::StrCat("kernelcast ", std::string(Version()));
    return input;
  }

 private:
  static SuiteTaskInfo InfoOf(const SuiteTask& task) {
    return {task.name, task.level, task.category, task.number,
            fs::path(task.path).filename().string()};
  }

  template <class Predicate>
  size_t CountOf(const Predicate& counts) const {
    size_t count = 0;
    for (const PlannedTask& planned : tasks_) {
      count += static_cast<size_t>(std::ranges::count_if(planned.candidates, counts));
    }
    return count;
  }

  void PlanTask(PlannedTask& planned) {
    SuiteTask& task = planned.task;
    const absl::StatusOr<Problem> problem = LoadTask(task, flags_.task_options);
    if (problem.ok()) {
      if (problem->task) connection_.PrepareFor(*problem);
      if (task.category.empty() && !problem->task) task.category = problem->family;
    }
    const absl::StatusOr<std::string> target =
        problem.ok() ? ChooseTarget(*problem, flags_.target) : problem.status();
    for (size_t i = 0; i < task.sources.size(); ++i) {
      const SuiteSource& source = task.sources[i];
      const absl::StatusOr<std::vector<NamedCandidate>> candidates =
          target.ok() ? ReadCandidates(source.path, problem->problem_id, *target)
                      : absl::StatusOr<std::vector<NamedCandidate>>(target.status());
      Planned one;
      one.row.task = task.name;
      one.row.name = source.name;
      one.row.sample = source.sample;
      one.row.author = source.author;
      one.source = i;
      if (!candidates.ok()) {
        if (one.row.author.empty()) one.row.author = fs::path(source.name).filename().string();
        one.row.error = candidates.status();
        one.settled = true;
        planned.candidates.push_back(std::move(one));
        continue;
      }
      for (size_t index = 0; index < candidates->size(); ++index) {
        const NamedCandidate& named = (*candidates)[index];
        Planned each = one;
        each.index = index;
        if (candidates->size() > 1) each.row.name = absl::StrCat(source.name, "/", named.name);
        each.row.author = AuthorOf(source, named);
        each.row.content = CandidateId(named.candidate);
        TakeKept(each);
        planned.candidates.push_back(std::move(each));
      }
    }
  }

  // Takes the result of an earlier run, if it is about the same content and needs no other run.
  void TakeKept(Planned& one) const {
    const auto& rows = file_->results().rows;
    const auto found = rows.find({one.row.task, one.row.name});
    if (found == rows.end() || found->second.content != one.row.content) return;
    const SuiteRow& kept = found->second;
    if (IsOpen(VerdictOf(kept))) return;
    if (!flags_.target.empty() && kept.target != flags_.target) return;
    const std::string author = one.row.author;
    one.row = kept;
    one.row.author = author;
    one.settled = true;
  }

  // The orchestrator's description. One that this command has started needs a moment to know the
  // devices of the target.
  absl::StatusOr<v1::OrchestratorDescription> DescribeWith(const std::string& target) {
    const int64_t give_up_ns = Clock::Real().MonotonicNs() + kDevicePatienceNs;
    for (;;) {
      v1::OrchestratorDescription description;
      KC_RETURN_IF_ERROR(connection_.AskOrchestrator([&](v1::Orchestrator::Stub& stub) {
        return Call(stub, &v1::Orchestrator::Stub::Describe, v1::OrchestratorDescribeRequest(),
                    &description);
      }));
      const bool known =
          std::ranges::any_of(description.devices(), [&target](const v1::MeasurableDevice& device) {
            return device.target() == target && device.measure_slots() > 0;
          });
      if (known || !flags_.connection.orchestrator.empty() ||
          Clock::Real().MonotonicNs() > give_up_ns) {
        return description;
      }
      KC_RETURN_IF_ERROR(CheckInterrupt(context_));
      context_.interrupt.WaitFor(kDevicePoll);
    }
  }

  // The device model of a target, the same for all of its candidates: that of earlier results, the
  // one that was asked for, or the one with the most devices.
  absl::StatusOr<std::string> DeviceModelFor(const std::string& target) {
    const auto known = device_models_.find(target);
    if (known != device_models_.end()) return known->second;
    if (Modes().at(flags_.mode) == v1::EVALUATE_MODE_FORECAST) {
      return device_models_[target] = flags_.device_model;
    }
    KC_RETURN_IF_ERROR(connection_.CheckMeasures(target));
    KC_ASSIGN_OR_RETURN(const v1::OrchestratorDescription description, DescribeWith(target));
    std::string earlier;
    for (const auto& [key, row] : file_->results().rows) {
      const bool measured = row.judged && row.judged->measurement;
      if (row.target == target && measured) earlier = row.device_model;
    }
    std::string chosen = flags_.device_model;
    uint32_t slots = 0;
    bool has_earlier = false;
    std::vector<std::string> models;
    for (const v1::MeasurableDevice& device : description.devices()) {
      if (device.target() != target) continue;
      models.push_back(OneLine(device.device_model()));
      has_earlier = has_earlier || device.device_model() == earlier;
      if (!flags_.device_model.empty() || device.measure_slots() < slots) continue;
      slots = device.measure_slots();
      chosen = device.device_model();
    }
    if (!earlier.empty()) {
      const bool asked_for = absl::StrContains(absl::AsciiStrToLower(earlier),
                                               absl::AsciiStrToLower(flags_.device_model));
      if (!asked_for || (!models.empty() && !has_earlier)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "the results so far are of ", OneLine(earlier), ", and ", target, " is measured on ",
            asked_for ? CommaList(models) : OneLine(flags_.device_model),
            " now; choose another folder with --output"));
      }
      chosen = earlier;
    }
    if (models.size() > 1) {
      context_.console.Note(absl::StrCat(target, " is measured on ", OneLine(chosen),
                                         "; --device-model chooses among ", CommaList(models)));
    }
    return device_models_[target] = chosen;
  }

  // The problem of the task whose candidates are sent now, as the orchestrator knows it.
  absl::Status PutTask(const PlannedTask& planned) {
    KC_ASSIGN_OR_RETURN(current_problem_, LoadTask(planned.task, flags_.task_options));
    KC_ASSIGN_OR_RETURN(current_target_, ChooseTarget(current_problem_, flags_.target));
    KC_ASSIGN_OR_RETURN(v1::PutProblemReply known, connection_.PutProblem(current_problem_));
    const bool has_gpus = !known.task_gpus().empty();
    // Noted once.
    if (noted_gpus_) known.clear_task_gpus();
    noted_gpus_ = noted_gpus_ || has_gpus;
    TakeDefaultTarget(context_.console, flags_.target, known, current_target_);
    KC_ASSIGN_OR_RETURN(current_device_model_, DeviceModelFor(current_target_));
    return absl::OkStatus();
  }

  absl::StatusOr<v1::EvaluateRequest> RequestFor(const PlannedTask& planned, Planned& one) {
    if (current_ != &planned) {
      current_ = &planned;
      current_status_ = PutTask(planned);
    }
    KC_RETURN_IF_ERROR(current_status_);
    const SuiteSource& source = planned.task.sources[one.source];
    if (current_source_ != &source) {
      current_source_ = nullptr;
      KC_ASSIGN_OR_RETURN(
          current_candidates_,
          ReadCandidates(source.path, current_problem_.problem_id, current_target_));
      current_source_ = &source;
    }
    if (one.index >= current_candidates_.size()) {
      return absl::AbortedError(absl::StrCat(source.path, " has changed; run the command again"));
    }
    const Candidate& candidate = current_candidates_[one.index].candidate;
    const std::pair key(one.row.task, one.row.name);
    const auto attempts = file_->results().attempts.find(key);
    const uint64_t attempt = attempts == file_->results().attempts.end() ? 0 : attempts->second;
    v1::EvaluateRequest request;
    // The same in a later run, which gets the answer of a measurement that this one has not seen.
    request.set_request_id(absl::StrCat(file_->results().settings.suite_id, "/",
                                        ContentHasher()
                                            .Add(one.row.task)
                                            .Add(one.row.name)
                                            .Add(CandidateId(candidate))
                                            .Add(current_device_model_)
                                            .Add(attempt)
                                            .Hex128()));
    *request.mutable_candidate() = ToProto(candidate);
    request.set_mode(Modes().at(flags_.mode));
    if (!current_device_model_.empty()) request.add_device_models(current_device_model_);
    const std::lock_guard guard(mutex_);
    one.row.target = candidate.target;
    in_flight_[request.request_id()] = &one;
    return request;
  }

  // The next request. A task or a candidate with a fault gets its reason as its result.
  std::optional<v1::EvaluateRequest> Next() {
    while (next_ < pending_.size() && !context_.interrupt.requested() && !write_failed_) {
      const auto& [planned, one] = pending_[next_++];
      absl::StatusOr<v1::EvaluateRequest> request = RequestFor(*planned, *one);
      if (request.ok()) return *std::move(request);
      // Not the candidate's fault: no result, so that the next run judges it.
      if (context_.interrupt.requested()) break;
      const std::lock_guard guard(mutex_);
      one->row.error = request.status();
      Settle(*one, nullptr);
      Show(*one);
    }
    return std::nullopt;
  }

  void Take(const v1::EvaluateReply& reply) {
    const std::lock_guard guard(mutex_);
    const auto found = in_flight_.find(reply.request_id());
    if (found == in_flight_.end()) return;
    Planned& one = *found->second;
    in_flight_.erase(found);
    if (reply.has_error()) {
      one.row.error = absl::Status(static_cast<absl::StatusCode>(reply.error().code()),
                                   reply.error().message());
      Settle(one, nullptr);
    } else if (const absl::Status read = TakeEvaluation(reply.evaluation(), one.row); !read.ok()) {
      one.row.error = read;
      Settle(one, nullptr);
    } else {
      Settle(one, &reply.evaluation());
    }
    Show(one);
  }

  // Keeps and prints a result. With mutex_ held once requests are sent.
  void Settle(Planned& one, const v1::Evaluation* evaluation) {
    one.settled = true;
    Json line = SuiteLine(one.row, evaluation);
    if (evaluation == nullptr) line["error"] = ErrorJson(one.row.error);
    if (write_status_.ok()) write_status_ = file_->Add(line);
    write_failed_ = !write_status_.ok();
    context_.console.Line(line);
  }

  // With mutex_ held.
  void Show(const Planned& one) {
    ++progress_.considered;
    ++verdicts_[VerdictOf(one.row)];
    UpdatePace();
    if (context_.console.live()) {
      Draw();
      return;
    }
    const Ratio* const speedup = SpeedupOf(one.row);
    const std::string failure = FailureTextOf(one.row);
    context_.console.Note(absl::StrCat(
        progress_.considered, "/", pending_.size(), " ", OneLine(one.row.task), " ",
        OneLine(one.row.name), ": ",
        speedup != nullptr ? FormatSpeedup(*speedup) : std::string(Phrase(VerdictOf(one.row))),
        VerdictOf(one.row) == SuiteVerdict::kNotJudged ? ": " + OneLine(failure) : "", LeftText()));
  }

  void UpdatePace() {
    progress_.elapsed_seconds =
        static_cast<double>(Clock::Real().MonotonicNs() - started_ns_) * 1e-9;
    progress_.seconds_left = pace_.Update(progress_);
  }

  std::string LeftText() const {
    return progress_.seconds_left > 0
               ? absl::StrCat(", about ", FormatClock(progress_.seconds_left), " left")
               : std::string();
  }

  // With mutex_ held.
  void Draw() {
    UpdatePace();
    const int width = context_.console.live_width();
    std::string verdicts;
    for (const auto& [verdict, count] : verdicts_) {
      absl::StrAppend(&verdicts, verdicts.empty() ? "" : ", ", FormatCount(count), " ",
                      std::string(Phrase(verdict)));
    }
    context_.console.Draw(
        {Truncate(
             absl::StrCat(OneLine(file_->results().settings.title), "  ",
                          FormatCount(progress_.considered), " of ", FormatCount(pending_.size()),
                          " candidates  ", FormatClock(progress_.elapsed_seconds), LeftText()),
             width),
         Truncate(verdicts.empty() ? "no result yet" : verdicts, width)});
  }

  Context& context_;
  const SuiteFlags& flags_;
  const std::vector<std::string> unmatched_;
  const std::unique_ptr<SuiteFile> file_;
  Connection connection_;
  std::vector<PlannedTask> tasks_;
  std::vector<std::pair<const PlannedTask*, Planned*>> pending_;

  // Used by the thread that makes requests.
  size_t next_ = 0;
  const PlannedTask* current_ = nullptr;
  absl::Status current_status_;
  Problem current_problem_;
  std::string current_target_;
  std::string current_device_model_;
  const SuiteSource* current_source_ = nullptr;
  std::vector<NamedCandidate> current_candidates_;    // of current_source_
  std::map<std::string, std::string> device_models_;  // by target
  bool noted_gpus_ = false;

  std::mutex mutex_;
  // Guarded by mutex_, as are the rows in flight.
  std::map<std::string, Planned*> in_flight_;  // by request id
  absl::Status write_status_;
  std::atomic<bool> write_failed_ = false;  // not guarded
  SearchProgress progress_;
  Pace pace_;
  int64_t started_ns_ = 0;
  std::map<SuiteVerdict, uint64_t> verdicts_;  // of this run
};

absl::Status WriteResults(Console& console, const std::string& folder, const SuiteInput& input,
                          const SuiteSummary& summary) {
  const auto write = [&](const std::string& name, const std::string& content) {
    return WriteFileAtomically(absl::StrCat(folder, "/", name), content);
  };
  const auto text = [](const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  KC_RETURN_IF_ERROR(write("summary.json", text(SuiteJson(input, summary))));
  KC_RETURN_IF_ERROR(write("results.csv", SuiteCsv(input)));
  KC_RETURN_IF_ERROR(write("report.md", SuiteMarkdown(input, summary)));
  KC_RETURN_IF_ERROR(write("report.html", SuiteHtml(input, summary)));
  const KernelBenchResults kernelbench = KernelBenchResultsOf(input);
  for (const auto& [run, json] : kernelbench.runs) {
    KC_RETURN_IF_ERROR(write(
        absl::StrCat("kernelbench/", run.first, "/", FileNameFor(run.second), "/eval_results.json"),
        text(json)));
  }
  if (!kernelbench.baseline.is_null()) {
    KC_RETURN_IF_ERROR(write("kernelbench/baseline_time_torch.json", text(kernelbench.baseline)));
  }
  console.Note(absl::StrCat("report: ", folder, "/report.html"));
  return absl::OkStatus();
}

// The reasons of failures and faults, each once with the candidates that have it.
std::string NotJudgedText(const SuiteInput& input, int width) {
  std::map<std::string, std::vector<std::string>> reasons;
  for (const SuiteRow& row : input.rows) {
    if (VerdictOf(row) != SuiteVerdict::kNotJudged) continue;
    reasons[ForTerminal(FailureTextOf(row))].push_back(
        absl::StrCat(OneLine(row.task), " ", OneLine(row.name)));
  }
  std::string text;
  for (const auto& [reason, names] : reasons) {
    absl::StrAppend(&text, "\n", WrapText("not judged: " + CommaList(names), width), ":\n", reason,
                    reason.ends_with('\n') ? "" : "\n");
  }
  return text;
}

std::string SuiteText(const SuiteInput& input, const SuiteSummary& summary, const Style& style,
                      int width) {
  std::string text;
  for (const std::string& line : SuiteLines(input, summary)) {
    absl::StrAppend(&text, WrapText(line, width, 2), "\n");
  }
  for (const SuiteTable& figures : FigureTables(summary)) {
    std::vector<Table::Column> columns;
    for (const SuiteTable::Column& column : figures.columns) {
      columns.push_back({column.header, column.number ? Table::Align::kRight : Table::Align::kLeft,
                         /*shrinks=*/&column == &figures.columns.front(),
                         /*wraps=*/&column == &figures.columns.back()});
    }
    Table table(std::move(columns));
    for (const std::vector<std::string>& row : figures.cells) table.AddRow(row);
    absl::StrAppend(&text, "\n", style.Bold(figures.title), "\n", table.Render(style, width));
  }
  return text + NotJudgedText(input, width);
}

ExitCode ListSuite(Console& console, const SuiteFolder& found) {
  Table table({{"task", Table::Align::kLeft, true},
               {"level"},
               {"category"},
               {"candidate", Table::Align::kLeft, true},
               {"author"},
               {"sample", Table::Align::kRight}});
  for (const SuiteTask& task : found.tasks) {
    Json json = {{"task", task.name},
                 {"path", task.path},
                 {"level", task.level},
                 {"category", task.category},
                 {"candidates", Json::array()}};
    for (const SuiteSource& source : task.sources) {
      table.AddRow({OneLine(task.name), OneLine(task.level), OneLine(task.category),
                    OneLine(source.name), OneLine(source.author),
                    source.sample < 0 ? "" : absl::StrCat(source.sample)});
      json["candidates"].push_back(
          {{"name", source.name}, {"path", source.path}, {"author", source.author}});
    }
    if (task.sources.empty()) {
      table.AddRow({OneLine(task.name), OneLine(task.level), OneLine(task.category), "-"});
    }
    console.Line(json);
  }
  console.Out(table.Render(console.style(), console.width()));
  for (const std::string& file : found.unmatched) {
    console.Warn(absl::StrCat(OneLine(file), " belongs to no task, or to several"));
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunSuite(Context& context, const SuiteFlags& flags) {
  Console& console = context.console;
  KC_ASSIGN_OR_RETURN(SuiteFolder found, FindSuite(flags.folder, flags.candidates));
  KC_RETURN_IF_ERROR(KeepTasks(flags.only, found));
  if (flags.list) return ListSuite(console, found);
  std::error_code error;
  const fs::path folder = fs::canonical(flags.folder, error);
  std::string output = flags.output;
  const absl::StatusOr<std::string> state_dir = StateDir(context, flags.connection);
  if (output.empty()) {
    KC_RETURN_IF_ERROR(state_dir.status());
    output = absl::StrCat(*state_dir, "/suites/", FileNameFor(folder.string()));
  }
  if (!found.unmatched.empty()) {
    console.Warn(absl::StrCat(found.unmatched.size(),
                              " files among candidates belong to no task or to several, such as ",
                              OneLine(found.unmatched.front()), "; --list names them"));
  }
  if (std::ranges::all_of(found.tasks,
                          [](const SuiteTask& task) { return task.sources.empty(); })) {
    return absl::NotFoundError(
        absl::StrCat("the ", found.tasks.size(), " tasks below ", Quoted(flags.folder, 255),
                     " have no candidates; --candidates names the folder that has them"));
  }
  SuiteSettings settings;
  settings.title = folder.filename().string();
  settings.mode = flags.mode;
  settings.baseline = flags.task_options.baseline;
  settings.rules = flags.task_options.rules;
  KC_ASSIGN_OR_RETURN(std::unique_ptr<SuiteFile> file, SuiteFile::Open(output, settings));
  if (!flags.output.empty()) {
    const absl::Status recorded =
        state_dir.ok() ? RecordSuite(*state_dir, output) : state_dir.status();
    if (!recorded.ok()) {
      console.Warn(absl::StrCat("the history page will not show this suite: ",
                                std::string(recorded.message())));
    }
  }
  SuiteInput input;
  absl::Status status;
  {
    SuiteRun run(context, flags, std::move(found), std::move(file));
    KC_RETURN_IF_ERROR(run.Plan());
    context.interrupt.SetFarewell("the same command continues the suite");
    status = run.Judge();
    input = run.Input();
    const SuiteSummary summary = SummarizeSuite(input);
    const absl::Status written = WriteResults(console, output, input, summary);
    if (status.ok()) status = written;
    console.Out(SuiteText(input, summary, console.style(), console.width()));
    console.Line({{"suite", SuiteJson(input, summary)}, {"folder", output}});
    context.interrupt.SetFarewell("");
  }
  if (!status.ok()) {
    console.Note("the same command continues the suite");
    return status;
  }
  const bool all_judged =
      std::ranges::none_of(input.rows, [](const SuiteRow& row) { return IsOpen(VerdictOf(row)); });
  return all_judged ? ExitCode::kOk : ExitCode::kNegative;
}

}  // namespace

void AddSuiteCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<SuiteFlags>();
  CLI::App* suite = AddCommand(app, context, "suite",
                               "Judge the candidates of all tasks below a folder; run again to "
                               "judge what is missing",
                               [&context, flags] { return RunSuite(context, *flags); });
  suite
      ->add_option("DIR", flags->folder,
                   "Folder of tasks and their candidates: a KernelBench checkout with runs, a "
                   "flashinfer-trace data set, folders of GPU MODE, SOL-ExecBench or problems")
      ->required();
  suite
      ->add_option("--candidates", flags->candidates,
                   "Another folder with candidates, by task or as KernelBench's runs; may be "
                   "repeated")
      ->type_name("DIR");
  suite
      ->add_option("--only", flags->only,
                   "Only tasks whose name matches this shell pattern, such as '*level1/*'; may be "
                   "repeated")
      ->type_name("PATTERN");
  suite->add_flag("--list", flags->list, "List tasks and candidates; judge nothing");
  suite
      ->add_option("-o,--output", flags->output,
                   "Folder of the results [STATE/suites/NAME, by the path of DIR]")
      ->type_name("DIR");
  AddTargetOption(*suite, flags->target);
  AddTaskOptions(*suite, flags->task_options);
  AddEvaluateOptions(*suite, flags->mode, flags->max_in_flight);
  suite
      ->add_option("--device-model", flags->device_model,
                   "Judge on this device model, by its name or its label in metrics [the one with "
                   "the most devices]")
      ->type_name("MODEL");
  AddForecasterFlags(*suite, flags->connection.forecasts);
  AddConnectionFlags(*suite, flags->connection, Needs::kOrchestrator);
}

}  // namespace kernelcast::cli
