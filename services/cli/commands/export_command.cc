// export: writes settled evaluations as records, or as rows of the published formats.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "common/convert/proto_json.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/export_prompts.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/commands/prompt_list.h"
#include "services/cli/core/paper_rows.h"
#include "services/cli/report/row_export.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/event_rows.h"
#include "services/cli/rpc/records.h"
#include "services/cli/rpc/search_watch.h"

namespace kernelcast::cli {
namespace {

constexpr const char* kRecordsFormat = "records";
constexpr const char* kRlFormat = "rl";
constexpr absl::Duration kWatchTick = absl::Milliseconds(200);

struct ExportFlags {
  ConnectionFlags connection;
  std::string search_id;
  bool all = false;
  bool sources = false;
  uint64_t from_sequence = 0;
  std::string output = "-";
  std::string format = kRecordsFormat;
  std::vector<std::string> record_files;
  std::string bin_scheme;
  uint64_t pairs = 0;
  uint64_t per_bin = 0;
  uint64_t seed = 1;
  bool prompts = false;
  std::vector<std::string> row_files;
  std::vector<std::string> problems;
  PromptFlags prompt;
};

absl::Status WriteLine(OutputFile& output, std::string line) {
  line += '\n';
  return output.Write(line);
}

// An empty `search_id` matches any search; "s1" also matches "s1@nvidia-h200" etc.
bool IsOfSearch(const v1::ExportRecord& record, const std::string& search_id) {
  const std::string& own = record.evaluation().search_id();
  return search_id.empty() || own == search_id || own.starts_with(absl::StrCat(search_id, "@"));
}

using RecordHandler = std::function<absl::Status(const v1::ExportRecord&)>;

// Streams the settled evaluations of the requested search from the orchestrator, each once. After a
// break, the export of one search continues after its last record. An export of all searches starts
// again and skips known records, because each shard of the log has its own sequence numbers.
absl::Status StreamRecords(Context& context, const ExportFlags& flags, Connection& connection,
                           bool with_sources, const RecordHandler& on_record) {
  v1::ExportRequest request;
  request.set_search_id(flags.search_id);
  request.set_include_sources(with_sources);
  request.set_from_sequence(flags.from_sequence);
  // Requests seen, for an export of all searches. Searches of different shards may have the same
  // id.
  std::set<std::pair<std::string, std::string>> seen;
  return connection.AskOrchestrator([&](v1::Orchestrator::Stub& stub) -> absl::Status {
    grpc::ClientContext call;
    const CancellableCall cancellable(call);
    const auto reader = stub.Export(&call, request);
    v1::ExportRecord record;
    absl::Status broken;
    while (broken.ok() && reader->Read(&record)) {
      const v1::Evaluation& evaluation = record.evaluation();
      if (flags.all && !seen.emplace(evaluation.search_id(), evaluation.request_id()).second) {
        continue;
      }
      if (!flags.all) request.set_from_sequence(record.sequence() + 1);
      broken = on_record(record);
      if (context.interrupt.requested()) broken = absl::CancelledError("interrupted");
    }
    if (!broken.ok()) call.TryCancel();
    absl::Status finished = FromGrpc(reader->Finish(), call);
    KC_RETURN_IF_ERROR(broken);
    return finished;
  });
}

// Adds the references of the records' problems, and the sources of template points that records
// lack, for problems that are available in exactly the version that was measured.
void FillBook(const Context& context, const std::vector<RecordToExport>& records,
              SourceBook& book) {
  std::map<std::string, std::set<std::string>> problems;  // id to names
  std::set<std::string> lacking;
  for (const RecordToExport& record : records) {
    const Candidate& candidate = record.candidate.candidate;
    problems[candidate.problem_id].insert(record.problem_name);
    if (candidate.source.empty()) lacking.insert(candidate.candidate_id);
  }
  for (const auto& [id, names] : problems) {
    for (const std::string& name : names) {
      if (name.empty()) continue;
      const absl::StatusOr<LoadedProblem> loaded = LoadProblem(context, name);
      if (!loaded.ok() || loaded->problem.problem_id != id) continue;
      for (const auto& [target, details] : loaded->problem.targets) {
        book.references[ReferenceKey(id, target)] = details.reference.source;
        if (lacking.empty() || !details.space.has_value()) continue;
        for (const SpacePoint& point : EnumeratePoints(*details.space)) {
          Candidate candidate = CandidateFromPoint(*details.space, point, id);
          if (lacking.count(candidate.candidate_id) == 0) continue;
          book.candidates[candidate.candidate_id] = std::move(candidate.source);
        }
      }
    }
  }
}

const std::string& ProgramFolder(const Context& context, const ExportFlags& flags) {
  return flags.connection.service_dir.empty() ? context.program_folder
                                              : flags.connection.service_dir;
}

void WarnOfPrompts(Context& context, const PromptCounts& counts) {
  if (counts.without_problem > 0) {
    context.console.Warn(absl::StrCat(FormatCount(counts.without_problem),
                                      " rows left out: their problem is not found in the version "
                                      "that was measured"));
  }
  if (counts.too_long > 0) {
    context.console.Warn(
        absl::StrCat(FormatCount(counts.too_long), " rows left out: their prompt is too long"));
  }
}

// Returns the rows in the requested format; `statistics` receives figures about them.
absl::StatusOr<RowExport> MakeRows(Context& context, const ExportFlags& flags,
                                   const std::vector<RecordToExport>& records, Json& statistics) {
  SourceBook book;
  FillBook(context, records, book);
  const bool rl = flags.format == kRlFormat;
  KC_ASSIGN_OR_RETURN(const BinScheme* scheme,
                      BinScheme::Find(!flags.bin_scheme.empty() ? std::string_view(flags.bin_scheme)
                                      : rl                      ? BinScheme::kDefaultId
                                                                : BinScheme::kPaperFormulaId));
  if (!rl && flags.format != Name(RowFormat::kTrainingRows)) {
    KC_ASSIGN_OR_RETURN(const RowFormat format, ParseRowFormat(flags.format));
    if (format == RowFormat::kEvaluationRows) return ExportEvaluationRows(records, book, *scheme);
    if (format == RowFormat::kPredictionRows) return ExportPredictionRows(records);
    return ExportDiscoveryPairs(records, book, *scheme);
  }
  TrainingOptions options;
  options.scheme = scheme;
  options.pairs = flags.pairs;
  options.seed = flags.seed;
  options.details = rl || scheme->id() != BinScheme::kPaperFormulaId;
  PromptExport prompts{ProgramFolder(context, flags), flags.prompt, {}, flags.bin_scheme};
  if (rl) {
    KC_ASSIGN_OR_RETURN(prompts.listed, FindPrompt(context, prompts.program_folder, flags.prompt));
    options.prompt_version = prompts.listed.version;
    options.prompt_hash = prompts.listed.hash;
    options.answer_schema_hash = prompts.listed.answer_schema_hash;
  }
  TrainingRows made = MakeTrainingRows(records, book, options);
  if (rl) {
    statistics["pool"] = made.rows.size();
    made.rows = BalanceRows(std::move(made.rows), flags.per_bin, flags.seed);
    std::vector<uint64_t> by_bin(static_cast<size_t>(scheme->size()));
    for (const TrainingRow& row : made.rows) ++by_bin[static_cast<size_t>(row.relative_bin - 1)];
    statistics["by_bin"] = by_bin;
    statistics["bin_scheme_id"] = scheme->id();
    statistics["prompt_version"] = options.prompt_version;
  }
  RowExport result;
  result.without_source = made.without_source;
  if (flags.prompts) {
    KC_ASSIGN_OR_RETURN(const PromptCounts counts,
                        ExportPrompts(context, prompts, made, [&](const RowJson& row) {
                          result.rows.push_back(row);
                          return absl::OkStatus();
                        }));
    WarnOfPrompts(context, counts);
    return result;
  }
  for (const TrainingRow& row : made.rows) result.rows.push_back(ToJson(row));
  return result;
}

absl::StatusOr<ExitCode> Finish(Context& context, const ExportFlags& flags, OutputFile& output,
                                uint64_t lines, const char* what, Json statistics) {
  KC_RETURN_IF_ERROR(output.Commit());
  if (flags.output == "-") return ExitCode::kOk;
  context.console.Note(absl::StrCat(FormatCount(lines), " ", what, " in ", flags.output));
  statistics[what] = lines;
  statistics["output"] = flags.output;
  context.console.Line(statistics);
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> ExportRows(Context& context, const ExportFlags& flags,
                                    Connection* connection) {
  std::vector<RecordToExport> records;
  const RecordHandler add = [&](const v1::ExportRecord& record) -> absl::Status {
    if (!IsOfSearch(record, flags.search_id)) return absl::OkStatus();
    KC_ASSIGN_OR_RETURN(ReportCandidate candidate, ReportCandidateFromProto(record));
    records.push_back(
        {std::move(candidate), record.problem_name(), record.evaluation().search_id()});
    return absl::OkStatus();
  };
  for (const std::string& file : flags.record_files) KC_RETURN_IF_ERROR(ReadRecords(file, add));
  if (connection != nullptr) {
    KC_RETURN_IF_ERROR(StreamRecords(context, flags, *connection, /*with_sources=*/true, add));
  }
  Json statistics;
  KC_ASSIGN_OR_RETURN(const RowExport made, MakeRows(context, flags, records, statistics));
  if (made.without_source > 0) {
    const std::string reason = absl::StrCat(
        FormatCount(made.without_source),
        " rows left out: a source is neither in the records (export them with --sources) nor made "
        "by a template of the problem in the version that was measured");
    if (made.rows.empty()) return absl::FailedPreconditionError(reason);
    context.console.Warn(reason);
  }
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> output, OutputFile::Open(flags.output));
  for (const RowJson& row : made.rows) KC_RETURN_IF_ERROR(WriteLine(*output, JsonLine(row)));
  statistics["without_source"] = made.without_source;
  return Finish(context, flags, *output, made.rows.size(), "rows", statistics);
}

// Writes the records themselves, adding missing sources.
absl::StatusOr<ExitCode> ExportWithSources(Context& context, const ExportFlags& flags) {
  std::vector<v1::ExportRecord> records;
  std::vector<RecordToExport> candidates;
  for (const std::string& file : flags.record_files) {
    KC_RETURN_IF_ERROR(ReadRecords(file, [&](const v1::ExportRecord& record) -> absl::Status {
      if (!IsOfSearch(record, flags.search_id)) return absl::OkStatus();
      KC_ASSIGN_OR_RETURN(ReportCandidate candidate, ReportCandidateFromProto(record));
      records.push_back(record);
      candidates.push_back(
          {std::move(candidate), record.problem_name(), record.evaluation().search_id()});
      return absl::OkStatus();
    }));
  }
  SourceBook book;
  FillBook(context, candidates, book);
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> output, OutputFile::Open(flags.output));
  uint64_t without_source = 0;
  for (v1::ExportRecord& record : records) {
    v1::Candidate& candidate = *record.mutable_candidate();
    const auto found = book.candidates.find(candidate.candidate_id());
    if (candidate.source().empty() && found != book.candidates.end()) {
      candidate.set_source(found->second);
    }
    without_source += candidate.source().empty() ? 1 : 0;
    KC_RETURN_IF_ERROR(WriteLine(*output, ProtoToJson(record)));
  }
  if (without_source > 0) {
    context.console.Warn(
        absl::StrCat(FormatCount(without_source),
                     " records still lack a source: no template of the problem, in "
                     "the version that was measured, makes it"));
  }
  return Finish(context, flags, *output, records.size(), "records",
                {{"without_source", without_source}});
}

// NOT_FOUND: the orchestrator does not know the requested search, whose export would be empty.
// INVALID_ARGUMENT: it ran on several device models, and `events` are exported from one only.
absl::StatusOr<v1::Search> FindSearch(const ExportFlags& flags, Connection& connection,
                                      bool events) {
  v1::GetSearchRequest request;
  request.set_search_id(flags.search_id);
  v1::GetSearchReply reply;
  KC_RETURN_IF_ERROR(connection.AskOrchestrator([&](v1::Orchestrator::Stub& stub) {
    return Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply);
  }));
  const std::vector<v1::Search> searches = SearchesIn(reply);
  if (events) KC_RETURN_IF_ERROR(RequireOneSearch("--format search-events", searches));
  return searches.front();
}

