#ifndef KERNELCAST_SERVICES_WORKER_CUDA_API_SHARED_LIBRARY_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_API_SHARED_LIBRARY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::worker {

// Address of a symbol, or nullptr. Tests hand in their own.
using SymbolLookup = std::function<void*(const char* symbol)>;

// A library that is opened once and stays open: NVIDIA's do not survive being closed.
struct SharedLibrary {
  std::string path;  // where the loader found it
  SymbolLookup lookup;
};

// Opens the first of `names`, sonames or paths, that can be. NOT_FOUND, with what the loader says
// of each.
[[nodiscard]] absl::StatusOr<SharedLibrary> OpenLibrary(std::span<const std::string> names);

// Fills tables of function pointers and remembers what was missing.
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
  // The first of two names that there is.
  template <class Function>
  void Fill(Function*& function, const char* symbol, const char* older_symbol) {
    function = reinterpret_cast<Function*>(lookup_(symbol));
    if (function == nullptr) {
      Fill(function, older_symbol);
    }
  }
  // OK, or UNIMPLEMENTED naming the library and every symbol that it lacks.
  absl::Status Finish(std::string_view library) const;

 private:
  void Miss(const char* symbol);

  const SymbolLookup& lookup_;
  std::string missing_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_API_SHARED_LIBRARY_H_
