#include "services/orchestrator/store/postgresql_event_store.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/orchestrator/store/event_codec.h"

namespace kernelcast::orchestrator {
namespace {

// A larger append is split into several statements of one transaction.
constexpr size_t kMaxStatementBytes = size_t{32} << 20;

constexpr char kAppend[] =
    "WITH fence AS ("
    "  UPDATE kernelcast_shards SET last_sequence = $3 + $4"
    "  WHERE shard = $1 AND writer = $2 AND last_sequence = $3 RETURNING shard)"
    "INSERT INTO kernelcast_events(shard, sequence, request_id, search_id, payload)"
    "  SELECT fence.shard, $3 + e.number, e.request_id, e.search_id, e.payload"
    "  FROM fence, unnest($5::text[], $6::text[], $7::bytea[])"
    "    WITH ORDINALITY AS e(request_id, search_id, payload, number)";

constexpr char kRows[] =
    "SELECT sequence, COALESCE(request_id, ''), COALESCE(search_id, ''), payload"
    " FROM kernelcast_events";

// Takes effect only if nobody else has taken the shard.
constexpr char kCut[] =
    "WITH fence AS ("
    "  UPDATE kernelcast_shards SET last_sequence = $3 WHERE shard = $1 AND writer = $2"
    "  RETURNING shard), "
    "cut AS ("
    "  DELETE FROM kernelcast_events USING fence"
    "  WHERE kernelcast_events.shard = fence.shard AND sequence > $3)"
    "SELECT shard FROM fence";

constexpr char kBecomeWriter[] =
    "UPDATE kernelcast_shards SET writer = $3 WHERE shard = $1 AND writer IN ($2, $3)"
    " RETURNING last_sequence";

// One statement's part of an append.
struct Chunk {
  std::vector<std::string_view> request_ids;
  std::vector<std::string_view> search_ids;
  std::vector<std::string> payloads;
  size_t bytes = 0;
};

// Splits events that follow event `last_sequence`.
std::vector<Chunk> MakeChunks(uint64_t last_sequence, std::span<const AppendEntry> entries) {
  std::vector<Chunk> chunks(1);
  for (const AppendEntry& entry : entries) {
    std::string payload;
    EncodeEvent(++last_sequence, entry, payload);
    if (!chunks.back().payloads.empty() &&
        chunks.back().bytes + payload.size() > kMaxStatementBytes) {
      chunks.emplace_back();
    }
    Chunk& chunk = chunks.back();
    chunk.bytes += payload.size();
    chunk.request_ids.push_back(entry.request_id);
    chunk.search_ids.push_back(entry.search_id);
    chunk.payloads.push_back(std::move(payload));
  }
  return chunks;
}

}  // namespace

struct PostgresqlEventStore::Impl {
  absl::Status Fenced() const {
    return absl::FailedPreconditionError(
        absl::StrCat("event log: another orchestrator has taken shard ", shard, " over"));
  }

  // One attempt. FAILED_PRECONDITION: fenced off. After another error on a usable connection,
  // nothing was written.
  absl::Status TryAppend(const std::vector<Chunk>& chunks) {
    const bool several = chunks.size() > 1;
    if (several) KC_RETURN_IF_ERROR(connection->Script("BEGIN"));
    absl::Status status;
    uint64_t sequence = last_sequence;
    for (const Chunk& chunk : chunks) {
      const auto count = static_cast<int64_t>(chunk.payloads.size());
      const PostgresqlValue values[] = {
          PostgresqlValue::Int(shard),
          PostgresqlValue::Text(writer),
          PostgresqlValue::Int(static_cast<int64_t>(sequence)),
          PostgresqlValue::Int(count),
          PostgresqlValue::TextArray(chunk.request_ids, /*empty_is_null=*/true),
          PostgresqlValue::TextArray(chunk.search_ids, /*empty_is_null=*/true),
          PostgresqlValue::BytesArray(chunk.payloads),
      };
      absl::StatusOr<PostgresqlRows> rows = connection->Execute(kAppend, values);
      status = rows.status();
      if (status.ok() && rows->affected() != count) status = Fenced();
      if (!status.ok()) break;
      sequence += static_cast<uint64_t>(count);
    }
    if (!several) return status;
    if (status.ok()) return connection->Script("COMMIT");
    if (connection->usable()) connection->Script("ROLLBACK").IgnoreError();
    return status;
  }

