#ifndef KERNELCAST_COMMON_LLM_ERROR_OBJECT_H_
#define KERNELCAST_COMMON_LLM_ERROR_OBJECT_H_

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/llm/chat.h"

namespace kernelcast::llm {

// Reads the error in an endpoint's response, whichever server it comes from:
//
//   {"error": {"message": ..., "code": ..., "type": ...}}   also in a list of one
//   {"error": "message"}, {"detail": "message"}, {"detail": [{"msg": "message"}]},
//   {"errors": [{"message": ...}]}
//   {"message": ..., "code": ..., "type": ...}
//
// A code may be a number or a string. `http_status` is that of the response. If it is a success,
// the error's own code or type decides, and 500 stands for an unknown one. Sets kind, message, code
// and http_status, which may then differ from that of the response. `text`: shown if the object has
// no message.
ChatError ReadErrorObject(const nlohmann::json& body, int http_status, std::string_view text);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_ERROR_OBJECT_H_
