#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/config/number_flags.h"
#include "common/convert/convert.h"
#include "common/domain/facts.h"
#include "common/domain/text.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/evaluate_modes.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/core/candidate_files.h"
#include "services/cli/core/not_simulated.h"
#include "services/cli/core/own_kernels.h"
#include "services/cli/core/table.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/search_json.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/evaluate_stream.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {

const std::map<std::string, v1::EvaluateMode>& Modes() {
  static const auto* const modes =
      new std::map<std::string, v1::EvaluateMode>{{"route", v1::EVALUATE_MODE_ROUTE},
                                                  {"measure", v1::EVALUATE_MODE_MEASURE},
                                                  {"final", v1::EVALUATE_MODE_FINAL},
                                                  {"forecast", v1::EVALUATE_MODE_FORECAST},
                                                  {"check", v1::EVALUATE_MODE_CHECK}};
  return *modes;
}

void AddEvaluateOptions(CLI::App& app, std::string& mode, size_t& max_in_flight) {
  std::vector<std::string> modes;
  for (const auto& [name, value] : Modes()) modes.push_back(name);
  app.add_option("--mode", mode,
                 "route: the policy decides; measure; final: measure at the final level; forecast: "
                 "do not measure; check: check the outputs, time nothing")
      ->check(CLI::IsMember(modes))
      ->capture_default_str();
  app.add_option("--in-flight", max_in_flight, "Maximum number of candidates in flight")
      ->check(WholeNumberFrom(1, 10000))
      ->capture_default_str();
}