  // Call after a lost connection. Returns whether the shard's newest event is `after` (true) or
  // still `before` (false). Statements of earlier connections can no longer take effect.
  absl::StatusOr<bool> Decide(uint64_t before, uint64_t after) {
    const int64_t limit_ns =
        Clock::Real().MonotonicNs() + absl::ToInt64Nanoseconds(options.reconnect_timeout);
    const std::string next_writer = RandomId("w_");
    while (true) {
      KC_ASSIGN_OR_RETURN(connection, PostgresqlConnection::Reopen(options, &stop));
      const PostgresqlValue values[] = {PostgresqlValue::Int(shard), PostgresqlValue::Text(writer),
                                        PostgresqlValue::Text(next_writer)};
      absl::StatusOr<PostgresqlRows> rows = connection->Execute(kBecomeWriter, values);
      if (rows.ok()) {
        if (rows->count() != 1) return Fenced();
        writer = next_writer;
        const auto found = static_cast<uint64_t>(rows->Int(0, 0));
        if (found != before && found != after) {
          return absl::DataLossError(absl::StrCat("event log: shard ", shard, " ends with event ",
                                                  found, " and not with ", before, " or ", after));
        }
        return found == after;
      }
      if (stop || connection->usable() || Clock::Real().MonotonicNs() >= limit_ns) {
        return rows.status();
      }
    }
  }

  // Reads the rows of the shard from a sequence number on. `visit` gets an EventRow.
  template <class Visit>
  absl::Status CopyRows(PostgresqlConnection& on, uint64_t from_sequence, const Visit& visit) {
    return on.CopyOut(absl::StrCat("COPY (", kRows, " WHERE shard = ", shard, " AND sequence >= ",
                                   from_sequence, " ORDER BY sequence) TO STDOUT (FORMAT binary)"),
                      [&visit](std::span<const std::string_view> fields) -> absl::Status {
                        if (fields.size() != 4)
                          return absl::DataLossError("event log: a row is cut short");
                        return visit(EventRow{static_cast<uint64_t>(PostgresqlInt(fields[0])),
                                              fields[1], fields[2], fields[3]});
                      });
  }

  // Deletes the events after the last valid one.
  absl::Status CutAfterFirstLoss() {
    uint64_t whole = 0;
    absl::Status loss = CopyRows(*connection, 1, [&whole](const EventRow& row) -> absl::Status {
      if (row.sequence != whole + 1) return MissingEventError(whole + 1);
      KC_RETURN_IF_ERROR(CheckRow(row));
      whole = row.sequence;
      return absl::OkStatus();
    });
    if (loss.ok() && whole >= last_sequence) return absl::OkStatus();
    if (loss.ok()) loss = MissingEventError(whole + 1);
    if (!absl::IsDataLoss(loss)) return loss;
    if (!connection->usable()) {
      KC_ASSIGN_OR_RETURN(connection, PostgresqlConnection::Reopen(options, &stop));
    }
    Log(LogLevel::kWarning, "the loss of events is accepted",
        {{"shard", shard},
         {"events_kept", whole},
         {"events_lost", std::max(last_sequence, whole) - whole},
         {"reason", std::string(loss.message())}});
    const PostgresqlValue values[] = {PostgresqlValue::Int(shard), PostgresqlValue::Text(writer),
                                      PostgresqlValue::Int(static_cast<int64_t>(whole))};
    KC_ASSIGN_OR_RETURN(PostgresqlRows rows, connection->Execute(kCut, values));
    if (rows.count() != 1) return Fenced();
    last_sequence = whole;
    return absl::OkStatus();
  }

  // Reads on a separate connection. Retries once if the connection is lost, unless `ended` says
  // that the read has failed permanently.
  template <class Read>
  absl::Status Reading(const Read& read, const bool& ended = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_mutex) {
    for (bool again = false;; again = true) {
      if (reader == nullptr || !reader->usable()) {
        KC_ASSIGN_OR_RETURN(reader, PostgresqlConnection::Reopen(options, &stop));
      }
      absl::Status status = read(*reader);
      if (status.ok() || reader->usable() || ended || again || stop) return status;
    }
  }

