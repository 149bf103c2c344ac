// lessons: what searches showed, in a file.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/commands/search_lessons.h"
#include "services/cli/core/table.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {
namespace {

struct LearnFlags {
  ConnectionFlags connection;
  std::string book;
  std::vector<std::string> searches;
  std::vector<std::string> problems;
};

// The searches with these ids, or all.
absl::StatusOr<std::vector<v1::Search>> FindSearches(v1::Orchestrator::Stub& stub,
                                                     const std::vector<std::string>& ids) {
  std::vector<v1::Search> found;
  for (const std::string& id : ids) {
    v1::GetSearchRequest request;
    KC_ASSIGN_OR_RETURN(*request.mutable_search_id(), FindSearchId(stub, id));
    v1::GetSearchReply reply;
    KC_RETURN_IF_ERROR(Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply));
    for (v1::Search& search : SearchesIn(reply)) {
      if (!search.has_ended_at()) {
        return absl::FailedPreconditionError(
            absl::StrCat("the search ", search.search_id(), " has not ended"));
      }
      found.push_back(std::move(search));
    }
  }
  if (!ids.empty()) return found;
  KC_ASSIGN_OR_RETURN(found, ListSearches(stub));
  std::erase_if(found, [](const v1::Search& search) { return !search.has_ended_at(); });
  return found;
}

// Problems by id, as far as they are found in the version that was searched.
class KnownProblems {
 public:
  explicit KnownProblems(const Context& context) : context_(context) {}

  absl::Status Add(const std::string& argument) {
    KC_ASSIGN_OR_RETURN(LoadedProblem loaded, LoadProblem(context_, argument));
    const std::string id = loaded.problem.problem_id;
    problems_.insert_or_assign(id, std::move(loaded.problem));
    return absl::OkStatus();
  }
  const Problem* Of(const v1::Search& search) {
    const std::string& id = search.spec().problem_id();
    if (!problems_.contains(id)) {
      const absl::Status added = Add(search.problem_name());
      if (!added.ok() || !problems_.contains(id)) problems_[id] = std::nullopt;
    }
    const std::optional<Problem>& problem = problems_[id];
    return problem ? &*problem : nullptr;
  }

 private:
  const Context& context_;
  std::map<std::string, std::optional<Problem>> problems_;
};

