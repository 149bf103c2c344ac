#ifndef KERNELCAST_COMMON_LLM_REASONING_MARKS_H_
#define KERNELCAST_COMMON_LLM_REASONING_MARKS_H_

#include "common/llm/chat.h"

namespace kernelcast::llm {

// Moves the reasoning that a server leaves in the content to ChatAnswer::reasoning: the text up to
// the last mark that ends reasoning, such as </think>, or all of it if reasoning begins and does
// not end. The marks themselves are dropped.
void SeparateReasoning(ChatAnswer& answer);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_REASONING_MARKS_H_
