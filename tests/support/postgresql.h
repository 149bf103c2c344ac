#ifndef KERNELCAST_TESTS_SUPPORT_POSTGRESQL_H_
#define KERNELCAST_TESTS_SUPPORT_POSTGRESQL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/child_process.h"
#include "services/orchestrator/store/postgresql_connection.h"
#include "tests/support/services.h"

namespace kernelcast::testing {

// Where a server runs so that others can reach it over the network too.
struct PostgresqlSite {
  std::string host;  // its own address: the port is PostgreSQL's default
  // A program that gets the server's command line as its arguments and starts it.
  std::vector<std::string> launcher;
};

// A PostgreSQL server for one test: in a temporary folder, on a Unix socket there. It runs as an
// ordinary user because the server refuses to run as root.
class PostgresqlServer {
 public:
  // Returns whether PostgreSQL is not installed, and then prints the skip message for ctest.
  [[nodiscard]] static bool Missing();

  explicit PostgresqlServer(PostgresqlSite site = {});
  ~PostgresqlServer();
  PostgresqlServer(const PostgresqlServer&) = delete;
  PostgresqlServer& operator=(const PostgresqlServer&) = delete;

  // Also restarts after Crash or Stop with the data on disk. Returns when the server answers.
  [[nodiscard]] absl::Status Start();
  // Kills it and all connections without cleanup, like a crash.
  void Crash();
  // Shuts it down like an administrator, with or without open connections.
  void Stop();

  // A libpq URI without a password.
  std::string Uri(const std::string& database = "postgres") const;
  // The same over the network, for members of the site's network.
  std::string NetworkUri(const std::string& database = "postgres") const;
  orchestrator::PostgresqlOptions Options(const std::string& database = "postgres") const;
  // Runs statements and ignores their results.
  [[nodiscard]] absl::Status Run(const std::string& sql, const std::string& database = "postgres");
  // Returns the single value of a statement as a number.
  [[nodiscard]] absl::StatusOr<int64_t> Number(const std::string& sql,
                                               const std::string& database = "postgres");
  std::string NewDatabase();

 private:
  std::vector<std::string> AsUser(std::vector<std::string> argv) const;
  void End(int signal);

  const PostgresqlSite site_;
  TemporaryFolder folder_;
  std::string user_;  // the user that runs the server; empty: the test's user
  std::unique_ptr<ChildProcess> server_;
  int databases_ = 0;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_POSTGRESQL_H_