  absl::StatusOr<std::vector<StoredEvent>> ReadEvents(const std::string& sql,
                                                      std::span<const PostgresqlValue> values) {
    std::vector<StoredEvent> events;
    const std::lock_guard lock(reader_mutex);
    KC_RETURN_IF_ERROR(Reading([&](PostgresqlConnection& on) -> absl::Status {
      KC_ASSIGN_OR_RETURN(PostgresqlRows rows, on.Execute(sql, values));
      events.clear();
      events.reserve(static_cast<size_t>(rows.count()));
      for (int row = 0; row < rows.count(); ++row) {
        KC_ASSIGN_OR_RETURN(StoredEvent event, DecodeEvent({static_cast<uint64_t>(rows.Int(row, 0)),
                                                            rows.Bytes(row, 1), rows.Bytes(row, 2),
                                                            rows.Bytes(row, 3)}));
        events.push_back(std::move(event));
      }
      return absl::OkStatus();
    }));
    return events;
  }

  // Constant after construction.
  PostgresqlOptions options;
  int shard = 0;

  std::atomic<bool> stop = false;

  // Used by Append only.
  std::string writer;
  std::unique_ptr<PostgresqlConnection> connection;
  uint64_t last_sequence = 0;
  uint64_t first_unseen = 1;  // the event after those that Open found; then constant
  absl::Status failed;        // after a failed append the store does not know where the log ends

  std::mutex reader_mutex;
  std::unique_ptr<PostgresqlConnection> reader ABSL_GUARDED_BY(reader_mutex);
};

PostgresqlEventStore::PostgresqlEventStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PostgresqlEventStore::~PostgresqlEventStore() = default;

absl::StatusOr<std::unique_ptr<PostgresqlEventStore>> PostgresqlEventStore::Open(
    const PostgresqlOptions& options, int shard, const std::string& writer) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->shard = shard;
  impl->writer = writer;
  KC_ASSIGN_OR_RETURN(impl->connection, PostgresqlConnection::Open(options, &impl->stop));
  const PostgresqlValue values[] = {PostgresqlValue::Int(shard)};
  KC_ASSIGN_OR_RETURN(
      PostgresqlRows rows,
      impl->connection->Execute("SELECT last_sequence, writer, (SELECT COALESCE(MAX(sequence), 0)"
                                " FROM kernelcast_events WHERE shard = $1)"
                                " FROM kernelcast_shards WHERE shard = $1",
                                values));
  if (rows.count() != 1) {
    return absl::NotFoundError(absl::StrCat("event log: there is no shard ", shard));
  }
  if (rows.Bytes(0, 1) != writer) return impl->Fenced();
  impl->last_sequence = static_cast<uint64_t>(rows.Int(0, 0));
  if (options.accept_loss) {
    KC_RETURN_IF_ERROR(impl->CutAfterFirstLoss());
  } else if (rows.Int(0, 0) != rows.Int(0, 2)) {
    return LossError(absl::StrCat("shard ", shard, " ends with event ", rows.Int(0, 2), ", but ",
                                  rows.Int(0, 0), " events were acknowledged"));
  }
  impl->first_unseen = impl->last_sequence + 1;
  return std::unique_ptr<PostgresqlEventStore>(new PostgresqlEventStore(std::move(impl)));
}

