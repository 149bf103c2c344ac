#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_BUILTIN_PROMPTS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_BUILTIN_PROMPTS_H_

#include <span>

#include "common/prompt/prompt_files.h"

namespace kernelcast::orchestrator {

// The files under prompts/.
std::span<const EmbeddedFile> EmbeddedPromptFiles();

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_BUILTIN_PROMPTS_H_
