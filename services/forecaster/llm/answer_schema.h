#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_ANSWER_SCHEMA_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_ANSWER_SCHEMA_H_

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/domain/bins.h"

namespace kernelcast::forecaster {

// Answer formats of prompts, generated from the bin scheme. ParseReply reads all of them.
enum class AnswerForm {
  // The tool of the published adapters, field by field: predicted_bin, p_NAME for each bin,
  // reasoning.
  kPaper,
  // Reasoning first, so that the numbers follow from it, then "p_failure", each p_NAME and
  // predicted_bin.
  kExtended,
};

// NOT_FOUND lists the known names.
[[nodiscard]] absl::StatusOr<AnswerForm> ParseAnswerForm(std::string_view name);  // "paper"

// The schemas are flat and all their fields are required. They do not use "$ref", "$defs",
// "default", "minimum" or "maximum", which servers reject in strict mode. The order of fields
// matters.
using OrderedJson = nlohmann::ordered_json;

// Schema of the answer object. With `may_defer` (ignored for kPaper) it has the flag "defer", which
// replaces the deferral tool.
OrderedJson AnswerSchema(const BinScheme& scheme, AnswerForm form, bool may_defer);

// The two tools as elements of a request's "tools".
OrderedJson SubmitTool(const BinScheme& scheme, AnswerForm form, bool may_defer);
OrderedJson DeferTool();

// An example answer as JSON on one line.
std::string AnswerExample(const BinScheme& scheme, AnswerForm form, bool may_defer);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_ANSWER_SCHEMA_H_
