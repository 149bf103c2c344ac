#include "services/cli/commands/search_lessons.h"

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/convert_lesson.h"
#include "common/rpc/status_conversion.h"
#include "services/cli/core/lesson_learning.h"
#include "services/cli/core/text.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {
namespace {

// Every reply about the search contains them.
constexpr size_t kMostLessons = 512;
constexpr absl::Duration kRecordsTimeout = absl::Minutes(10);

// Adds the kernel of a record if it was measured to be correct at the bench shapes.
absl::Status AddKernel(const v1::ExportRecord& record, const v1::Search& search,
                       std::map<std::string, MeasuredKernel>& kernels) {
  const v1::Evaluation& evaluation = record.evaluation();
  if (!evaluation.has_measured() || !evaluation.measured().has_ok() || evaluation.reused() ||
      record.candidate().problem_id() != search.spec().problem_id()) {
    return absl::OkStatus();
  }
  const Ratio speedup = FromProto(evaluation.measured().ok().speedup());
  if (!(speedup.value > 0)) return absl::OkStatus();
  KC_ASSIGN_OR_RETURN(Candidate candidate, FromProto(record.candidate()));
  // The final measurement of a finalist comes after its screening.
  kernels[evaluation.candidate_id()] = {std::move(candidate), FromProto(record.facts()), speedup};
  return absl::OkStatus();
}

}  // namespace

void AddLessonFlags(CLI::App& app, LessonFlags& flags) {
  CLI::Option* lessons = app.add_option("--lessons", flags.file,
                                        "Show the model what earlier searches of the problem's "
                                        "family showed");
  lessons->type_name("FILE.jsonl");
  app.add_flag("--learn", flags.learn, "Add what this search shows to the file of --lessons")
      ->needs(lessons);
}

absl::Status SetLessons(Context& context, const LessonFlags& flags, const Problem& problem,
                        v1::SearchSpec& spec) {
  if (flags.file.empty()) return absl::OkStatus();
  const bool shows = spec.generator() == v1::GENERATOR_LLM;
  if (!shows && !flags.learn) {
    return absl::InvalidArgumentError(
        "--lessons: prompts show lessons, so give --generator llm too, or --learn to add what this "
        "search shows to the file");
  }
  LessonBook book;
  if (flags.learn) {
    KC_ASSIGN_OR_RETURN(const std::unique_ptr<LessonFile> file, LessonFile::Lock(flags.file));
    KC_RETURN_IF_ERROR(file->CheckWritable());
    KC_ASSIGN_OR_RETURN(book, file->Read());
  } else {
    KC_ASSIGN_OR_RETURN(book, ReadLessonBook(flags.file));
  }
  if (!shows) return absl::OkStatus();
  const std::string device = spec.device_models_size() == 1 ? spec.device_models(0) : "";
  for (const Lesson& lesson :
       LessonsFor(book, problem.family, spec.target(), device, kMostLessons)) {
    *spec.add_lessons() = ToProto(lesson);
  }
  context.console.Note(absl::StrCat(FormatCount(static_cast<uint64_t>(spec.lessons_size())),
                                    " lessons about ", OneLine(problem.family), " on ",
                                    spec.target(), " in ", flags.file));
  return absl::OkStatus();
}

absl::Status KeepLessons(v1::Orchestrator::Stub& stub, v1::StartSearchRequest& start) {
  v1::GetSearchRequest request;
  request.set_search_id(start.search_id());
  v1::GetSearchReply reply;
  const absl::Status known = Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply);
  if (absl::IsNotFound(known)) return absl::OkStatus();
  KC_RETURN_IF_ERROR(known);
  *start.mutable_spec()->mutable_lessons() = SearchesIn(reply).front().spec().lessons();
  return absl::OkStatus();
}

std::string LearntName(const v1::Search& search) {
  ContentHasher hasher;
  hasher.Add(search.spec().problem_id())
      .Add(search.spec().target())
      .Add(search.device_model())
      .Add(static_cast<long long>(ToNanoseconds(search.started_at())));
  return absl::StrCat(search.search_id(), "#", hasher.Hex128().substr(0, 16));
}

absl::StatusOr<LearntSearch> LearnFrom(v1::Orchestrator::Stub& stub, const v1::Search& search,
                                       const Problem& problem) {
  grpc::ClientContext call;
  SetTimeout(call, kRecordsTimeout);
  v1::ExportRequest request;
  request.set_search_id(search.search_id());
  const CancellableCall cancellable(call);
  const auto reader = stub.Export(&call, request);
  SearchOutcome outcome;
  std::map<std::string, MeasuredKernel> kernels;
  v1::ExportRecord record;
  absl::Status added;
  while (added.ok() && reader->Read(&record)) {
    added = AddKernel(record, search, kernels);
    if (record.has_reference_facts()) outcome.reference_facts = FromProto(record.reference_facts());
  }
  if (!added.ok()) call.TryCancel();
  const grpc::Status finished = reader->Finish();
  KC_RETURN_IF_ERROR(added);
  KC_RETURN_IF_ERROR(FromGrpc(finished, call));
  outcome.family = problem.family;
  outcome.target = search.spec().target();
  outcome.device_model = search.device_model();
  if (const auto reference = ReferenceCandidate(problem, outcome.target); reference.ok()) {
    outcome.reference_id = reference->candidate_id;
  }
  for (auto& [id, kernel] : kernels) outcome.kernels.push_back(std::move(kernel));
  return LearntSearch{LearntName(search), LearnLessons(outcome)};
}

absl::Status AddToBook(Context& context, const std::string& file,
                       const std::vector<LearntSearch>& searches) {
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<LessonFile> locked, LessonFile::Lock(file));
  KC_ASSIGN_OR_RETURN(LessonBook book, locked->Read());
  size_t learnt = 0;
  size_t changes = 0;
  for (const LearntSearch& search : searches) {
    const size_t before = book.searches.size();
    KC_RETURN_IF_ERROR(AddSearch(search.name, search.lessons, book));
    if (book.searches.size() == before) continue;
    ++learnt;
    changes += search.lessons.size();
  }
  KC_RETURN_IF_ERROR(locked->Write(book));
  context.console.Note(absl::StrCat("learnt ", FormatCount(changes), " changes from ",
                                    FormatCount(learnt), " searches; ", file, " has ",
                                    FormatCount(book.lessons.size()), " lessons of ",
                                    FormatCount(book.searches.size()), " searches"));
  return absl::OkStatus();
}

absl::Status LearnAtEnd(Context& context, Connection& connection, const LessonFlags& flags,
                        const std::vector<v1::Search>& searches, const Problem& problem) {
  if (!flags.learn) return absl::OkStatus();
  std::vector<LearntSearch> learnt;
  const auto fetch = [&](v1::Orchestrator::Stub& stub) -> absl::Status {
    learnt.clear();
    for (const v1::Search& search : searches) {
      v1::GetSearchRequest request;
      request.set_search_id(search.search_id());
      v1::GetSearchReply reply;
      KC_RETURN_IF_ERROR(Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply));
      for (const v1::Search& ended : SearchesIn(reply)) {
        if (!ended.has_ended_at()) continue;
        KC_ASSIGN_OR_RETURN(LearntSearch one, LearnFrom(stub, ended, problem));
        learnt.push_back(std::move(one));
      }
    }
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(connection.AskOrchestrator(fetch));
  return AddToBook(context, flags.file, learnt);
}

}  // namespace kernelcast::cli
