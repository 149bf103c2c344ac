#include <google/protobuf/map.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/id.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "common/convert/convert.h"
#include "common/domain/search_names.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/price_flags.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/commands/reporting.h"
#include "services/cli/commands/search_follower.h"
#include "services/cli/commands/search_lessons.h"
#include "services/cli/report/search_json.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {
namespace {

// Share of a template space that is measured by default.
constexpr double kDefaultSpaceShare = 0.2;
constexpr uint64_t kFewestMeasurements = 20;
// Number of requests to a model by default.
constexpr uint64_t kDefaultGeneratorRequests = 64;
constexpr double kMostSeconds = 1e9;
constexpr uint64_t kMostInFlight = 1'000'000;

// "{a,b,c}". The names are those of this release's orchestrator; another release may have more.
std::string BracedList(std::span<const std::string_view> names) {
  std::string list;
  for (const std::string_view name : names) {
    list += list.empty() ? '{' : ',';
    list += name;
  }
  return list + "}";
}

// The names of --gate.
const std::map<std::string, v1::GateMode>& GateModes() {
  static const std::map<std::string, v1::GateMode> modes = {{"off", v1::GATE_MODE_OFF},
                                                            {"declared", v1::GATE_MODE_DECLARED},
                                                            {"drawn", v1::GATE_MODE_DRAWN}};
  return modes;
}

struct SearchFlags {
  ConnectionFlags connection;
  std::string problem;
  TaskOptions task_options;
  std::string target;
  uint64_t max_measurements = 0;
  uint64_t max_candidates = 0;
  double max_seconds = 0;
  double max_device_seconds = 0;
  std::string policy;
  std::vector<std::string> policy_parameters;
  std::string strategy;
  std::vector<std::string> strategy_parameters;
  uint64_t seed = 1;
  uint32_t max_in_flight = 0;
  bool measure_everything = false;
  bool time_in_full = false;
  std::string generator = "template";
  uint64_t generator_requests = 0;
  uint64_t generator_tokens = 0;
  uint32_t generator_in_flight = 0;
  bool critic = false;
  uint64_t forecast_tokens = 0;
  std::vector<std::string> device_models;
  std::string gate = "declared";
  LessonFlags lessons;
  std::string search_id;
  std::string report;
  bool no_report = false;
  FollowOptions follow;
};

// `seconds`: at most kMostSeconds.
google::protobuf::Duration ToDuration(double seconds) {
  return DurationToProto(static_cast<int64_t>(seconds * 1e9));
}

// Adds parameters such as "margin=0.02" to `values`.
absl::Status SetParameters(const std::string& option, const std::vector<std::string>& parameters,
                           google::protobuf::Map<std::string, double>& values) {
  for (const std::string& parameter : parameters) {
    const size_t equals = parameter.find('=');
    char* end = nullptr;
    const double value =
        equals == std::string::npos ? 0 : std::strtod(parameter.c_str() + equals + 1, &end);
    if (equals == 0 || equals == std::string::npos || end == parameter.c_str() + equals + 1 ||
        *end != '\0' || !std::isfinite(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": '", OneLine(parameter), "' is not of the form NAME=NUMBER"));
    }
    values[parameter.substr(0, equals)] = value;
  }
  return absl::OkStatus();
}

absl::Status SetPolicyAndStrategy(const SearchFlags& flags, v1::SearchSpec& spec) {
  spec.set_policy(flags.policy);
  KC_RETURN_IF_ERROR(SetParameters("--policy-parameter", flags.policy_parameters,
                                   *spec.mutable_policy_parameters()));
  spec.set_strategy(flags.strategy);
  return SetParameters("--strategy-parameter", flags.strategy_parameters,
                       *spec.mutable_strategy_parameters());
}

