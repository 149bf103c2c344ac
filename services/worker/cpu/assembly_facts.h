#ifndef KERNELCAST_SERVICES_WORKER_CPU_ASSEMBLY_FACTS_H_
#define KERNELCAST_SERVICES_WORKER_CPU_ASSEMBLY_FACTS_H_

#include <cstdint>
#include <string_view>

#include "common/domain/facts.h"

namespace kernelcast::worker {

// Returns facts of schema "cpu-asm/1" from x86-64 assembly in AT&T syntax, as g++ and clang++ -S
// write it. `text_bytes` is the size of the machine code. Unknown instructions count only as
// instructions.
CompileFacts ExtractAssemblyFacts(std::string_view assembly, int64_t text_bytes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_ASSEMBLY_FACTS_H_
