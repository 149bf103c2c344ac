#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PRIOR_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PRIOR_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/forecaster/embedded/shared_model.h"

namespace kernelcast::forecaster {

// Models trained beforehand, from measurements of many problems, for a process that has few labels
// of its own.
struct Prior {
  // "prior/HASH", of the file's content: the same labels and seed give the same.
  std::string id;
  std::map<std::string, std::shared_ptr<const SharedModel>, std::less<>> targets;
};

// Text of a prior's file: JSON, the same for the same models.
std::string SerializePrior(const std::map<std::string, SharedModel>& targets);

// INVALID_ARGUMENT: not such a file, or made for other features than those of this program.
[[nodiscard]] absl::StatusOr<Prior> ParsePrior(std::string_view content);

// NOT_FOUND: no such file; or as of ParsePrior.
[[nodiscard]] absl::StatusOr<Prior> ReadPrior(const std::string& path);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PRIOR_H_
