// best: prints the source of the best kernel that a search has measured.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/reporting.h"
#include "services/cli/core/candidate_files.h"
#include "services/cli/report/gate_text.h"
#include "services/cli/report/search_json.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

struct BestFlags {
  ConnectionFlags connection;
  std::string search_id;
  std::string device_model;
  std::string output = "-";
};

// Lower case, with one space for each run of characters other than letters and digits.
std::string Simplified(const std::string& text) {
  std::string simple;
  for (const unsigned char c : text) {
    if (std::isalnum(c) != 0) {
      simple += static_cast<char>(std::tolower(c));
    } else if (!simple.empty() && simple.back() != ' ') {
      simple += ' ';
    }
  }
  return simple;
}

// Among searches with one id on several device models, chooses the one on the requested model,
// given by its name or a part of it, ignoring case.
absl::StatusOr<v1::Search> ChooseSearch(const v1::GetSearchReply& reply,
                                        const std::string& device_model) {
  const std::vector<v1::Search> searches = SearchesIn(reply);
  if (device_model.empty() && searches.size() == 1) return searches.front();
  std::vector<std::string> known;
  std::vector<v1::Search> matching;
  const std::string wanted = Simplified(device_model);
  for (const v1::Search& search : searches) {
    const std::string model = search.device_model().empty()
                                  ? search.incumbent().measurement().device().model()
                                  : search.device_model();
    known.push_back(OneLine(model));
    if (Simplified(model) == wanted) return search;
    if (!wanted.empty() && Simplified(model).find(wanted) != std::string::npos) {
      matching.push_back(search);
    }
  }
  if (matching.size() == 1) return matching.front();
  return absl::InvalidArgumentError(absl::StrCat(
      "--device-model: ",
      device_model.empty() ? std::string("the search ran on several; choose one")
      : matching.empty()   ? absl::StrCat("the search did not run on '", OneLine(device_model), "'")
                           : absl::StrCat("'", OneLine(device_model), "' fits several"),
      "; there are: ", Join(known, ", ")));
}

absl::Status WriteSource(Console& console, const BestFlags& flags, const Candidate& best) {
  if (flags.output == "-") {
    if (console.json()) return absl::OkStatus();
    return WriteFileAtomically(flags.output, best.source);
  }
  std::error_code error;
  if (fs::exists(flags.output, error) && !fs::is_regular_file(flags.output, error)) {
    // Nothing stands next to a device or a FIFO.
    return WriteFileAtomically(flags.output, best.source);
  }
  fs::path description(flags.output);
  description.replace_extension(".json");
  if (description == fs::path(flags.output)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--output: ", flags.output, " would be overwritten by the description of the ",
        "kernel; name the source, such as best", std::string(KindInfoOf(best.kind).extension())));
  }
  KC_RETURN_IF_ERROR(WriteFileAtomically(flags.output, best.source));
  return WriteFileAtomically(description.string(), CandidateDescription(best));
}

absl::StatusOr<ExitCode> RunBest(Context& context, const BestFlags& flags) {
  Console& console = context.console;
  Connection connection(context, flags.connection, Needs::kLog);
  ReportInput input;
  const auto fetch = [&](v1::Orchestrator::Stub& stub) -> absl::Status {
    v1::GetSearchRequest request;
    KC_ASSIGN_OR_RETURN(*request.mutable_search_id(), FindSearchId(stub, flags.search_id));
    v1::GetSearchReply reply;
    KC_RETURN_IF_ERROR(Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply));
    KC_ASSIGN_OR_RETURN(const v1::Search search, ChooseSearch(reply, flags.device_model));
    KC_ASSIGN_OR_RETURN(input, FetchReport(context, stub, search, nullptr));
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(connection.AskOrchestrator(fetch));
  const ReportAnalysis analysis = Analyze(input);
  Json json = SummaryJson(input, analysis);
  if (!analysis.shown_best.has_value()) {
    console.Warn(input.search.has_value() && NothingCarriesOver(*input.search)
                     ? kNothingCarriesOver
                     : "no candidate of this search was measured to be correct");
    console.Line(json);
    return ExitCode::kNegative;
  }
  const Candidate& best = analysis.shown_best->candidate;
  if (best.source.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the orchestrator has no source of ", best.candidate_id));
  }
  KC_RETURN_IF_ERROR(WriteSource(console, flags, best));
  const std::string tunables = OneLine(TunablesOf(best));
  console.Note(absl::StrCat(
      OneLine(NameOf(best)), tunables.empty() ? "" : " ", tunables, ": ",
      FormatSpeedup(analysis.best_speedup), ", ",
      analysis.confirmed ? "confirmed at the final level" : "screening only, not confirmed",
      flags.output == "-" ? std::string() : absl::StrCat("; written to ", flags.output)));
  if (flags.output != "-") json["output"] = flags.output;
  console.Line(json);
  return ExitCode::kOk;
}

}  // namespace

void AddBestCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<BestFlags>();
  CLI::App* best = AddCommand(app, context, "best", "Write the source of a search's best kernel",
                              [&context, flags] { return RunBest(context, *flags); });
  best->add_option("SEARCH_ID", flags->search_id, "The search")->required();
  best->add_option("--device-model", flags->device_model,
                   "Device model or a part of its name, if the search ran on several")
      ->type_name("MODEL");
  best->add_option("-o,--output", flags->output,
                   "Output file for the source, with flags, tunables and launches in a .json file "
                   "next to it; - is standard output")
      ->capture_default_str()
      ->type_name("FILE");
  AddConnectionFlags(*best, flags->connection, Needs::kLog);
}

}  // namespace kernelcast::cli