absl::Status SetBudget(const SearchFlags& flags, const Problem& problem, Console& console,
                       v1::SearchSpec& spec) {
  v1::Budget* budget = spec.mutable_budget();
  budget->set_max_measurements(flags.max_measurements);
  budget->set_max_candidates(flags.max_candidates);
  if (flags.max_seconds != 0) *budget->mutable_max_wall_time() = ToDuration(flags.max_seconds);
  if (flags.max_device_seconds != 0) {
    *budget->mutable_max_device_time() = ToDuration(flags.max_device_seconds);
  }
  const bool limited = flags.max_measurements > 0 || flags.max_candidates > 0 ||
                       flags.max_seconds > 0 || flags.max_device_seconds > 0;
  if (spec.generator() == v1::GENERATOR_LLM) {
    v1::GeneratorLimits* limits = spec.mutable_generator_limits();
    limits->set_max_requests(flags.generator_requests);
    limits->set_max_tokens(flags.generator_tokens);
    limits->set_max_in_flight(flags.generator_in_flight);
    spec.set_critic(flags.critic);
    if (!limited && flags.generator_requests == 0 && flags.generator_tokens == 0) {
      limits->set_max_requests(kDefaultGeneratorRequests);
      console.Note(absl::StrCat("no budget was given: asking for at most ",
                                kDefaultGeneratorRequests, " kernels"));
    }
    return absl::OkStatus();
  }
  if (flags.generator_requests > 0 || flags.generator_tokens > 0 || flags.generator_in_flight > 0 ||
      flags.critic) {
    return absl::InvalidArgumentError(
        "--generator-requests, --generator-tokens, --generator-in-flight and --critic go with "
        "--generator llm");
  }
  if (!limited) {
    const uint64_t points = SpacePoints(problem, spec.target());
    const auto share =
        static_cast<uint64_t>(std::ceil(static_cast<double>(points) * kDefaultSpaceShare));
    budget->set_max_measurements(std::max(kFewestMeasurements, share));
    console.Note(absl::StrCat("no budget was given: measuring at most ", budget->max_measurements(),
                              " of the ", FormatCount(points), " points of the template space"));
  }
  return absl::OkStatus();
}

// Fetches the finished search, writes its report and prints a summary.
absl::StatusOr<ExitCode> Conclude(Context& context, Connection& connection,
                                  const std::string& search_id, const Problem* problem,
                                  const SearchFlags& flags, bool interrupted) {
  v1::Search search;
  ReportInput input;
  const auto fetch = [&](v1::Orchestrator::Stub& stub) -> absl::Status {
    v1::GetSearchRequest request;
    request.set_search_id(search_id);
    request.set_include_archive(true);
    v1::GetSearchReply reply;
    KC_RETURN_IF_ERROR(Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply));
    search = SearchesIn(reply).front();
    KC_ASSIGN_OR_RETURN(input, FetchReport(context, stub, search, problem));
    input.prices = flags.follow.prices;
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(connection.AskOrchestrator(fetch));
  const ReportAnalysis analysis = Analyze(input);
  Console& console = context.console;
  std::string report = flags.report;
  if (!flags.no_report) {
    if (report.empty()) {
      KC_ASSIGN_OR_RETURN(const std::string state_dir, StateDir(context, flags.connection));
      report = DefaultReportPath(state_dir, search_id);
    }
    console.Out(SummaryText(input, analysis, console.style(), console.width()));
    KC_RETURN_IF_ERROR(WriteReport(console, input, report));
  } else {
    console.Out(SummaryText(input, analysis, console.style(), console.width()));
  }
  Json json = SummaryJson(input, analysis);
  if (!flags.no_report && report != "-") json["report"] = report;
  json["interrupted"] = interrupted;
  console.Line(json);
  if (interrupted) return ExitCode::kInterrupted;
  if (search.status() == v1::SEARCH_STATUS_FAILED) {
    console.Warn(absl::StrCat("the search failed: ", OneLine(search.end_reason())));
    return ExitCode::kNegative;
  }
  return analysis.faster ? ExitCode::kOk : ExitCode::kNegative;
}

