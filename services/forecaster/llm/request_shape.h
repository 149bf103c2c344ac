#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_REQUEST_SHAPE_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_REQUEST_SHAPE_H_

#include <array>
#include <map>
#include <string>
#include <vector>

#include "common/domain/bins.h"
#include "common/llm/chat.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/llm/answer_schema.h"
#include "services/forecaster/llm/response_ladder.h"

namespace kernelcast::forecaster {

// The messages of a request.
std::vector<llm::ChatMessage> MessagesOf(const RenderedPrompt& prompt);

// The part of a request that asks for the answer format. Its tag is the rung:
//
//   json_schema   response_format with the strict schema; declining is a field
//   tools_named   only the submit tool, required by tool_choice; declining is a field
//   tools_auto    both tools, tool_choice "auto"
//   text          nothing: the system message describes the format
//
// With AnswerForm::kPaper there is no field for declining. Without `may_defer` no form offers it.
llm::ResponseShape ShapeAt(Rung rung, const BinScheme& scheme, AnswerForm form,
                           bool may_defer = true);

// The shapes of one answer format, made once. Immutable and thread-safe.
class RequestShapes {
 public:
  explicit RequestShapes(AnswerForm form, bool may_defer = true);
  const llm::ResponseShape& At(Rung rung, const BinScheme& scheme) const;

 private:
  std::map<std::string, std::array<llm::ResponseShape, std::size(kRungs)>> by_scheme_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_REQUEST_SHAPE_H_
