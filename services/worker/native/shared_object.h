#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_SHARED_OBJECT_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_SHARED_OBJECT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// A shared object made safe to load: its constructors are removed from the dynamic section, so that
// dlopen runs none of its code. The runner calls them itself after dropping its privileges.
struct LoadableObject {
  std::string content;
  // Relative to the load address; 0: none.
  uint64_t init_function = 0;
  uint64_t init_array = 0;
  uint64_t init_array_entries = 0;
  int64_t text_bytes = 0;
  // Size of everything that is loaded: code, data and zero-initialised data.
  uint64_t memory_bytes = 0;
};

struct RelocatableObject {
  // Uses functions of libstdc++. Linking without it is a third faster.
  bool needs_cxx_library = false;
};

// Checks an assembler's output before linking. INVALID_ARGUMENT: damaged, or with sections that
// compilers do not make (elf_file.h), such as code for link-time optimisation.
[[nodiscard]] absl::StatusOr<RelocatableObject> ReadRelocatable(std::string_view elf);

// INVALID_ARGUMENT: not a shared object for x86-64, damaged, no entry kernelcast_run, a section
// that linkers do not make (elf_file.h), memory or a stack that is both writable and executable,
// library search paths, or indirect functions, whose resolvers would run during loading.
[[nodiscard]] absl::StatusOr<LoadableObject> PrepareObject(std::string_view elf);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_SHARED_OBJECT_H_