absl::StatusOr<ExitCode> ExportEvents(Context& context, const ExportFlags& flags,
                                      Connection& connection) {
  if (flags.search_id.empty()) {
    return absl::InvalidArgumentError("--format search-events: say which search");
  }
  KC_ASSIGN_OR_RETURN(const v1::Search search, FindSearch(flags, connection, /*events=*/true));
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> output, OutputFile::Open(flags.output));
  EventRowMaker maker(search);
  uint64_t lines = 0;
  const auto write = [&](const std::vector<SearchEventRow>& rows) -> absl::Status {
    for (const SearchEventRow& row : rows) {
      KC_RETURN_IF_ERROR(WriteLine(*output, JsonLine(ToJson(row))));
      ++lines;
    }
    return absl::OkStatus();
  };
  SearchWatch watch(
      flags.search_id, [&connection] { return connection.Orchestrator(); }, flags.from_sequence);
  // The stream of a finished search ends by itself. For a running search, export what has happened
  // so far.
  const bool over = PhaseOf(search.status()) == SearchProgress::Phase::kDone ||
                    PhaseOf(search.status()) == SearchProgress::Phase::kFailed;
  bool complete = false;
  while (!complete) {
    const SearchWatch::Update update = watch.Next(kWatchTick);
    for (const v1::SearchEvent& event : update.events) {
      if (complete) break;
      KC_RETURN_IF_ERROR(write(maker.Rows(event)));
      complete = !over && event.sequence() >= search.last_sequence();
    }
    if (context.interrupt.requested()) return absl::CancelledError("interrupted");
    if (!complete && update.ended.has_value()) {
      KC_RETURN_IF_ERROR(*update.ended);
      break;
    }
  }
  return Finish(context, flags, *output, lines, "events", Json::object());
}