namespace {

struct EvaluateFlags {
  ConnectionFlags connection;
  std::string problem;
  TaskOptions task_options;
  std::string target;
  std::string candidates;
  std::string mode = "route";
  std::string search_id;
  std::vector<std::string> device_models;
  size_t max_in_flight = 64;
};

struct Settled {
  std::string name;
  std::string decision;
  std::string forecast;
  std::string result;
  std::string detail;
  std::string failure;  // the full text, which may have several lines
  bool good = false;
  bool unavailable = false;  // not evaluated, for the reason in `failure`
  bool measured = false;     // the outcome is ok
  std::string not_simulated;
};

void AddDetail(const std::string& detail, Settled& settled) {
  absl::StrAppend(&settled.detail, settled.detail.empty() ? "" : "; ", detail);
}

Settled DescribeError(const std::string& name, const v1::RequestError& error, const Style& style) {
  Settled settled;
  settled.name = OneLine(name);
  settled.decision = "refused";
  settled.result = style.Red(absl::StatusCodeToString(static_cast<absl::StatusCode>(error.code())));
  settled.failure = ForTerminal(error.message());
  return settled;
}

// A file that is no candidate, as the orchestrator would refuse its content.
v1::RequestError RefusalOf(const RefusedFile& file) {
  v1::RequestError error;
  error.set_code(static_cast<int32_t>(file.reason.code()));
  error.set_message(
      SanitizeUtf8(std::string_view(file.reason.message().data(), file.reason.message().size())));
  return error;
}

// Why the forecast does not rest on a simulation of the candidate, on targets that have them. Empty
// if it does, if there is none, or if the worker that compiled it simulates nothing.
std::string ReasonWithoutSimulation(const v1::Evaluation& evaluation) {
  std::string why = WhyNotSimulated(FromProto(evaluation.facts()));
  const v1::ForecastBasis basis = evaluation.decided_on().basis();
  if (why.empty() && evaluation.facts().schema() == kPythonSourceSchemaId &&
      evaluation.facts().simulations_size() > 0 &&
      (basis == v1::FORECAST_BASIS_PRIOR_ONLY || basis == v1::FORECAST_BASIS_LABELS)) {
    why = "the task's reference is not simulated; `kernelcast forecast` says why";
  }
  return why;
}

Settled Describe(const std::string& name, const v1::Evaluation& evaluation, const Style& style) {
  Settled settled;
  settled.name = OneLine(name);
  const absl::StatusOr<ReportCandidate> row = ReportCandidateFromProto(evaluation, v1::Candidate());
  if (!row.ok()) {
    settled.result = style.Red("unreadable");
    settled.failure = ForTerminal(std::string(row.status().message()));
    return settled;
  }
  if (row->decision.has_value()) settled.decision = std::string(ReasonWord(row->decision->reason));
  if (row->forecast.has_value()) {
    settled.forecast = ExpectedText(*row->forecast);
  }
  settled.not_simulated = ReasonWithoutSimulation(evaluation);
  const Passed* const passed =
      row->measurement ? std::get_if<Passed>(&row->measurement->outcome) : nullptr;
  if (passed != nullptr) {
    settled.result = style.Green("correct");
    settled.good = true;
    settled.detail = absl::StrCat("not timed; ", passed->correctness_cases, " cases");
    for (const MeasurementNote note : passed->notes)
      AddDetail(std::string(NoteText(note)), settled);
    return settled;
  }
  switch (FateOf(*row)) {
    case Fate::kOk: {
      const Ratio& speedup = *SpeedupOf(*row);
      const std::string figure = FormatSpeedup(speedup.value);
      settled.result =
          (speedup.low > 1 ? style.Green(figure) : figure) + " " + FormatInterval(speedup);
      settled.good = true;
      settled.measured = true;
      if (row->reused) settled.detail = "measured before";
      const auto& ok = std::get<MeasuredOk>(row->measurement->outcome);
      if (ok.compiled) AddDetail(CompiledPhrase(*ok.compiled), settled);
      for (const MeasurementNote note : ok.notes) AddDetail(std::string(NoteText(note)), settled);
      break;
    }
    case Fate::kPruned:
      settled.result = "not measured";
      settled.good = true;
      break;
    default:
      settled.unavailable = evaluation.rejected().has_unavailable();
      settled.failure =
          ForTerminal(settled.unavailable ? evaluation.rejected().unavailable() : row->feedback);
      settled.result = style.Red(settled.unavailable           ? "not evaluated"
                                 : FailurePhrase(*row).empty() ? OneLine(row->rejection)
                                                               : FailurePhrase(*row));
  }
  return settled;
}

// The table of results.
class ResultTable {
 public:
  void Add(const Settled& one) {
    std::string detail = one.detail;
    if (!one.not_simulated.empty()) {
      absl::StrAppend(&detail, detail.empty() ? "" : "; ", "not simulated");
    }
    table_.AddRow({one.name, one.decision, one.forecast, one.result, std::move(detail)});
    not_simulated_.Add(one.name, one.not_simulated);
    all_good_ = all_good_ && one.good;
    if (one.failure.empty()) return;
    const auto same = std::ranges::find(failures_, one.failure, &Failure::text);
    Failure& failure =
        same != failures_.end() ? *same : failures_.emplace_back(Failure{one.failure, {}});
    failure.names.push_back(one.name);
  }
  bool all_good() const { return all_good_; }
  // The rows, and below them the full text of each failure, after the candidates that have it.
  std::string Render(const Style& style, int width) const {
    if (table_.empty()) return "";
    std::string text = table_.Render(style, width);
    const std::string not_simulated = not_simulated_.Render(width);
    absl::StrAppend(&text, not_simulated.empty() ? "" : "\n", not_simulated);
    for (const Failure& failure : failures_) {
      absl::StrAppend(&text, "\n", WrapText(CommaList(failure.names), width), ":\n", failure.text,
                      failure.text.back() == '\n' ? "" : "\n");
    }
    return text;
  }