absl::StatusOr<ExitCode> RunLearn(Context& context, const LearnFlags& flags) {
  LessonBook known;
  {
    KC_ASSIGN_OR_RETURN(const std::unique_ptr<LessonFile> file, LessonFile::Lock(flags.book));
    KC_RETURN_IF_ERROR(file->CheckWritable());
    KC_ASSIGN_OR_RETURN(known, file->Read());
  }
  KnownProblems problems(context);
  for (const std::string& problem : flags.problems) KC_RETURN_IF_ERROR(problems.Add(problem));
  Connection connection(context, flags.connection, Needs::kOrchestrator);
  std::vector<LearntSearch> learnt;
  std::map<std::string, uint64_t> unknown;  // searches by the problem's name
  const auto fetch = [&](v1::Orchestrator::Stub& stub) -> absl::Status {
    learnt.clear();
    unknown.clear();
    KC_ASSIGN_OR_RETURN(const std::vector<v1::Search> searches, FindSearches(stub, flags.searches));
    for (const v1::Search& search : searches) {
      if (context.interrupt.requested()) return absl::CancelledError("interrupted");
      if (known.searches.contains(LearntName(search))) continue;
      const Problem* const problem = problems.Of(search);
      if (problem == nullptr) {
        ++unknown[search.problem_name()];
        continue;
      }
      KC_ASSIGN_OR_RETURN(LearntSearch one, LearnFrom(stub, search, *problem));
      learnt.push_back(std::move(one));
    }
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(connection.AskOrchestrator(fetch));
  for (const auto& [name, count] : unknown) {
    context.console.Warn(absl::StrCat(FormatCount(count), " searches of ", OneLine(name),
                                      " left out: the problem is not found in the version that was "
                                      "searched; name it with --problem"));
  }
  KC_RETURN_IF_ERROR(AddToBook(context, flags.book, learnt));
  context.console.Line({{"book", flags.book}, {"searches", learnt.size()}});
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunList(Context& context, const std::string& path) {
  KC_ASSIGN_OR_RETURN(const LessonBook book, ReadLessonBook(path));
  Console& console = context.console;
  Table table({{"family"},
               {"target"},
               {"device model", Table::Align::kLeft, true},
               {"bottleneck"},
               {"change", Table::Align::kLeft, true},
               {"effect"},
               {"held", Table::Align::kRight},
               {"searches", Table::Align::kRight},
               {"used"}});
  for (const Lesson& lesson : book.lessons) {
    const GainEstimate effect = EstimateOf(lesson, lesson.device_model);
    const Ratio factor{std::exp2(lesson.mean_log2_gain), std::exp2(effect.low()),
                       std::exp2(effect.high()), 0.95};
    const bool used = effect.Expected() != 0;
    table.AddRow({OneLine(lesson.family), OneLine(lesson.target), OneLine(lesson.device_model),
                  lesson.bottleneck.empty() ? "-" : OneLine(lesson.bottleneck),
                  OneLine(absl::StrCat(lesson.aspect, ": ", lesson.from, " to ", lesson.to)),
                  FormatSpeedup(factor), absl::StrCat(lesson.held, " of ", lesson.trials),
                  FormatCount(lesson.searches), used ? "yes" : "no"});
    console.Line(
        {{"family", lesson.family},
         {"target", lesson.target},
         {"device_model", lesson.device_model},
         {"bottleneck", lesson.bottleneck},
         {"aspect", lesson.aspect},
         {"from", lesson.from},
         {"to", lesson.to},
         {"speedup", {{"value", factor.value}, {"low", factor.low}, {"high", factor.high}}},
         {"held", lesson.held},
         {"trials", lesson.trials},
         {"searches", lesson.searches},
         {"used", used},
         {"text", lesson.text}});
  }
  console.Out(table.empty() ? "no lessons\n" : table.Render(console.style(), console.width()));
  return ExitCode::kOk;
}

struct MergeFlags {
  std::string output;
  std::vector<std::string> inputs;
};

absl::StatusOr<ExitCode> RunMerge(Context& context, const MergeFlags& flags) {
  std::vector<LessonBook> inputs;
  for (const std::string& input : flags.inputs) {
    KC_ASSIGN_OR_RETURN(LessonBook book, ReadLessonBook(input));
    inputs.push_back(std::move(book));
  }
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<LessonFile> file, LessonFile::Lock(flags.output));
  KC_ASSIGN_OR_RETURN(LessonBook book, file->Read());
  for (size_t i = 0; i < inputs.size(); ++i) {
    KC_RETURN_IF_ERROR(WithPrefix(absl::StrCat(flags.inputs[i], ": "), MergeBook(inputs[i], book)));
  }
  KC_RETURN_IF_ERROR(file->Write(book));
  context.console.Note(absl::StrCat(flags.output, " has ", FormatCount(book.lessons.size()),
                                    " lessons of ", FormatCount(book.searches.size()),
                                    " searches"));
  context.console.Line({{"output", flags.output},
                        {"lessons", book.lessons.size()},
                        {"searches", book.searches.size()}});
  return ExitCode::kOk;
}

}  // namespace

void AddLessonsCommand(CLI::App& app, Context& context) {
  CLI::App* lessons = app.add_subcommand(
      "lessons", "Learn from ended searches what changes of kernels did, for later searches");
  lessons->require_subcommand(1);

  const auto learn_flags = std::make_shared<LearnFlags>();
  CLI::App* learn = AddCommand(*lessons, context, "learn", "Add what searches showed to a file",
                               [&context, learn_flags] { return RunLearn(context, *learn_flags); });
  learn->add_option("SEARCH_ID", learn_flags->searches, "The searches [all that have ended]");
  learn->add_option("--book", learn_flags->book, "The file of lessons; created if it is missing")
      ->required()
      ->type_name("FILE.jsonl");
  AddProblemsOption(*learn, learn_flags->problems);
  AddConnectionFlags(*learn, learn_flags->connection, Needs::kOrchestrator);

  const auto listed = std::make_shared<std::string>();
  CLI::App* list = AddCommand(*lessons, context, "list", "Show the lessons of a file",
                              [&context, listed] { return RunList(context, *listed); });
  list->add_option("FILE", *listed, "The file of lessons")->required();

  const auto merge_flags = std::make_shared<MergeFlags>();
  CLI::App* merge =
      AddCommand(*lessons, context, "merge", "Add the lessons of files to another file",
                 [&context, merge_flags] { return RunMerge(context, *merge_flags); });
  merge->add_option("FILE", merge_flags->output, "The file to add to; created if it is missing")
      ->required();
  merge->add_option("FILES", merge_flags->inputs, "The files to add")->required();
}

}  // namespace kernelcast::cli
