#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PRIOR_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PRIOR_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "services/forecaster/embedded/shared_model.h"

namespace kernelcast::forecaster {

using PriorKey = std::pair<std::string, std::string>;  // target, device model

// Models trained in advance from measurements of many problems, for a process with few labels.
struct Prior {
  // "prior/HASH" of the file's content. The same labels and seed give the same id.
  std::string id;
  std::map<PriorKey, std::shared_ptr<const SharedModel>> models;
  // By target: the model of the device model with the most problems, for device models without
  // their own.
  std::map<std::string, std::shared_ptr<const SharedModel>> for_others;

  // The model for a device model, or the one for others if it has none. Null: none for the target.
  std::shared_ptr<const SharedModel> Find(const std::string& target,
                                          const std::string& device_model) const;
};

// Content of a prior's file: JSON, deterministic.
std::string SerializePrior(const std::map<PriorKey, SharedModel>& models);

// INVALID_ARGUMENT: not a prior, or made for other features than those of this program.
[[nodiscard]] absl::StatusOr<Prior> ParsePrior(std::string_view content);

// NOT_FOUND: no such file. Other errors as ParsePrior.
[[nodiscard]] absl::StatusOr<Prior> ReadPrior(const std::string& path);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PRIOR_H_
