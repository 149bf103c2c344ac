#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_ASSEMBLY_TEXT_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_ASSEMBLY_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// Parses what g++ or clang++ -S wrote for x86-64, including inline assembly, like the GNU
// assembler. Returns it for assembly_facts.h: one label, directive or instruction per line, without
// comments, and with names that start with ".L" for labels in code that are not functions.
//
// Executable sections must hold only instructions, so that facts read from the text hold for the
// machine code.
//
// INVALID_ARGUMENT: a directive, section or spelling that compilers do not write. The check uses a
// list of what is allowed, and rejects ambiguous text.
[[nodiscard]] absl::StatusOr<std::string> CanonicalAssembly(std::string_view assembly);

// Whether an instruction may follow the word on the same line: "rep", "lock", "data16", ...
bool IsInstructionPrefix(std::string_view word);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_ASSEMBLY_TEXT_H_
