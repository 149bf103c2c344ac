#ifndef KERNELCAST_SERVICES_WORKER_CUDA_API_SHARED_LIBRARY_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_API_SHARED_LIBRARY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::worker {

// Returns the address of a symbol, or nullptr. Tests pass their own.
using SymbolLookup = std::function<void*(const char* symbol)>;

// A library that is opened once and never closed: NVIDIA's libraries do not support closing.
struct SharedLibrary {
  std::string path;  // where the loader found it
  SymbolLookup lookup;
};

// Opens the first of `names` (sonames or paths) that loads. NOT_FOUND: the loader's message for
// each.
[[nodiscard]] absl::StatusOr<SharedLibrary> OpenLibrary(std::span<const std::string> names);

// Fills tables of function pointers and records missing symbols.
class TableFiller {
 public:
  explicit TableFiller(const SymbolLookup& lookup) : lookup_(lookup) {}

  template <class Function>
  void Fill(Function*& function, const char* symbol) {
    function = reinterpret_cast<Function*>(lookup_(symbol));
    if (function == nullptr) {
      Miss(symbol);
    }
  }
  // Uses `older_symbol` if `symbol` does not exist.
  template <class Function>
  void Fill(Function*& function, const char* symbol, const char* older_symbol) {
    function = reinterpret_cast<Function*>(lookup_(symbol));
    if (function == nullptr) {
      Fill(function, older_symbol);
    }
  }
  // Returns OK, or UNIMPLEMENTED with the library and every missing symbol.
  absl::Status Finish(std::string_view library) const;

 private:
  void Miss(const char* symbol);

  const SymbolLookup& lookup_;
  std::string missing_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_API_SHARED_LIBRARY_H_
