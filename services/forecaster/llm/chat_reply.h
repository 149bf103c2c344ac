#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_CHAT_REPLY_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_CHAT_REPLY_H_

#include <string>

#include "common/llm/chat.h"
#include "services/forecaster/core/answer_parser.h"

namespace kernelcast::forecaster {

// An endpoint's answer in the form that the parser reads.
ModelReply ReplyOf(llm::ChatAnswer answer);

// The beginning of a model's answer, at most kMaxModelDetailBytes, to show people why it is
// unreadable.
std::string ExcerptOf(const llm::ChatAnswer& answer);

// Says what to do when an answer has reached the limit on its tokens. `max_tokens`: the requested
// limit. 0: none.
std::string CutOffText(const llm::ChatAnswer& answer, int max_tokens);

// Whether the endpoint refused the form of the question, so that another form may work.
bool IsRefusal(const llm::ChatError& error);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_CHAT_REPLY_H_