// Follows one search after the other; searches on several device models run concurrently. `problem`
// is null for a search that another program may have started.
absl::StatusOr<ExitCode> FollowAll(Context& context, Connection& connection,
                                   const std::vector<v1::Search>& searches, const Problem* problem,
                                   const SearchFlags& flags) {
  ExitCode result = ExitCode::kOk;
  for (const v1::Search& search : searches) {
    if (problem != nullptr || searches.size() > 1) {
      context.console.Note(absl::StrCat(
          "search ", search.search_id(), " of ", OneLine(search.problem_name()), " on ",
          OneLine(search.spec().target()),
          search.device_model().empty() ? std::string()
                                        : absl::StrCat(" (", OneLine(search.device_model()), ")")));
    }
    bool interrupted = false;
    KC_RETURN_IF_ERROR(
        SearchFollower(context, connection, search, flags.follow).Follow(interrupted));
    KC_ASSIGN_OR_RETURN(const ExitCode one, Conclude(context, connection, search.search_id(),
                                                     problem, flags, interrupted));
    result = std::max(result, one);
  }
  return result;
}

absl::StatusOr<ExitCode> RunSearch(Context& context, const SearchFlags& flags) {
  KC_ASSIGN_OR_RETURN(const LoadedProblem loaded,
                      LoadProblem(context, flags.problem, flags.task_options));
  KC_ASSIGN_OR_RETURN(const std::string target, ChooseTarget(loaded.problem, flags.target));
  v1::StartSearchRequest start;
  v1::SearchSpec& spec = *start.mutable_spec();
  // The id is chosen here, so that repeating a request after a lost answer starts no second search.
  start.set_search_id(flags.search_id.empty() ? RandomId("s_") : flags.search_id);
  spec.set_target(target);
  const bool writes = flags.generator == "llm";
  spec.set_generator(writes ? v1::GENERATOR_LLM : v1::GENERATOR_TEMPLATE);
  if (writes && flags.connection.orchestrator.empty() &&
      !flags.connection.forecasts.writer().given()) {
    return absl::InvalidArgumentError(
        "--generator llm needs a model: give --llm URL or --llm-config FILE");
  }
  spec.set_max_forecast_tokens(flags.forecast_tokens);
  spec.set_seed(flags.seed);
  spec.set_max_in_flight(flags.max_in_flight);
  spec.set_measure_everything(flags.measure_everything);
  spec.set_time_in_full(flags.time_in_full);
  spec.set_gate(GateModes().at(flags.gate));
  spec.mutable_device_models()->Assign(flags.device_models.begin(), flags.device_models.end());
  if (flags.device_models.size() > 1 && !flags.report.empty()) {
    return absl::InvalidArgumentError(
        "--report: a search on several device models has a report for each; leave --report out");
  }
  KC_RETURN_IF_ERROR(SetPolicyAndStrategy(flags, spec));
  if (!writes && SpacePoints(loaded.problem, target) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        loaded.problem.name, " has no template space for ", target,
        ", so that nothing can be proposed; have kernels written with --generator llm, or hand "
        "candidates in with kernelcast evaluate"));
  }
  KC_RETURN_IF_ERROR(SetBudget(flags, loaded.problem, context.console, spec));
  KC_RETURN_IF_ERROR(SetLessons(context, flags.lessons, loaded.problem, spec));

  Connection connection(context, flags.connection, Needs::kOrchestrator);
  KC_ASSIGN_OR_RETURN(const v1::PutProblemReply known, connection.PutProblem(loaded.problem));
  v1::StartSearchReply started;
  TakeDefaultTarget(context.console, flags.target, known, *spec.mutable_target());
  spec.set_problem_id(known.definition().problem_id());
  KC_RETURN_IF_ERROR(connection.CheckMeasures(spec.target()));
  const auto begin = [&](v1::Orchestrator::Stub& stub) -> absl::Status {
    if (!flags.search_id.empty() && !flags.lessons.file.empty()) {
      KC_RETURN_IF_ERROR(KeepLessons(stub, start));
    }
    return Call(stub, &v1::Orchestrator::Stub::StartSearch, start, &started);
  };
  KC_RETURN_IF_ERROR(connection.AskOrchestrator(begin));
  std::vector<v1::Search> searches = SearchesIn(started);
  for (v1::Search& search : searches) {
    if (search.problem_name().empty()) search.set_problem_name(loaded.problem.name);
  }
  KC_ASSIGN_OR_RETURN(const ExitCode result,
                      FollowAll(context, connection, searches, &loaded.problem, flags));
  KC_RETURN_IF_ERROR(LearnAtEnd(context, connection, flags.lessons, searches, loaded.problem));
  return result;
}

