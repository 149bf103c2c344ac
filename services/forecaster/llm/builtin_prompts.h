#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_BUILTIN_PROMPTS_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_BUILTIN_PROMPTS_H_

#include <span>

#include "common/prompt/prompt_files.h"

namespace kernelcast::forecaster {

// The files under prompts/.
std::span<const EmbeddedFile> EmbeddedPromptFiles();

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_BUILTIN_PROMPTS_H_
