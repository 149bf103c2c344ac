#include "services/forecaster/store/forecast_cache_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/sqlite/exclusive_file.h"
#include "kernelcast/v1/forecaster.pb.h"

namespace kernelcast::forecaster {
namespace {

constexpr int64_t kHourNs = 3'600'000'000'000;
// Overhead of a row besides content and key.
constexpr int64_t kRowBytes = 64;
// Share that is removed when the limit is exceeded.
constexpr double kEvictedShare = 0.1;

constexpr char kAnswerSchema[] = R"(
  CREATE TABLE answers (
    ordinal INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    used_hour INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    content BLOB NOT NULL
  );
  CREATE INDEX answers_by_use ON answers (used_hour, ordinal);
)";

constexpr sqlite::FileLayout kAnswerLayout = {
    .application_id = 0x4b634661,  // "KcFa"
    .version = 1,
    .schema = kAnswerSchema,
    .synchronous = "OFF",
};

int64_t Hour() { return Clock::Real().WallNs() / kHourNs; }

void Complain(const char* what, const absl::Status& status) {
  Log(LogLevel::kWarning, what, {{"error", std::string(status.message())}});
}

}  // namespace

absl::Status ForecastCacheFile::Prepare() {
  KC_RETURN_IF_ERROR(
      find_.Prepare(database_, "SELECT ordinal, used_hour, content FROM answers WHERE key = ?"));
  KC_RETURN_IF_ERROR(
      touch_.Prepare(database_, "UPDATE answers SET used_hour = ? WHERE ordinal = ?"));
  KC_RETURN_IF_ERROR(
      put_.Prepare(database_,
                   "INSERT INTO answers (key, used_hour, bytes, content) VALUES (?, ?, ?, ?) "
                   "ON CONFLICT (key) DO NOTHING"));
  KC_RETURN_IF_ERROR(oldest_.Prepare(
      database_, "SELECT ordinal, bytes FROM answers ORDER BY used_hour, ordinal LIMIT 1"));
  KC_RETURN_IF_ERROR(remove_.Prepare(database_, "DELETE FROM answers WHERE ordinal = ?"));
  KC_ASSIGN_OR_RETURN(bytes_,
                      database_.QueryInteger("SELECT coalesce(sum(bytes), 0) FROM answers"));
  return Evict();
}

absl::StatusOr<std::unique_ptr<ForecastCacheFile>> ForecastCacheFile::Open(
    const std::string& directory, int64_t max_bytes) {
  for (bool again = false;; again = true) {
    auto cache = std::unique_ptr<ForecastCacheFile>(new ForecastCacheFile());
    cache->max_bytes_ = max_bytes;
    absl::Status status =
        sqlite::OpenExclusively(directory, kFileName, kAnswerLayout, cache->database_);
    if (status.ok()) status = cache->Prepare();
    if (status.ok()) return cache;
    if (again || (!absl::IsDataLoss(status) && !absl::IsFailedPrecondition(status))) return status;
    Complain("the cache of answers is recreated", status);
    cache.reset();
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::error_code ignored;
      std::filesystem::remove(absl::StrCat(directory, "/", kFileName, suffix), ignored);
    }
  }
}

std::optional<ForecastResult> ForecastCacheFile::Find(const std::string& key) {
  std::string content;
  {
    std::lock_guard lock(mutex_);
    find_.BindText(1, key);
    const absl::StatusOr<bool> row = find_.Step();
    int64_t ordinal = 0;
    int64_t used_hour = 0;
    if (row.ok() && *row) {
      ordinal = find_.Integer(0);
      used_hour = find_.Integer(1);
      content = find_.Bytes(2);
    }
    find_.Reset();
    if (!row.ok()) Complain("a cached answer cannot be read", row.status());
    if (content.empty()) return std::nullopt;
    if (const int64_t hour = Hour(); used_hour != hour) {
      touch_.BindInteger(1, hour);
      touch_.BindInteger(2, ordinal);
      if (const absl::Status status = touch_.Run(); !status.ok()) {
        Complain("a cached answer cannot be marked as used", status);
      }
    }
  }
  v1::ForecastReply reply;
  if (!reply.ParseFromString(content)) return std::nullopt;
  if (reply.has_forecast()) {
    Forecast forecast = FromProto(reply.forecast());
    if (!ValidateForecast(forecast).ok()) return std::nullopt;
    return forecast;
  }
  absl::StatusOr<Abstention> abstention = FromProto(reply.abstention());
  if (!abstention.ok()) return std::nullopt;
  return *std::move(abstention);
}

void ForecastCacheFile::Put(const std::string& key, const ForecastResult& result) {
  v1::ForecastReply reply;
  if (const auto* forecast = std::get_if<Forecast>(&result)) {
    *reply.mutable_forecast() = ToProto(*forecast);
  } else {
    const auto& abstention = std::get<Abstention>(result);
    if (abstention.cause != Abstention::Cause::kModelDeferred) return;
    *reply.mutable_abstention() = ToProto(abstention);
  }
  const std::string content = reply.SerializeAsString();
  const int64_t bytes = static_cast<int64_t>(content.size() + key.size()) + kRowBytes;
  if (bytes > max_bytes_) return;
  std::lock_guard lock(mutex_);
  put_.BindText(1, key);
  put_.BindInteger(2, Hour());
  put_.BindInteger(3, bytes);
  put_.BindBlob(4, content);
  absl::Status status = put_.Run();
  if (status.ok() && sqlite3_changes64(database_.get()) > 0) {
    bytes_ += bytes;
    status = Evict();
  }
  if (!status.ok()) Complain("an answer cannot be cached", status);
}

absl::Status ForecastCacheFile::Evict() {
  if (bytes_ <= max_bytes_) return absl::OkStatus();
  const auto wanted = static_cast<int64_t>(static_cast<double>(max_bytes_) * (1 - kEvictedShare));
  sqlite::Transaction transaction(database_);
  KC_RETURN_IF_ERROR(transaction.Begin());
  int64_t left = bytes_;
  while (left > wanted) {
    const absl::StatusOr<bool> row = oldest_.Step();
    const int64_t ordinal = row.ok() && *row ? oldest_.Integer(0) : 0;
    left -= row.ok() && *row ? oldest_.Integer(1) : left;
    oldest_.Reset();
    KC_RETURN_IF_ERROR(row.status());
    remove_.BindInteger(1, ordinal);
    KC_RETURN_IF_ERROR(remove_.Run());
  }
  KC_RETURN_IF_ERROR(transaction.Commit());
  bytes_ = left;
  return absl::OkStatus();
}

int64_t ForecastCacheFile::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace kernelcast::forecaster
