#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_LEASES_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_LEASES_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/orchestrator/core/event.h"
#include "services/orchestrator/store/postgresql_connection.h"

namespace kernelcast::orchestrator {

// Leases on the shards of a log in PostgreSQL, timed by the database's clock. A lease determines
// who should write; PostgresqlEventStore ensures that nobody else can.
//
// Not thread-safe. A lost connection is reopened by the next call.
class PostgresqlLeases {
 public:
  struct Shard {
    int shard = 0;
    std::string holder;  // empty: free
    std::string address;
    std::string writer;  // pass this to PostgresqlEventStore::Open
    int64_t epoch = 0;   // how many times it was granted
    bool valid = false;  // the lease has not expired
  };
  struct View {
    std::vector<Shard> shards;  // all, in order
    int replicas = 0;           // alive and not leaving
    int others = 0;             // the same without this one
  };

  // Creates missing tables, see EnsureSchema. `holder` must be unique to this orchestrator forever.
  // `stop` as in PostgresqlConnection.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresqlLeases>> Open(
      const PostgresqlOptions& options, std::string holder, int shards,
      const std::atomic<bool>* stop);

  int shards() const { return shards_; }
  const std::string& holder() const { return holder_; }

  // Announces that this orchestrator is alive at `address`, and extends all its leases, for
  // `duration` from now. `leaving`: it takes no more shards.
  [[nodiscard]] absl::StatusOr<View> Renew(const std::string& address, absl::Duration duration,
                                           bool leaving);
  // Takes a shard that is free or whose lease has expired. Returns the writer, or nothing if
  // another orchestrator was faster. After an error the shard may be held; the next View shows it.
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> Acquire(int shard,
                                                                   const std::string& address,
                                                                   absl::Duration duration);
  // Gives a shard back, so that another orchestrator can take it at once. Further writes of this
  // orchestrator to it fail. OK if the lease had already been lost.
  [[nodiscard]] absl::Status Release(int shard);
  // Removes this orchestrator once it holds nothing.
  [[nodiscard]] absl::Status Withdraw();

  // Problems are stored outside the shards, for every shard that needs them.
  [[nodiscard]] absl::Status PutProblem(const std::string& problem_id,
                                        const std::vector<ProblemFile>& files);
  // Empty: it was never put.
  [[nodiscard]] absl::StatusOr<std::optional<std::vector<ProblemFile>>> GetProblem(
      const std::string& problem_id);

 private:
  PostgresqlLeases(const PostgresqlOptions& options, std::string holder,
                   const std::atomic<bool>* stop);
  absl::StatusOr<PostgresqlRows> Execute(const std::string& sql,
                                         std::span<const PostgresqlValue> values);

  const PostgresqlOptions options_;
  const std::string holder_;
  const std::atomic<bool>* const stop_;
  std::unique_ptr<PostgresqlConnection> connection_;
  int shards_ = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_LEASES_H_
