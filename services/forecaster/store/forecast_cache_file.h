#ifndef KERNELCAST_SERVICES_FORECASTER_STORE_FORECAST_CACHE_FILE_H_
#define KERNELCAST_SERVICES_FORECASTER_STORE_FORECAST_CACHE_FILE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "services/forecaster/core/forecast_cache.h"
#include "services/forecaster/store/sqlite.h"

namespace kernelcast::forecaster {

// A cache of forecasts and deferrals in one SQLite file of its own, which may be deleted at any
// time. What was used longest ago goes first when the contents exceed the bound; use is noted to
// the hour. A crash of the machine may lose the latest entries. Failures of the disk are logged and
// are misses. Thread-safe.
class ForecastCacheFile final : public ForecastCache {
 public:
  static constexpr char kFileName[] = "answers.db";

  // Makes the file where it is missing, and anew where it is damaged or of another layout.
  // UNAVAILABLE: another process holds it.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ForecastCacheFile>> Open(
      const std::string& directory, int64_t max_bytes);

  std::optional<ForecastResult> Find(const std::string& key) override;
  // Abstentions other than the model's own deferral are not kept.
  void Put(const std::string& key, const ForecastResult& result) override;

  // Bytes of keys and contents.
  int64_t bytes() const;

 private:
  ForecastCacheFile() = default;
  absl::Status Prepare();
  absl::Status Evict();

  int64_t max_bytes_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  Database database_;
  // Statements after the database, so that they go first.
  Statement find_;
  Statement touch_;
  Statement put_;
  Statement oldest_;
  Statement remove_;
  int64_t bytes_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_STORE_FORECAST_CACHE_FILE_H_