// Writes the prompts of published rows.
absl::StatusOr<ExitCode> ExportRowPrompts(Context& context, const ExportFlags& flags) {
  PromptExport options{ProgramFolder(context, flags), flags.prompt, {}, flags.bin_scheme};
  KC_ASSIGN_OR_RETURN(options.listed, FindPrompt(context, options.program_folder, flags.prompt));
  KC_ASSIGN_OR_RETURN(const std::vector<Comparison> comparisons, ReadComparisons(flags.row_files));
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> output, OutputFile::Open(flags.output));
  KC_ASSIGN_OR_RETURN(const PromptCounts counts,
                      ExportPrompts(context, options, comparisons, [&](const RowJson& row) {
                        return WriteLine(*output, JsonLine(row));
                      }));
  WarnOfPrompts(context, counts);
  return Finish(context, flags, *output, counts.prompts, "prompts",
                {{"prompt_version", options.listed.version}});
}

absl::StatusOr<ExitCode> RunExport(Context& context, ExportFlags flags) {
  KC_RETURN_IF_ERROR(NameProblems(context, flags.problems));
  const bool events = flags.format == Name(RowFormat::kSearchEvents);
  if (flags.prompts && !flags.row_files.empty()) return ExportRowPrompts(context, flags);
  if (flags.prompts && flags.format != kRlFormat) {
    return absl::InvalidArgumentError("--prompts needs --format rl, or --rows FILE");
  }
  if (!flags.record_files.empty()) {
    if (flags.all) return absl::InvalidArgumentError("--all and --records exclude each other");
    if (!flags.search_id.empty()) {
      KC_ASSIGN_OR_RETURN(flags.search_id,
                          FindSearchIdInRecords(flags.record_files, flags.search_id));
    }
    if (flags.sources && flags.format == kRecordsFormat) return ExportWithSources(context, flags);
    if (events || flags.format == kRecordsFormat) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--records: there is nothing to make of records in the format ", flags.format));
    }
    return ExportRows(context, flags, nullptr);
  }
  if (flags.search_id.empty() == !flags.all) {
    return absl::InvalidArgumentError("say which search to export, or --all, or --records FILE");
  }
  Connection connection(context, flags.connection, Needs::kLog);
  if (!flags.search_id.empty()) {
    KC_RETURN_IF_ERROR(
        connection.AskOrchestrator([&](v1::Orchestrator::Stub& stub) -> absl::Status {
          KC_ASSIGN_OR_RETURN(flags.search_id, FindSearchId(stub, flags.search_id));
          return absl::OkStatus();
        }));
  }
  if (events) return ExportEvents(context, flags, connection);
  if (!flags.all) {
    KC_RETURN_IF_ERROR(FindSearch(flags, connection, /*events=*/false).status());
  }
  if (flags.format != kRecordsFormat) return ExportRows(context, flags, &connection);
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> output, OutputFile::Open(flags.output));
  uint64_t records = 0;
  KC_RETURN_IF_ERROR(
      StreamRecords(context, flags, connection, flags.sources, [&](const v1::ExportRecord& record) {
        ++records;
        return WriteLine(*output, ProtoToJson(record));
      }));
  return Finish(context, flags, *output, records, "records", Json::object());
}

}  // namespace

void AddExportCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* exporter =
      AddCommand(app, context, "export",
                 "Export settled evaluations as JSON lines: records, or rows to score and train on",
                 [&context, flags] { return RunExport(context, *flags); });
  std::vector<std::string> formats;
  for (const RowFormat format : kRowFormats) formats.emplace_back(Name(format));
  formats.emplace_back(kRlFormat);
  std::vector<std::string> schemes;
  for (const BinScheme* scheme : BinScheme::All()) schemes.push_back(scheme->id());
  exporter->add_option("SEARCH_ID", flags->search_id,
                       "The search, on all of its device models; ID@MODEL is the one on MODEL");
  exporter->add_flag("--all", flags->all, "All evaluations that the orchestrator has settled");
  exporter->add_flag(
      "--sources", flags->sources,
      "Records with the sources of the candidates; with --records, adds those of template points");
  exporter
      ->add_option("--format", flags->format,
                   "Format of the lines; rl: training rows balanced over the bins")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  exporter
      ->add_option("--records", flags->record_files,
                   "Make rows of these exported records instead of asking an orchestrator")
      ->type_name("FILE.jsonl");
  exporter
      ->add_option("--bin-scheme", flags->bin_scheme,
                   "Bins of the labels [" + std::string(BinScheme::kPaperFormulaId) +
                       ", as published; for rl " + std::string(BinScheme::kDefaultId) + "]")
      ->check(CLI::IsMember(schemes));
  exporter
      ->add_option("--pairs", flags->pairs,
                   "Training rows: also pair this many candidates of each problem and device")
      ->check(WholeNumberFrom(0))
      ->type_name("N");
  exporter
      ->add_option("--per-bin", flags->per_bin,
                   "rl: rows of each bin [as many as the rarest bin has]")
      ->check(WholeNumberFrom(0))
      ->type_name("N");
  exporter->add_option("--seed", flags->seed, "Training rows: seed of the random draws")
      ->check(WholeNumberFrom(0))
      ->capture_default_str();
  auto* prompts = exporter->add_flag(
      "--prompts", flags->prompts,
      "rl: write the rendered prompts with the right answers instead of the rows, without asking a "
      "model");
  exporter
      ->add_option(
          "--rows", flags->row_files,
          "With --prompts: render the prompts of these published rows instead of asking an "
          "orchestrator")
      ->needs(prompts)
      ->type_name("FILE.jsonl");
  exporter
      ->add_option(
          "--prompt", flags->prompt.prompt,
          "rl: prompt to train models on; each row has its version [the forecaster's default]")
      ->type_name("VERSION");
  AddPromptDirectoryFlag(*exporter, flags->prompt);
  AddProblemsOption(*exporter, flags->problems);
  exporter
      ->add_option("--from-sequence", flags->from_sequence,
                   "Start at this sequence number of the log, at most the one after its last")
      ->check(WholeNumberFrom(0))
      ->type_name("N");
  exporter->add_option("-o,--output", flags->output, "Output file; - is standard output")
      ->capture_default_str()
      ->type_name("FILE.jsonl");
  AddConnectionFlags(*exporter, flags->connection, Needs::kLog);
}

}  // namespace kernelcast::cli
