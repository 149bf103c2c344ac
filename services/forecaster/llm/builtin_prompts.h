#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_BUILTIN_PROMPTS_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_BUILTIN_PROMPTS_H_

#include <span>
#include <string_view>

namespace kernelcast::forecaster {

// The files of a folder below prompts/, as they were when the program was built.
struct PromptFiles {
  std::string_view folder;
  std::string_view description;  // prompt.json
  std::string_view system;
  std::string_view user;
};

std::span<const PromptFiles> BuiltinPromptFiles();

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_BUILTIN_PROMPTS_H_
