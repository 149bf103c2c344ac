#include "tests/support/postgresql.h"

#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::testing {
namespace {

constexpr int64_t kLimitNs = int64_t{60} * 1'000'000'000;
constexpr int kPort = 5432;

using orchestrator::PostgresqlConnection;
using orchestrator::PostgresqlOptions;

// Empty if it is not installed.
std::string ServerPrograms() {
  std::string newest;
  std::error_code error;
  for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", error)) {
    const std::string folder = version.path() / "bin";
    if (std::filesystem::exists(folder + "/initdb") && folder > newest) newest = folder;
  }
  return newest;
}

ChildOptions Command(std::vector<std::string> argv) {
  ChildOptions options;
  options.argv = std::move(argv);
  options.environment = {"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"};
  options.working_directory = "/";
  options.max_output_bytes = int64_t{1} << 30;
  return options;
}

absl::Status RunToEnd(std::vector<std::string> argv) {
  KC_ASSIGN_OR_RETURN(auto child, ChildProcess::Spawn(Command(std::move(argv))));
  const ChildExit exit = child->Wait(kLimitNs);
  if (exit.exited && exit.exit_code == 0) return absl::OkStatus();
  return absl::InternalError(exit.output);
}

}  // namespace

bool PostgresqlServer::Missing() {
  if (!ServerPrograms().empty()) return false;
  std::printf("skipped: PostgreSQL is not installed\n");
  return true;
}

PostgresqlServer::PostgresqlServer(PostgresqlSite site) : site_(std::move(site)), folder_("pg") {
  if (geteuid() != 0) return;
  const passwd* user = getpwnam("postgres");
  if (user == nullptr) user = getpwnam("nobody");
  if (user == nullptr) return;
  user_ = user->pw_name;
  if (chown(folder_.path().c_str(), user->pw_uid, user->pw_gid) != 0) user_.clear();
}

PostgresqlServer::~PostgresqlServer() { Crash(); }

std::vector<std::string> PostgresqlServer::AsUser(std::vector<std::string> argv) const {
  argv.front() = ServerPrograms() + "/" + argv.front();
  if (!user_.empty()) {
    const std::vector<std::string> as = {"setpriv", absl::StrCat("--reuid=", user_),
                                         "--clear-groups", "--"};
    argv.insert(argv.begin(), as.begin(), as.end());
  }
  return argv;
}

absl::Status PostgresqlServer::Start() {
  const std::string data = folder_.File("data");
  if (!std::filesystem::exists(data)) {
    KC_RETURN_IF_ERROR(
        RunToEnd(AsUser({"initdb", "-D", data, "-U", "kernelcast", "-A", "trust", "-E", "UTF8",
                         "--locale=C", "--no-sync", "--no-instructions"})));
    if (!site_.host.empty()) {
      std::ofstream(data + "/pg_hba.conf", std::ios::app) << "host all all samenet trust\n";
    }
  }
  // Power loss is not tested, so syncing to disk is off.
  std::vector<std::string> argv =
      AsUser({"postgres", "-D", data, "-k", folder_.path().string(), "-p", absl::StrCat(kPort),
              "-c", absl::StrCat("listen_addresses=", site_.host), "-c", "fsync=off", "-c",
              "max_connections=200"});
  argv.insert(argv.begin(), site_.launcher.begin(), site_.launcher.end());
  KC_ASSIGN_OR_RETURN(server_, ChildProcess::Spawn(Command(std::move(argv))));
  PostgresqlOptions options = Options();
  options.reconnect_timeout = absl::Nanoseconds(kLimitNs);
  auto connection = PostgresqlConnection::Reopen(options, nullptr);
  if (connection.ok()) return absl::OkStatus();
  server_->Poll();
  return absl::UnavailableError(
      absl::StrCat(std::string(connection.status().message()), "\n", server_->output()));
}

void PostgresqlServer::End(int signal) {
  if (server_ == nullptr) return;
  kill(server_->pid(), signal);
  server_->Wait(kLimitNs);
  server_.reset();
}

void PostgresqlServer::Crash() { End(SIGQUIT); }
void PostgresqlServer::Stop() { End(SIGINT); }

std::string PostgresqlServer::Uri(const std::string& database) const {
  return absl::StrCat("postgresql://kernelcast@/", database, "?host=", folder_.path().string());
}

std::string PostgresqlServer::NetworkUri(const std::string& database) const {
  return absl::StrCat("postgresql://kernelcast@", site_.host, ":", kPort, "/", database);
}

PostgresqlOptions PostgresqlServer::Options(const std::string& database) const {
  PostgresqlOptions options;
  options.uri = Uri(database);
  return options;
}

absl::Status PostgresqlServer::Run(const std::string& sql, const std::string& database) {
  KC_ASSIGN_OR_RETURN(auto connection, PostgresqlConnection::Open(Options(database), nullptr));
  return connection->Script(sql);
}

absl::StatusOr<int64_t> PostgresqlServer::Number(const std::string& sql,
                                                 const std::string& database) {
  KC_ASSIGN_OR_RETURN(auto connection, PostgresqlConnection::Open(Options(database), nullptr));
  KC_ASSIGN_OR_RETURN(orchestrator::PostgresqlRows rows, connection->Execute(sql));
  if (rows.count() != 1) return absl::NotFoundError(absl::StrCat("no single row: ", sql));
  return rows.Int(0, 0);
}

std::string PostgresqlServer::NewDatabase() {
  std::string name = absl::StrCat("test", ++databases_);
  const absl::Status made = Run(absl::StrCat("CREATE DATABASE ", name));
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", std::string(made.ToString()).c_str());
    std::abort();
  }
  return name;
}

}  // namespace kernelcast::testing
