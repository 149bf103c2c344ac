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

inline constexpr std::string_view kDefaultKernelPrompt = "kernel-writer/1";

// Where kernels of a target run.
struct KernelSite {
  DeviceInfo device;  // an empty model where it is not known
  std::string toolchain;
  std::vector<std::string> allowed_flags;
};

struct KernelPromptText {
  std::string system;
  std::string user;
};

// The prompt that kernels are asked for with, as a folder of files: prompt.json with "version";
// system.txt; user.txt; and for each kind of kernel, cpu, cuda (device code) and cuda_host,
// KIND.txt, what a kernel must be, and KIND_answer.txt, how to answer.
//
// The system text may use contract and answer_form, which stand for those two; they may use abi and
// flags; the user text hardware, task, shapes, reference, setbacks, unusable, best and parent.
//
// Rendering is the same bytes for the same input. Immutable; thread-safe.
class KernelPrompt {
 public:
  // Compiled in. NOT_FOUND, listing the known versions.
  [[nodiscard]] static absl::StatusOr<KernelPrompt> Builtin(std::string_view version);
  static std::vector<std::string> BuiltinVersions();
  // From a folder. NOT_FOUND: a file is missing. INVALID_ARGUMENT: "FILE: line 3: what is wrong".
  [[nodiscard]] static absl::StatusOr<KernelPrompt> Load(const std::string& directory);
  // `where` is put before the names of files in messages.
  [[nodiscard]] static absl::StatusOr<KernelPrompt> Parse(const std::string& where,
                                                          const PromptFiles& files);

  // "kernel-writer/1@0123abcd": the version, and the first digits of a hash over all files, the
  // candidates' header and the version of the rendering.
  const std::string& version() const { return version_; }

  // Where it would be longer than `max_bytes`, sources of setbacks are left out, then setbacks,
  // then the fastest. RESOURCE_EXHAUSTED: it is too long even then.
  [[nodiscard]] absl::StatusOr<KernelPromptText> Render(const GenerationQuery& query,
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
  std::map<std::string, Kind, std::less<>> kinds_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_KERNEL_PROMPT_H_