 private:
  struct Failure {
    std::string text;
    std::vector<std::string> names;
  };
  Table table_ = Table({{"candidate", Table::Align::kLeft, true},
                        {"decision"},
                        {"forecast", Table::Align::kRight},
                        {"result"},
                        {"detail", Table::Align::kLeft, false, true}});
  std::vector<Failure> failures_;
  NotSimulatedList not_simulated_;
  bool all_good_ = true;
};

// Facts are many numbers, which `export` and `compile` show.
v1::Evaluation WithoutFacts(v1::Evaluation evaluation) {
  evaluation.clear_facts();
  evaluation.clear_fact_schemas();
  return evaluation;
}

// One result for each device model that the candidate was evaluated on.
std::vector<Settled> DescribeAll(const std::string& name, const v1::EvaluateReply& reply,
                                 const Style& style) {
  if (reply.has_error()) return {DescribeError(name, reply.error(), style)};
  if (reply.further().empty()) return {Describe(name, reply.evaluation(), style)};
  const auto named = [&](const v1::Evaluation& evaluation) {
    return absl::StrCat(name, " on ", evaluation.device_model());
  };
  std::vector<Settled> all = {Describe(named(reply.evaluation()), reply.evaluation(), style)};
  for (const v1::Evaluation& further : reply.further()) {
    all.push_back(Describe(named(further), further, style));
  }
  return all;
}

absl::StatusOr<ExitCode> RunEvaluate(Context& context, const EvaluateFlags& flags) {
  Console& console = context.console;
  KC_ASSIGN_OR_RETURN(const LoadedProblem loaded,
                      LoadProblem(context, flags.problem, flags.task_options));
  KC_ASSIGN_OR_RETURN(std::string target, ChooseTarget(loaded.problem, flags.target));
  // Before the services start, so that a wrong file is reported at once.
  std::vector<RefusedFile> refused;
  KC_ASSIGN_OR_RETURN(std::vector<NamedCandidate> candidates,
                      ReadCandidatesOf(loaded.problem, flags.candidates, target, &refused));

  Connection connection(context, flags.connection, Needs::kOrchestrator);
  KC_ASSIGN_OR_RETURN(const v1::PutProblemReply known, connection.PutProblem(loaded.problem));
  const bool other_target = TakeDefaultTarget(console, flags.target, known, target);
  if (Modes().at(flags.mode) != v1::EVALUATE_MODE_FORECAST) {
    KC_RETURN_IF_ERROR(connection.CheckMeasures(target));
  }
  if (other_target) {
    KC_ASSIGN_OR_RETURN(candidates,
                        ReadCandidatesOf(loaded.problem, flags.candidates, target, &refused));
  }

  std::string search_id;
  if (!flags.search_id.empty()) {
    KC_RETURN_IF_ERROR(
        connection.AskOrchestrator([&](v1::Orchestrator::Stub& stub) -> absl::Status {
          KC_ASSIGN_OR_RETURN(search_id, FindSearchId(stub, flags.search_id));
          return absl::OkStatus();
        }));
  }
  const std::string batch = RandomId("e_");
  std::vector<v1::EvaluateRequest> requests;
  std::map<std::string, std::string> names;
  std::set<std::string> only_call_pytorch;  // request ids
  for (size_t i = 0; i < candidates.size(); ++i) {
    v1::EvaluateRequest request;
    request.set_request_id(absl::StrCat(batch, "/", i + 1));
    *request.mutable_candidate() = ToProto(candidates[i].candidate);
    request.set_search_id(search_id);
    request.set_mode(Modes().at(flags.mode));
    request.set_include_facts(true);
    request.mutable_device_models()->Assign(flags.device_models.begin(), flags.device_models.end());
    names[request.request_id()] = candidates[i].name;
    if (OnlyCallsPyTorch(candidates[i].candidate)) {
      only_call_pytorch.insert(request.request_id());
    }
    requests.push_back(std::move(request));
  }

  for (const RefusedFile& file : refused) {
    const Settled one = DescribeError(file.name, RefusalOf(file), console.live_style());
    console.Note(absl::StrCat(one.name, ": ", one.result, ": ", OneLine(one.failure)));
    console.Line({{"name", file.name}, {"error", ErrorJson(file.reason)}});
  }
  std::map<std::string, std::vector<Settled>> settled;
  EvaluateOptions options;
  options.max_in_flight = flags.max_in_flight;
  options.cancelled = [&context] { return context.interrupt.requested(); };
  options.reconnect = [&connection] { return connection.Orchestrator(); };
  options.on_trouble = [&console](const std::string& trouble) {
    if (!trouble.empty()) console.Warn(absl::StrCat("connection lost: ", OneLine(trouble)));
  };
  // Often all candidates have the same one, such as a missing tool.
  std::set<std::string> reasons;
  const absl::Status status = EvaluateAll(requests, options, [&](const v1::EvaluateReply& reply) {
    const std::string& name = names.at(reply.request_id());
    for (const Settled& one : DescribeAll(name, reply, console.live_style())) {
      const bool explains = one.unavailable && reasons.insert(one.failure).second;
      console.Note(absl::StrCat(settled.size() + 1, "/", requests.size(), " ", one.name, ": ",
                                one.result, explains ? ": " : "",
                                explains ? OneLine(one.failure) : ""));
    }
    std::vector<Settled>& all = settled[reply.request_id()];
    all = DescribeAll(name, reply, console.style());
    Json line = {{"name", name}};
    if (only_call_pytorch.count(reply.request_id()) != 0) {
      line["only_calls_pytorch"] = true;
      for (Settled& one : all) {
        if (one.measured) AddDetail(std::string(kOnlyCallsPyTorchText), one);
      }
    }
    if (reply.has_error()) {
      line["error"] = ErrorJson(absl::Status(static_cast<absl::StatusCode>(reply.error().code()),
                                             reply.error().message()));
    } else {
      line["evaluation"] = JsonOf(WithoutFacts(reply.evaluation()));
      for (const v1::Evaluation& further : reply.further()) {
        line["further"].push_back(JsonOf(WithoutFacts(further)));
      }
      // Of the first device model that has a reason.
      for (const Settled& one : all) {
        if (one.not_simulated.empty()) continue;
        line["not_simulated"] = one.not_simulated;
        break;
      }
    }
    console.Line(line);
  });

  ResultTable table;
  for (const RefusedFile& file : refused) {
    table.Add(DescribeError(file.name, RefusalOf(file), console.style()));
  }
  for (const v1::EvaluateRequest& request : requests) {
    const auto found = settled.find(request.request_id());
    if (found == settled.end()) continue;
    for (const Settled& one : found->second) table.Add(one);
  }
  console.Out(table.Render(console.style(), console.width()));
  KC_RETURN_IF_ERROR(status);
  return table.all_good() ? ExitCode::kOk : ExitCode::kNegative;
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* evaluate = AddCommand(app, context, "evaluate", "Evaluate your own candidates",
                                  [&context, flags] { return RunEvaluate(context, *flags); });
  AddProblemArgument(*evaluate, flags->problem);
  evaluate
      ->add_option("--candidates", flags->candidates,
                   "A folder of sources, each with an optional NAME.json next to it; one source; "
                   "a .jsonl or .jsonl.gz file with one candidate per line; or space: all points "
                   "of the problem's template space")
      ->required()
      ->type_name("PATH");
  AddTargetOption(*evaluate, flags->target);
  AddTaskOptions(*evaluate, flags->task_options);
  AddEvaluateOptions(*evaluate, flags->mode, flags->max_in_flight);
  evaluate
      ->add_option("--device-model", flags->device_models,
                   "Evaluate on this device model, by its name or its label in metrics; may be "
                   "repeated [chosen by the orchestrator]")
      ->type_name("MODEL");
  evaluate->add_option("--search-id", flags->search_id, "Search whose budget and best count")
      ->type_name("ID");
  AddForecasterFlags(*evaluate, flags->connection.forecasts);
  AddConnectionFlags(*evaluate, flags->connection, Needs::kOrchestrator);
}

}  // namespace kernelcast::cli
