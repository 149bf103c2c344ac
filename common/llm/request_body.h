#ifndef KERNELCAST_COMMON_LLM_REQUEST_BODY_H_
#define KERNELCAST_COMMON_LLM_REQUEST_BODY_H_

#include <string>

#include "common/llm/chat.h"
#include "common/llm/endpoint_config.h"

namespace kernelcast::llm {

// The JSON of a streamed chat completion request. The messages come last, so requests with the same
// prompt share the longest possible suffix.
std::string BuildRequestBody(const EndpointConfig& endpoint, const ChatRequest& request,
                             const ResponseShape& shape);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_REQUEST_BODY_H_
