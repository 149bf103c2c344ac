#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_FORECAST_CACHE_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_FORECAST_CACHE_H_

#include <optional>
#include <string>

#include "services/forecaster/core/backend.h"

namespace kernelcast::forecaster {

// A cache of results by the content they depend on. May forget anything at any time. Thread-safe.
// May wait for the disk.
class ForecastCache {
 public:
  virtual ~ForecastCache() = default;
  // Empty if the key is unknown or the entry is unreadable.
  virtual std::optional<ForecastResult> Find(const std::string& key) = 0;
  virtual void Put(const std::string& key, const ForecastResult& result) = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_FORECAST_CACHE_H_