absl::StatusOr<uint64_t> PostgresqlEventStore::Append(std::span<const AppendEntry> entries) {
  KC_RETURN_IF_ERROR(impl_->failed);
  const uint64_t before = impl_->last_sequence;
  if (entries.empty()) return before + 1;
  const std::vector<Chunk> chunks = MakeChunks(before, entries);
  const uint64_t after = before + entries.size();
  const int64_t limit_ns =
      Clock::Real().MonotonicNs() + absl::ToInt64Nanoseconds(impl_->options.reconnect_timeout);
  while (true) {
    absl::Status status = impl_->TryAppend(chunks);
    if (!status.ok() && !impl_->connection->usable()) {
      Log(LogLevel::kWarning, "the database connection was lost during an append",
          {{"shard", impl_->shard}, {"error", std::string(status.message())}});
      absl::StatusOr<bool> applied = impl_->Decide(before, after);
      if (applied.ok()) {
        Log(LogLevel::kInfo, "the database is back",
            {{"shard", impl_->shard}, {"append", *applied ? "was written" : "was not written"}});
        if (!*applied && Clock::Real().MonotonicNs() < limit_ns) continue;
        if (*applied) status = absl::OkStatus();
      } else {
        status = applied.status();
      }
    }
    if (!status.ok()) {
      impl_->failed = status;
      return status;
    }
    impl_->last_sequence = after;
    return before + 1;
  }
}

absl::Status PostgresqlEventStore::Replay(uint64_t from_sequence, const Visitor& visit) const {
  const std::lock_guard lock(impl_->reader_mutex);
  uint64_t next = std::max<uint64_t>(1, from_sequence);
  const uint64_t last_possible = static_cast<uint64_t>(INT64_MAX);
  if (next > last_possible) return absl::OkStatus();
  bool ended = false;
  KC_RETURN_IF_ERROR(impl_->Reading(
      [&](PostgresqlConnection& on) {
        return impl_->CopyRows(on, next, [&](const EventRow& row) {
          absl::Status status = row.sequence == next ? absl::OkStatus() : MissingEventError(next);
          if (status.ok()) {
            absl::StatusOr<StoredEvent> event = DecodeEvent(row);
            status = event.status();
            if (status.ok()) {
              ++next;
              status = visit(*std::move(event));
            }
          }
          ended = !status.ok();
          return status;
        });
      },
      ended));
  return next < impl_->first_unseen ? MissingEventError(next) : absl::OkStatus();
}

absl::StatusOr<std::vector<StoredEvent>> PostgresqlEventStore::ReadEvaluation(
    std::string_view request_id) const {
  const PostgresqlValue values[] = {PostgresqlValue::Int(impl_->shard),
                                    PostgresqlValue::Text(request_id)};
  return impl_->ReadEvents(
      absl::StrCat(kRows, " WHERE shard = $1 AND request_id = $2 ORDER BY sequence"), values);
}

absl::StatusOr<std::vector<StoredEvent>> PostgresqlEventStore::ReadSearch(
    std::string_view search_id, uint64_t from_sequence, size_t limit) const {
  const auto bounded = [](uint64_t number) {
    return static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX));
  };
  std::vector<PostgresqlValue> values = {PostgresqlValue::Int(impl_->shard),
                                         PostgresqlValue::Int(bounded(from_sequence)),
                                         PostgresqlValue::Int(bounded(limit))};
  if (search_id.empty()) {
    return impl_->ReadEvents(
        absl::StrCat(kRows, " WHERE shard = $1 AND sequence >= $2 ORDER BY sequence LIMIT $3"),
        values);
  }
  values.push_back(PostgresqlValue::Text(search_id));
  return impl_->ReadEvents(
      absl::StrCat(kRows,
                   " WHERE shard = $1 AND search_id = $4 AND sequence >= $2 ORDER BY sequence"
                   " LIMIT $3"),
      values);
}

absl::StatusOr<uint64_t> PostgresqlEventStore::LastSequence() const {
  const PostgresqlValue values[] = {PostgresqlValue::Int(impl_->shard)};
  uint64_t last = 0;
  const std::lock_guard lock(impl_->reader_mutex);
  KC_RETURN_IF_ERROR(impl_->Reading([&](PostgresqlConnection& on) -> absl::Status {
    KC_ASSIGN_OR_RETURN(
        PostgresqlRows rows,
        on.Execute("SELECT COALESCE(MAX(sequence), 0) FROM kernelcast_events WHERE shard = $1",
                   values));
    last = static_cast<uint64_t>(rows.Int(0, 0));
    return absl::OkStatus();
  }));
  return last;
}

void PostgresqlEventStore::Stop() { impl_->stop = true; }

}  // namespace kernelcast::orchestrator
