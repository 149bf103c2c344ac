#ifndef KERNELCAST_SERVICES_WORKER_CORE_ARTIFACT_ID_H_
#define KERNELCAST_SERVICES_WORKER_CORE_ARTIFACT_ID_H_

#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {

// Names what a compiler makes from a source. `form` says which compiler, and changes with the form
// of its artefacts.
std::string ArtifactIdOf(std::string_view form, const std::string& toolchain,
                         const std::string& architecture, const std::string& source,
                         const std::vector<std::string>& flags);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_ARTIFACT_ID_H_
