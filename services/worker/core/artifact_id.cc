#include "services/worker/core/artifact_id.h"

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"

namespace kernelcast::worker {

std::string ArtifactIdOf(std::string_view form, const std::string& toolchain,
                         const std::string& architecture, const std::string& source,
                         const std::vector<std::string>& flags) {
  ContentHasher hasher;
  hasher.Add(form).Add(toolchain).Add(architecture).Add(source);
  hasher.Add(flags.size());
  for (const std::string& flag : flags) {
    hasher.Add(flag);
  }
  return absl::StrCat("a_", hasher.Hex128());
}

}  // namespace kernelcast::worker