absl::StatusOr<ExitCode> RunWatch(Context& context, const SearchFlags& flags) {
  Connection connection(context, flags.connection, Needs::kOrchestrator);
  v1::GetSearchReply reply;
  KC_RETURN_IF_ERROR(connection.AskOrchestrator([&](v1::Orchestrator::Stub& stub) -> absl::Status {
    v1::GetSearchRequest request;
    KC_ASSIGN_OR_RETURN(*request.mutable_search_id(), FindSearchId(stub, flags.search_id));
    return Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply);
  }));
  const std::vector<v1::Search> searches = SearchesIn(reply);
  if (!flags.report.empty()) KC_RETURN_IF_ERROR(RequireOneSearch("--report", searches));
  return FollowAll(context, connection, searches, nullptr, flags);
}

void AddFollowFlags(CLI::App& app, FollowOptions& follow) {
  app.add_flag("--tree", follow.tree,
               "Show which candidates were derived from which, while the search runs");
  app.add_flag("--archive", follow.archive,
               "Show the niches, islands, beam or archive of the strategy, while the search runs");
  AddPriceFlags(app, follow.prices);
}

void AddReportFlags(CLI::App& app, SearchFlags& flags) {
  CLI::Option* report = app.add_option(
      "--report", flags.report,
      "Output file of the report; - is standard output [STATE/reports/SEARCH_ID.html]");
  report->type_name("FILE.html");
  app.add_flag("--no-report", flags.no_report, "Write no report")->excludes(report);
}

}  // namespace

