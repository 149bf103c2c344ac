#include "services/forecaster/core/label.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"

namespace kernelcast::forecaster {

std::string ScopeName(std::string_view target, std::string_view device_model) {
  return absl::StrCat(std::string(target), " on ", std::string(device_model));
}

absl::Status ValidateOptionalFacts(std::string_view field, const CompileFacts& facts) {
  if (facts.schema.empty() && facts.values.empty()) return absl::OkStatus();
  return WithPrefix(absl::StrCat(std::string(field), ": "), ValidateFacts(facts));
}

absl::Status ValidateDeviceModel(std::string_view field, std::string_view model) {
  if (!model.empty() && model.size() <= kMaxDeviceModelBytes && IsValidUtf8(model)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": must have 1 to ",
                                                 kMaxDeviceModelBytes, " bytes of UTF-8, has ",
                                                 model.size()));
}

absl::Status ValidateLabel(const Label& label) {
  if (label.label_id.empty() || label.label_id.size() > kMaxLabelIdBytes ||
      !IsValidUtf8(label.label_id)) {
    return absl::InvalidArgumentError(absl::StrCat("label_id: must have 1 to ", kMaxLabelIdBytes,
                                                   " bytes of UTF-8, has ", label.label_id.size()));
  }
  KC_RETURN_IF_ERROR(ValidateOptionalFacts("facts", label.facts));
  KC_RETURN_IF_ERROR(ValidateOptionalFacts("reference_facts", label.reference_facts));
  if (const auto* speedup = std::get_if<Ratio>(&label.truth)) {
    if (!(std::isfinite(speedup->value) && speedup->value > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("speedup.value: ", speedup->value, " is not a positive finite number"));
    }
    if (!std::isfinite(speedup->low) || !std::isfinite(speedup->high) || speedup->low < 0 ||
        speedup->high < 0) {
      return absl::InvalidArgumentError(
          "speedup.low, speedup.high: must be finite and not negative");
    }
  }
  if (!(label.propensity > 0 && label.propensity <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("propensity: ", label.propensity, " is not in (0, 1]"));
  }
  return ValidateDeviceModel("device_model", label.device_model);
}

}  // namespace kernelcast::forecaster
