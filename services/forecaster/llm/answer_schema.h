#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_ANSWER_SCHEMA_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_ANSWER_SCHEMA_H_

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/domain/bins.h"

namespace kernelcast::forecaster {

// What a prompt asks for, all generated from the bin scheme; ParseReply reads every form.
enum class AnswerForm {
  // The tool of the published adapters, field for field: predicted_bin, a p_NAME for each bin,
  // reasoning.
  kPaper,
  // The reasoning first, so that the numbers follow from it, then "p_failure", each p_NAME and
  // predicted_bin.
  kExtended,
};

// NOT_FOUND, listing the known names.
[[nodiscard]] absl::StatusOr<AnswerForm> ParseAnswerForm(std::string_view name);  // "paper"

// The schemas are flat and all their fields are required: no "$ref", "$defs", "default", "minimum"
// or "maximum" occurs, which servers refuse in strict mode. The order of fields is part of them.
using OrderedJson = nlohmann::ordered_json;

// Of the answer as an object. With `may_defer`, which kPaper ignores, it has the flag "defer" in
// place of the deferral tool.
OrderedJson AnswerSchema(const BinScheme& scheme, AnswerForm form, bool may_defer);

// The two tools as elements of a request's "tools".
OrderedJson SubmitTool(const BinScheme& scheme, AnswerForm form, bool may_defer);
OrderedJson DeferTool();

// An answer as a model should give it, as JSON text on one line.
std::string AnswerExample(const BinScheme& scheme, AnswerForm form, bool may_defer);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_ANSWER_SCHEMA_H_
