#include "services/cli/commands/history_pages.h"

#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "services/cli/commands/compared_sides.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/reporting.h"
#include "services/cli/core/paths.h"
#include "services/cli/launch/state_lock.h"
#include "services/cli/report/assets.h"
#include "services/cli/report/html.h"
#include "services/cli/report/html_parts.h"
#include "services/cli/rpc/channel.h"
#include "services/cli/rpc/records.h"
#include "services/cli/rpc/suite_file.h"

namespace kernelcast::cli {
namespace {

namespace fs = std::filesystem;

// Allows the scripts of the pages, and no framing.
std::string ContentPolicy() {
  return absl::StrCat("default-src 'none'; style-src 'unsafe-inline'; script-src ",
                      ScriptSource(HistoryScript()), " ", ScriptSource(ReportScript()),
                      "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}

std::string SuitesFolder(const std::string& state_dir) {
  return absl::StrCat(state_dir, "/suites");
}

// A connection to the orchestrator of the state folder. UNAVAILABLE: none runs.
absl::StatusOr<ConnectionFlags> FlagsFor(const std::string& state_dir) {
  const absl::StatusOr<ServiceAddresses> addresses = ReadServiceAddresses(state_dir);
  if (!addresses.ok()) return absl::UnavailableError("the services are starting");
  ConnectionFlags flags;
  flags.state_dir = state_dir;
  flags.orchestrator = addresses->orchestrator;
  return flags;
}

PageReply ReplyOf(const absl::StatusOr<std::string>& page) {
  if (page.ok()) return {.body = *page};
  const absl::StatusCode code = page.status().code();
  const int status = code == absl::StatusCode::kNotFound          ? 404
                     : code == absl::StatusCode::kInvalidArgument ? 400
                                                                  : 503;
  const std::string message(page.status().message());
  return {.status = status, .body = HistoryFailureHtml(message)};
}

}  // namespace

HistoryPages::HistoryPages(const Context& context, std::string state_dir)
    : context_(context), state_dir_(std::move(state_dir)) {}

PageReply HistoryPages::Answer(const PageRequest& request) {
  if (request.path == "/" || request.path == kHistoryPath) return List();
  if (request.path == kHistorySearchPath) return ReplyOf(SearchReport(request.Parameter("id")));
  if (request.path == kHistorySuitePath) return ReplyOf(SuiteReport(request.Parameter("id")));
  if (request.path == kHistoryComparePath) return ReplyOf(Comparison(request));
  return ReplyOf(absl::NotFoundError("there is no page of this name"));
}

PageReply HistoryPages::List() {
  std::vector<HistoryRow> rows = Suites();
  std::vector<std::string> notices;
  const auto add_searches = [&]() -> absl::Status {
    KC_ASSIGN_OR_RETURN(const ConnectionFlags flags, FlagsFor(state_dir_));
    Connection connection(context_, flags, Needs::kLog);
    std::vector<v1::Search> searches;
    const auto list = [&](v1::Orchestrator::Stub& stub) -> absl::Status {
      KC_ASSIGN_OR_RETURN(searches, ListSearches(stub));
      return absl::OkStatus();
    };
    KC_RETURN_IF_ERROR(connection.AskOrchestrator(list));
    for (const v1::Search& search : searches) rows.push_back(HistoryRowOf(search));
    return absl::OkStatus();
  };
  if (const absl::Status status = add_searches(); !status.ok()) {
    notices.push_back(absl::StrCat("Searches cannot be shown: ", std::string(status.message())));
  }
  const absl::StatusOr<ServiceAddresses> addresses = ReadServiceAddresses(state_dir_);
  const bool has_status = addresses.ok() && !addresses->orchestrator_status.empty();
  return {.body = HistoryHtml(
              std::move(rows), notices,
              has_status ? absl::StrCat("http://", addresses->orchestrator_status, "/") : "")};
}

absl::StatusOr<std::string> HistoryPages::SearchReport(const std::string& id) {
  if (id.empty()) return absl::InvalidArgumentError("id: required, the id of a search");
  KC_ASSIGN_OR_RETURN(const ConnectionFlags flags, FlagsFor(state_dir_));
  Connection connection(context_, flags, Needs::kLog);
  ReportInput input;
  const auto fetch = [&](v1::Orchestrator::Stub& stub) -> absl::Status {
    v1::GetSearchRequest request;
    request.set_search_id(id);
    v1::GetSearchReply reply;
    KC_RETURN_IF_ERROR(Call(stub, &v1::Orchestrator::Stub::GetSearch, request, &reply));
    const std::vector<v1::Search> searches = SearchesIn(reply);
    KC_RETURN_IF_ERROR(RequireOneSearch("report", searches));
    KC_ASSIGN_OR_RETURN(input, FetchReport(context_, stub, searches.front(), nullptr));
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(connection.AskOrchestrator(fetch));
  return RenderReport(input);
}

absl::StatusOr<std::string> HistoryPages::SuiteFolderOf(const std::string& id) const {
  // A name and no path, so that pages show nothing but suites.
  const std::string folder = absl::StrCat(SuitesFolder(state_dir_), "/", id);
  if (id.empty() || id != fs::path(id).filename() || id == "." || id == ".." ||
      !IsSuiteResults(folder)) {
    return absl::NotFoundError(absl::StrCat("there is no suite ", Quoted(id, 255)));
  }
  return folder;
}

absl::StatusOr<std::string> HistoryPages::SuiteReport(const std::string& id) {
  KC_ASSIGN_OR_RETURN(const std::string folder, SuiteFolderOf(id));
  KC_ASSIGN_OR_RETURN(const SuiteResults results, ReadSuiteResults(folder));
  const SuiteInput input = SuiteInputOf(results);
  return SuiteHtml(input, SummarizeSuite(input));
}

absl::StatusOr<ComparedSide> HistoryPages::SideOf(const std::string& key) {
  const std::string search = KeyOf(HistoryKind::kSearch, "");
  const std::string suite = KeyOf(HistoryKind::kSuite, "");
  if (key.starts_with(suite)) {
    KC_ASSIGN_OR_RETURN(const std::string folder, SuiteFolderOf(key.substr(suite.size())));
    return SideOfSuite(folder);
  }
  if (!key.starts_with(search)) {
    return absl::InvalidArgumentError(
        absl::StrCat("before and after: expected search:ID or suite:ID, found ", Quoted(key, 255)));
  }
  KC_ASSIGN_OR_RETURN(const ConnectionFlags flags, FlagsFor(state_dir_));
  Connection connection(context_, flags, Needs::kLog);
  return SideOfSearch(context_, connection, key.substr(search.size()));
}

absl::StatusOr<std::string> HistoryPages::Comparison(const PageRequest& request) {
  const std::string before_key = request.Parameter("before");
  const std::string after_key = request.Parameter("after");
  KC_ASSIGN_OR_RETURN(const ComparedSide before, SideOf(before_key));
  KC_ASSIGN_OR_RETURN(const ComparedSide after, SideOf(after_key));
  const RunComparison comparison = CompareRuns(before, after);
  if (comparison.pairs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(before.title, " and ", after.title,
                     " have no task in common: there is nothing to compare"));
  }
  return ComparisonHtml(before, after, comparison,
                        absl::StrCat(HistoryCompareLink(after_key, before_key), HistoryLinks()));
}

std::vector<HistoryRow> HistoryPages::Suites() {
  std::vector<HistoryRow> rows;
  std::set<std::string> seen;  // two names may lead to one folder
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(SuitesFolder(state_dir_), error)) {
    if (!IsSuiteResults(entry.path().string())) continue;
    const std::string folder = fs::canonical(entry.path(), error).string();
    if (error || !seen.insert(folder).second) continue;
    HistoryRow& row = rows.emplace_back(SuiteRowOf(entry.path().filename().string(), folder));
    if (SuiteIsRunning(folder)) row.state = "running";
  }
  return rows;
}

HistoryRow HistoryPages::SuiteRowOf(const std::string& id, const std::string& folder) {
  const fs::path file = fs::path(folder) / kSuiteResults;
  std::error_code error;
  const fs::file_time_type changed = fs::last_write_time(file, error);
  const uintmax_t bytes = fs::file_size(file, error);
  const std::lock_guard lock(mutex_);
  KnownSuite& known = suites_[id];
  if (!known.row.id.empty() && known.changed == changed && known.bytes == bytes) return known.row;
  HistoryRow row;
  const absl::StatusOr<SuiteResults> results = ReadSuiteResults(folder);
  if (results.ok()) {
    row = HistoryRowOf(SuiteInputOf(*results));
  } else {
    row.kind = HistoryKind::kSuite;
    row.name = fs::path(folder).filename().string();
    row.state = "unreadable";
    row.reason = std::string(results.status().message());
  }
  row.id = id;
  row.note = folder;
  known = {changed, bytes, row};
  return row;
}

absl::StatusOr<std::unique_ptr<PageServer>> ServeHistory(const Context& context,
                                                         const std::string& state_dir,
                                                         const std::string& address) {
  // Shared because the handler is copied.
  const auto pages = std::make_shared<HistoryPages>(context, state_dir);
  return PageServer::Start(
      {.address = address, .what = "history page", .content_policy = ContentPolicy()},
      [pages](const PageRequest& request) { return pages->Answer(request); });
}

absl::Status RecordSuite(const std::string& state_dir, const std::string& folder) {
  const std::string suites = SuitesFolder(state_dir);
  KC_RETURN_IF_ERROR(MakeFolders(suites));
  std::error_code error;
  const fs::path target = fs::canonical(folder, error);
  if (target.parent_path() == fs::canonical(suites, error)) return absl::OkStatus();
  // Not the name that the results of tasks in this folder have.
  const std::string link = absl::StrCat(suites, "/", FileNameFor("at:" + target.string()));
  fs::create_directory_symlink(target, link, error);
  if (error && error != std::errc::file_exists) {
    return absl::UnavailableError(absl::StrCat("cannot make ", link, ": ", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace kernelcast::cli
