#ifndef KERNELCAST_COMMON_DOMAIN_CANDIDATE_KIND_H_
#define KERNELCAST_COMMON_DOMAIN_CANDIDATE_KIND_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast {

// The kinds of candidates. Code that treats kinds differently asks for a property in KindInfo, so
// that a new kind is a value of kernel.proto, the same number here, and a row in kCandidateKinds.

enum class CandidateKind {
  kUnspecified = 0,
  kHostNative = 1,
  kDeviceCuda = 2,
  kPython = 3,
  kDeviceTriton = 4,
  kDeviceTilelang = 5,
};

// How a candidate describes the launches of its kernels.
enum class LaunchForm {
  kNone,    // not at all: its host code launches them, or its compiler decides
  kCuda,    // grid, block, cluster and shared memory
  kTriton,  // grid, constexprs, warps and stages; the compiler decides the block
};

struct KindInfo {
  CandidateKind kind;
  std::string_view name;
  // Extensions of source files. Files that are written get the first.
  std::array<std::string_view, 4> extensions;
  // Language of a block of code in a prompt.
  std::string_view fence;
  LaunchForm launch_form = LaunchForm::kNone;
  // Sources in Python take no compiler flags and no #define.
  bool is_python = false;
  // Whether these candidates are only for tasks in Python, which also take device code.
  bool takes_tasks = false;
  // Text that occurs in sources of this kind. Empty: there is none.
  std::string_view mark = "";

  // Whether the source is device code and its launches are the candidate's data.
  constexpr bool has_launches() const { return launch_form != LaunchForm::kNone; }
  constexpr std::string_view extension() const { return extensions.front(); }
};

// If several kinds fit a source, the first counts.
inline constexpr std::array kCandidateKinds = {
    KindInfo{.kind = CandidateKind::kHostNative,
             .name = "host_native",
             .extensions = {".cc", ".cpp", ".cxx", ".cu"},
             .fence = "cpp"},
    KindInfo{.kind = CandidateKind::kDeviceCuda,
             .name = "device_cuda",
             .extensions = {".cu"},
             .fence = "cuda",
             .launch_form = LaunchForm::kCuda,
             .mark = "__global__"},
    KindInfo{.kind = CandidateKind::kDeviceTriton,
             .name = "device_triton",
             .extensions = {".py"},
             .fence = "python",
             .launch_form = LaunchForm::kTriton,
             .is_python = true,
             .mark = "import triton"},
    KindInfo{.kind = CandidateKind::kPython,
             .name = "python",
             .extensions = {".py"},
             .fence = "python",
             .is_python = true,
             .takes_tasks = true,
             .mark = "import torch"},
    KindInfo{.kind = CandidateKind::kDeviceTilelang,
             .name = "device_tilelang",
             .extensions = {".py"},
             .fence = "python",
             .is_python = true,
             .mark = "import tilelang"},
};

inline constexpr KindInfo kUnspecifiedKind = {.kind = CandidateKind::kUnspecified,
                                              .name = "unspecified",
                                              .extensions = {".cc"},
                                              .fence = "cpp"};

// kUnspecifiedKind for a number that is not in the table.
constexpr const KindInfo& KindInfoOf(CandidateKind kind) {
  for (const KindInfo& info : kCandidateKinds) {
    if (info.kind == kind) return info;
  }
  return kUnspecifiedKind;
}

// "device_cuda", ... or "unspecified".
constexpr std::string_view KindName(CandidateKind kind) { return KindInfoOf(kind).name; }

// nullopt: no kind has this name.
std::optional<CandidateKind> FindKind(std::string_view name);

// The kind of a source in Python, or in C++ and CUDA, that comes with launches or without.
CandidateKind KindOfSource(bool is_python, bool has_launches);

// The kind of a file without a description, by its name or extension: one without launches if any
// has the extension. nullopt: no kind has it.
std::optional<CandidateKind> KindOfFile(std::string_view file);

// Guesses the kind from the source alone.
CandidateKind GuessKind(std::string_view source);

// The names of the kinds that `fits` accepts, or of all, for messages.
std::vector<std::string> KindNames(bool (*fits)(const KindInfo& info) = nullptr);

// Each extension of a source file once.
std::vector<std::string> SourceExtensions();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_CANDIDATE_KIND_H_
