#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_KERNEL_PROMPT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_KERNEL_PROMPT_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "common/prompt/prompt_files.h"
#include "common/prompt/prompt_template.h"
#include "services/orchestrator/core/ports.h"

namespace kernelcast::orchestrator {

// Where kernels of a target run.
struct KernelSite {
  DeviceInfo device;  // empty model: unknown
  std::string toolchain;
  std::vector<std::string> allowed_flags;
};

struct KernelPromptText {
  std::string system;
  std::string user;
};

// The prompt for writing kernels, as a folder of files: prompt.json with "version"; system.txt;
// user.txt; critic_system.txt and critic_user.txt for the critic; and for each kind of kernel, cpu,
// cuda (device code) and cuda_host, KIND.txt (requirements) and KIND_answer.txt (answer format).
//
// The system text may use the placeholders contract and answer_form, which stand for those two
// files. They in turn may use abi and flags. The user texts may use hardware, task, shapes,
// reference, setbacks, unusable, best, parent, profile (what bounds the parent), change (what made
// it faster than its own parent) and advice (the critic's). The critic's system text has no
// placeholders.
//
// Rendering gives the same bytes for the same input. Immutable and thread-safe.
class KernelPrompt {
 public:
  // The prompt compiled into the binary.
  [[nodiscard]] static absl::StatusOr<KernelPrompt> Builtin();
  // A prompt from a folder. NOT_FOUND: a file is missing. INVALID_ARGUMENT: "FILE: line 3: what is
  // wrong".
  [[nodiscard]] static absl::StatusOr<KernelPrompt> Load(const std::string& directory);
  // `where` is prepended to file names in messages.
  [[nodiscard]] static absl::StatusOr<KernelPrompt> Parse(const std::string& where,
                                                          const PromptFiles& files);

  // "kernel-writer/2@0123abcd": the version and the first digits of a hash over all files, the
  // candidates' header and the rendering version.
  const std::string& version() const { return version_; }

  // If the prompt exceeds `max_bytes`, leaves out the sources of setbacks, then the change, then
  // the setbacks, then the fastest kernel. RESOURCE_EXHAUSTED: still too long.
  [[nodiscard]] absl::StatusOr<KernelPromptText> Render(const GenerationQuery& query,
                                                        const KernelSite& site,
                                                        size_t max_bytes) const;
  // The same for the critic.
  [[nodiscard]] absl::StatusOr<KernelPromptText> RenderCritic(const GenerationQuery& query,
                                                              const KernelSite& site,
                                                              size_t max_bytes) const;

 private:
  struct Kind {
    PromptTemplate contract;
    PromptTemplate answer_form;
  };

  KernelPrompt() = default;

  std::string version_;
  PromptTemplate system_;
  PromptTemplate user_;
  PromptTemplate critic_system_;
  PromptTemplate critic_user_;
  std::map<std::string, Kind, std::less<>> kinds_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_KERNEL_PROMPT_H_
