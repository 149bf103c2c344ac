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

// Where a server runs, for others to reach it by network as well.
struct PostgresqlSite {
  std::string host;  // an address of its own: the port is PostgreSQL's usual one
  // What starts the program, given as its arguments.
  std::vector<std::string> launcher;
};

// A PostgreSQL server of the test's own: in a temporary folder, on a Unix socket in it, run by an
// ordinary user where the test is root, as the server refuses to be.
class PostgresqlServer {
 public:
  // Whether PostgreSQL is not installed here, which is then printed as ctest looks for it.
  [[nodiscard]] static bool Missing();

  explicit PostgresqlServer(PostgresqlSite site = {});
  ~PostgresqlServer();
  PostgresqlServer(const PostgresqlServer&) = delete;
  PostgresqlServer& operator=(const PostgresqlServer&) = delete;

  // Also after Crash or Stop, with what it has on disk. Returns when it answers.
  [[nodiscard]] absl::Status Start();
  // Ends it and all its connections without tidying up, as a crash would.
  void Crash();
  // Ends it as an administrator would, connections or not.
  void Stop();

  // For libpq; without a password.
  std::string Uri(const std::string& database = "postgres") const;
  // The same by network, for those who are on the site's.
  std::string NetworkUri(const std::string& database = "postgres") const;
  orchestrator::PostgresqlOptions Options(const std::string& database = "postgres") const;
  // Runs statements that return nothing of interest.
  [[nodiscard]] absl::Status Run(const std::string& sql, const std::string& database = "postgres");
  // The one value that a statement returns, as a number.
  [[nodiscard]] absl::StatusOr<int64_t> Number(const std::string& sql,
                                               const std::string& database = "postgres");
  // A database of its own, empty.
  std::string NewDatabase();

 private:
  std::vector<std::string> AsUser(std::vector<std::string> argv) const;
  void End(int signal);

  const PostgresqlSite site_;
  TemporaryFolder folder_;
  std::string user_;  // whom the server runs as; empty: as the test
  std::unique_ptr<ChildProcess> server_;
  int databases_ = 0;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_POSTGRESQL_H_
