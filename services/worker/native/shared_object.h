#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_SHARED_OBJECT_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_SHARED_OBJECT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// A shared object made safe to load: its constructors are taken out of the dynamic section, so that
// dlopen runs none of its code. The runner calls them itself once it has given up its privileges.
struct LoadableObject {
  std::string content;
  // Relative to where the object is loaded; 0: none.
  uint64_t init_function = 0;
  uint64_t init_array = 0;
  uint64_t init_array_entries = 0;
  int64_t text_bytes = 0;
};

// INVALID_ARGUMENT: not a shared object for x86-64, damaged, no entry kernelcast_run, or it has
// indirect functions, whose resolvers would run while it is loaded.
[[nodiscard]] absl::StatusOr<LoadableObject> PrepareObject(std::string_view elf);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_SHARED_OBJECT_H_