void AddSearchCommands(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<SearchFlags>();
  CLI::App* search =
      AddCommand(app, context, "search", "Search for the fastest kernel of a problem",
                 [&context, flags] { return RunSearch(context, *flags); });
  AddProblemArgument(*search, flags->problem);
  AddTargetOption(*search, flags->target);
  AddTaskOptions(*search, flags->task_options);
  search
      ->add_option("--budget-measurements", flags->max_measurements,
                   "Measure at most this many candidates [a fifth of the template space]")
      ->check(WholeNumberFrom(0))
      ->type_name("N");
  search
      ->add_option("--budget-candidates", flags->max_candidates,
                   "Consider at most this many candidates")
      ->check(WholeNumberFrom(0))
      ->type_name("N");
  search->add_option("--budget-seconds", flags->max_seconds, "Search for at most this long")
      ->check(NumberFrom(0, kMostSeconds))
      ->type_name("S");
  search
      ->add_option("--budget-device-seconds", flags->max_device_seconds,
                   "Use the device for at most this long")
      ->check(NumberFrom(0, kMostSeconds))
      ->type_name("S");
  search
      ->add_option("--policy", flags->policy,
                   absl::StrCat("Policy that decides between forecast and measurement [",
                                std::string(PolicyNames().front()), "]"))
      ->type_name(BracedList(PolicyNames()));
  search
      ->add_option("--policy-parameter", flags->policy_parameters,
                   "A parameter of the policy; may be given more than once")
      ->type_name("NAME=NUMBER");
  search
      ->add_option("--strategy", flags->strategy,
                   absl::StrCat("Strategy that chooses what candidates are derived from [",
                                std::string(StrategyNames().front()), "]"))
      ->type_name(BracedList(StrategyNames()));
  search
      ->add_option("--strategy-parameter", flags->strategy_parameters,
                   "A parameter of the strategy; may be given more than once")
      ->type_name("NAME=NUMBER");
  search->add_option("--seed", flags->seed, "Seed of the proposals and audits")
      ->capture_default_str()
      ->check(WholeNumberFrom(0))
      ->type_name("N");
  search
      ->add_option("--in-flight", flags->max_in_flight,
                   "Maximum number of candidates in flight [as many as the workers take]")
      ->check(WholeNumberFrom(0, kMostInFlight))
      ->type_name("N");
  search
      ->add_option("--generator", flags->generator,
                   "Source of candidates: template (points of the problem's space) or llm (a model "
                   "writes them)")
      ->capture_default_str()
      ->check(CLI::IsMember({"template", "llm"}))
      ->type_name("GENERATOR");
  search
      ->add_option("--generator-requests", flags->generator_requests,
                   "Ask the model for at most this many kernels [64 without a budget]")
      ->check(WholeNumberFrom(0))
      ->type_name("N");
  search
      ->add_option("--generator-tokens", flags->generator_tokens,
                   "Spend at most this many tokens on kernels")
      ->check(WholeNumberFrom(0))
      ->type_name("N");
  search
      ->add_option("--generator-in-flight", flags->generator_in_flight,
                   "Parallel requests for kernels [4]")
      ->check(WholeNumberFrom(0, 256))
      ->type_name("N");
  search->add_flag("--critic", flags->critic,
                   "Before each kernel, ask the model as a critic for the next step");
  search
      ->add_option("--forecast-tokens", flags->forecast_tokens,
                   "Spend at most this many tokens on the search's forecasts [unlimited]")
      ->check(WholeNumberFrom(0))
      ->type_name("N");
  search->add_flag("--measure-everything", flags->measure_everything,
                   "Make no forecasts: measure every candidate until the budget ends");
  search->add_flag("--time-in-full", flags->time_in_full,
                   "Time each candidate to the full precision, also one that is already slower "
                   "than the best");
  search
      ->add_option("--gate", flags->gate,
                   "Measure the finalists at the problem's held-out bench shapes; drawn: if it "
                   "declares none, at shapes near the bench shapes; off: not at all [declared]")
      ->check(CLI::IsMember({"off", "declared", "drawn"}))
      ->type_name("MODE");
  AddLessonFlags(*search, flags->lessons);
  search
      ->add_option("--search-id", flags->search_id,
                   "Id of the search; an existing search is continued")
      ->type_name("ID");
  search
      ->add_option("--device-model", flags->device_models,
                   "Search on this device model, by its name or its label in metrics; may be "
                   "repeated, for a search on each [chosen by the orchestrator]")
      ->type_name("MODEL");
  AddFollowFlags(*search, flags->follow);
  AddReportFlags(*search, *flags);
  AddForecasterFlags(*search, flags->connection.forecasts);
  AddGeneratorServiceFlags(*search, flags->connection.forecasts);
  AddConnectionFlags(*search, flags->connection, Needs::kOrchestrator);

  const auto watch_flags = std::make_shared<SearchFlags>();
  CLI::App* watch = AddCommand(app, context, "watch", "Follow an existing search",
                               [&context, watch_flags] { return RunWatch(context, *watch_flags); });
  watch->add_option("SEARCH_ID", watch_flags->search_id, "The search, on all of its device models")
      ->required();
  AddFollowFlags(*watch, watch_flags->follow);
  AddReportFlags(*watch, *watch_flags);
  AddConnectionFlags(*watch, watch_flags->connection, Needs::kOrchestrator);
}

}  // namespace kernelcast::cli
