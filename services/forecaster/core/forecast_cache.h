#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_FORECAST_CACHE_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_FORECAST_CACHE_H_

#include <optional>
#include <string>

#include "services/forecaster/core/backend.h"

namespace kernelcast::forecaster {

// Results by the content that they depend on. May forget anything at any time. Thread-safe; may
// wait for the disk.
class ForecastCache {
 public:
  virtual ~ForecastCache() = default;
  // Nothing where the key is not known or cannot be read.
  virtual std::optional<ForecastResult> Find(const std::string& key) = 0;
  virtual void Put(const std::string& key, const ForecastResult& result) = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_FORECAST_CACHE_H_
