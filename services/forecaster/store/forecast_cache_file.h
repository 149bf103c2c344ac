#ifndef KERNELCAST_SERVICES_FORECASTER_STORE_FORECAST_CACHE_FILE_H_
#define KERNELCAST_SERVICES_FORECASTER_STORE_FORECAST_CACHE_FILE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "common/sqlite/sqlite.h"
#include "services/forecaster/core/forecast_cache.h"

namespace kernelcast::forecaster {

// A cache of forecasts and deferrals in its own SQLite file, which may be deleted at any time. When
// the contents exceed the limit, the least recently used entries are removed; use is recorded to
// the hour. A crash of the machine may lose the latest entries. Disk errors are logged and count as
// misses. Thread-safe.
class ForecastCacheFile final : public ForecastCache {
 public:
  static constexpr char kFileName[] = "answers.db";

  // Creates the file if it is missing, and recreates it if it is damaged or has another layout.
  // UNAVAILABLE: another process has it open.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ForecastCacheFile>> Open(
      const std::string& directory, int64_t max_bytes);

  std::optional<ForecastResult> Find(const std::string& key) override;
  // Stores only abstentions that are the model's own deferral.
  void Put(const std::string& key, const ForecastResult& result) override;

  // Total bytes of keys and contents.
  int64_t bytes() const;

 private:
  ForecastCacheFile() = default;
  absl::Status Prepare();
  absl::Status Evict();

  int64_t max_bytes_ = 0;
  mutable std::mutex mutex_;  // guards the members below
  sqlite::Database database_;
  // Statements come after the database, so that they are destroyed first.
  sqlite::Statement find_;
  sqlite::Statement touch_;
  sqlite::Statement put_;
  sqlite::Statement oldest_;
  sqlite::Statement remove_;
  int64_t bytes_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_STORE_FORECAST_CACHE_FILE_H_
