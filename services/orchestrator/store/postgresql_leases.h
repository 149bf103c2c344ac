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

// Which orchestrator has which shard of a log in PostgreSQL, by the database's clock. A lease says
// who should write, and PostgresqlEventStore that nobody else can.
//
// Not thread-safe. A connection that was lost is made anew by the next call.
class PostgresqlLeases {
 public:
  struct Shard {
    int shard = 0;
    std::string holder;  // empty: nobody
    std::string address;
    std::string writer;  // what PostgresqlEventStore::Open wants
    int64_t epoch = 0;   // how often it was given away
    bool valid = false;  // the lease has not run out
  };
  struct View {
    std::vector<Shard> shards;  // all, in order
    int replicas = 0;           // those that are alive and not leaving
    int others = 0;             // without this one
  };

  // Makes the tables where they are missing, see EnsureSchema. `holder` is this orchestrator, and
  // no other one ever. `stop` as for PostgresqlConnection.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresqlLeases>> Open(
      const PostgresqlOptions& options, std::string holder, int shards,
      const std::atomic<bool>* stop);

  int shards() const { return shards_; }
  const std::string& holder() const { return holder_; }

  // Says that this orchestrator is alive at `address` for `duration` from now, and all that it
  // holds is held for as long. `leaving`: it takes no more.
  [[nodiscard]] absl::StatusOr<View> Renew(const std::string& address, absl::Duration duration,
                                           bool leaving);
  // Takes a shard that nobody holds, or whose lease has run out. Nothing: somebody was quicker.
  // Returns the writer. After an error it may be held: the next View tells.
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> Acquire(int shard,
                                                                   const std::string& address,
                                                                   absl::Duration duration);
  // Gives a shard back, so that another may take it at once. What this orchestrator would still
  // write to it fails. OK if it had been lost.
  [[nodiscard]] absl::Status Release(int shard);
  // Forgets this orchestrator, once it holds nothing.
  [[nodiscard]] absl::Status Leave();

  // Problems are kept beside the shards, for those that come to need them.
  [[nodiscard]] absl::Status PutProblem(const std::string& problem_id,
                                        const std::vector<ProblemFile>& files);
  // Nothing: it was never put.
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
