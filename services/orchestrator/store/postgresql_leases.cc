#include "services/orchestrator/store/postgresql_leases.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"
#include "common/base/status.h"
#include "services/orchestrator/store/event_codec.h"
#include "services/orchestrator/store/postgresql_schema.h"

namespace kernelcast::orchestrator {
namespace {

PostgresqlValue Milliseconds(absl::Duration duration) {
  return PostgresqlValue::Int(absl::ToInt64Milliseconds(duration));
}

}  // namespace

PostgresqlLeases::PostgresqlLeases(const PostgresqlOptions& options, std::string holder,
                                   const std::atomic<bool>* stop)
    : options_(options), holder_(std::move(holder)), stop_(stop) {}

absl::StatusOr<std::unique_ptr<PostgresqlLeases>> PostgresqlLeases::Open(
    const PostgresqlOptions& options, std::string holder, int shards,
    const std::atomic<bool>* stop) {
  std::unique_ptr<PostgresqlLeases> leases(new PostgresqlLeases(options, std::move(holder), stop));
  KC_ASSIGN_OR_RETURN(leases->connection_, PostgresqlConnection::Open(options, stop));
  KC_ASSIGN_OR_RETURN(leases->shards_, EnsureSchema(*leases->connection_, shards));
  return leases;
}

absl::StatusOr<PostgresqlRows> PostgresqlLeases::Execute(const std::string& sql,
                                                         std::span<const PostgresqlValue> values) {
  if (connection_ == nullptr || !connection_->usable()) {
    KC_ASSIGN_OR_RETURN(connection_, PostgresqlConnection::Open(options_, stop_));
  }
  return connection_->Execute(sql, values);
}

absl::StatusOr<PostgresqlLeases::View> PostgresqlLeases::Renew(const std::string& address,
                                                               absl::Duration duration,
                                                               bool leaving) {
  const PostgresqlValue alive[] = {PostgresqlValue::Text(holder_), PostgresqlValue::Text(address),
                                   PostgresqlValue::Int(leaving ? 1 : 0), Milliseconds(duration)};
  KC_RETURN_IF_ERROR(Execute("INSERT INTO kernelcast_replicas(holder, address, leaving, expires_at)"
                             " VALUES ($1, $2, $3 <> 0, clock_timestamp() + $4 * interval '1 ms')"
                             " ON CONFLICT (holder) DO UPDATE SET address = EXCLUDED.address,"
                             " leaving = EXCLUDED.leaving, expires_at = EXCLUDED.expires_at",
                             alive)
                         .status());
  const PostgresqlValue held[] = {PostgresqlValue::Text(holder_), Milliseconds(duration)};
  KC_RETURN_IF_ERROR(Execute("UPDATE kernelcast_shards"
                             " SET expires_at = clock_timestamp() + $2 * interval '1 ms'"
                             " WHERE holder = $1",
                             held)
                         .status());
  // Removes replicas that died long ago.
  KC_RETURN_IF_ERROR(Execute("DELETE FROM kernelcast_replicas"
                             " WHERE expires_at < clock_timestamp() - interval '1 hour'",
                             {})
                         .status());
  View view;
  const PostgresqlValue own[] = {PostgresqlValue::Text(holder_)};
  KC_ASSIGN_OR_RETURN(
      PostgresqlRows replicas,
      Execute("SELECT count(*), count(*) FILTER (WHERE holder <> $1) FROM kernelcast_replicas"
              " WHERE expires_at > clock_timestamp() AND NOT leaving",
              own));
  view.replicas = static_cast<int>(replicas.Int(0, 0));
  view.others = static_cast<int>(replicas.Int(0, 1));
  KC_ASSIGN_OR_RETURN(
      PostgresqlRows rows,
      Execute("SELECT shard, COALESCE(holder, ''), COALESCE(address, ''), writer, epoch,"
              " COALESCE(expires_at > clock_timestamp(), false)"
              " FROM kernelcast_shards ORDER BY shard",
              {}));
  for (int row = 0; row < rows.count(); ++row) {
    view.shards.push_back({.shard = static_cast<int>(rows.Int(row, 0)),
                           .holder = rows.Text(row, 1),
                           .address = rows.Text(row, 2),
                           .writer = rows.Text(row, 3),
                           .epoch = rows.Int(row, 4),
                           .valid = rows.Bool(row, 5)});
  }
  return view;
}

absl::StatusOr<std::optional<std::string>> PostgresqlLeases::Acquire(int shard,
                                                                     const std::string& address,
                                                                     absl::Duration duration) {
  const std::string writer = RandomId("w_");
  const PostgresqlValue values[] = {PostgresqlValue::Int(shard), PostgresqlValue::Text(holder_),
                                    PostgresqlValue::Text(address), PostgresqlValue::Text(writer),
                                    Milliseconds(duration)};
  KC_ASSIGN_OR_RETURN(
      PostgresqlRows rows,
      Execute("UPDATE kernelcast_shards SET holder = $2, address = $3, writer = $4,"
              " epoch = epoch + 1, expires_at = clock_timestamp() + $5 * interval '1 ms'"
              " WHERE shard = $1 AND (holder IS NULL OR expires_at < clock_timestamp())",
              values));
  if (rows.affected() != 1) return std::nullopt;
  return writer;
}

absl::Status PostgresqlLeases::Release(int shard) {
  const PostgresqlValue values[] = {PostgresqlValue::Int(shard), PostgresqlValue::Text(holder_)};
  return Execute(
             "UPDATE kernelcast_shards SET holder = NULL, address = NULL, writer = '',"
             " expires_at = NULL WHERE shard = $1 AND holder = $2",
             values)
      .status();
}

absl::Status PostgresqlLeases::Withdraw() {
  const PostgresqlValue values[] = {PostgresqlValue::Text(holder_)};
  return Execute("DELETE FROM kernelcast_replicas WHERE holder = $1", values).status();
}

absl::Status PostgresqlLeases::PutProblem(const std::string& problem_id,
                                          const std::vector<ProblemFile>& files) {
  std::string payload[1];
  const Event event{0, ProblemPut{files}};
  EncodeEvent(0, {&event, problem_id, ""}, payload[0]);
  const PostgresqlValue values[] = {PostgresqlValue::Text(problem_id),
                                    PostgresqlValue::BytesArray(payload)};
  return Execute(
             "INSERT INTO kernelcast_problems(problem_id, payload)"
             " SELECT $1, unnest($2::bytea[]) ON CONFLICT DO NOTHING",
             values)
      .status();
}

absl::StatusOr<std::optional<std::vector<ProblemFile>>> PostgresqlLeases::GetProblem(
    const std::string& problem_id) {
  const PostgresqlValue values[] = {PostgresqlValue::Text(problem_id)};
  KC_ASSIGN_OR_RETURN(
      PostgresqlRows rows,
      Execute("SELECT payload FROM kernelcast_problems WHERE problem_id = $1", values));
  if (rows.count() == 0) return std::nullopt;
  absl::StatusOr<StoredEvent> stored = DecodeEvent({0, problem_id, "", rows.Bytes(0, 0)});
  auto* const put = stored.ok() ? std::get_if<ProblemPut>(&stored->event.body) : nullptr;
  if (put == nullptr) {
    return absl::DataLossError(absl::StrCat("event log: problem ", problem_id, " cannot be read"));
  }
  return std::move(put->files);
}

}  // namespace kernelcast::orchestrator
