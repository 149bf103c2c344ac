#include "services/worker/cuda/api/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {

absl::StatusOr<SharedLibrary> OpenLibrary(std::span<const std::string> names) {
  std::string complaints;
  for (const std::string& name : names) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* error = dlerror();
      absl::StrAppend(&complaints, complaints.empty() ? "" : "; ", error == nullptr ? name : error);
      continue;
    }
    SharedLibrary library;
    link_map* map = nullptr;
    library.path =
        dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0' ? map->l_name : name;
    library.lookup = [handle](const char* symbol) { return dlsym(handle, symbol); };
    return library;
  }
  return absl::NotFoundError(complaints.empty() ? "no library to open" : complaints);
}

void TableFiller::Miss(const char* symbol) {
  absl::StrAppend(&missing_, missing_.empty() ? "" : ", ", symbol);
}

absl::Status TableFiller::Finish(std::string_view library) const {
  if (missing_.empty()) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat(std::string(library), " is too old or too new: it has no ", missing_));
}

}  // namespace kernelcast::worker
