#include "services/worker/cuda/api/cuda_toolkit.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the file with the highest version, among those in the folders that start with `prefix`.
std::string FindLibrary(const std::vector<fs::path>& folders, const std::string& prefix) {
  for (const fs::path& folder : folders) {
    fs::path best;
    int best_version = -1;
    std::error_code error;
    for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
      const std::string name = file.path().filename().string();
      if (name.rfind(prefix, 0) != 0) {
        continue;
      }
      // "13.0.88" for "libnvrtc.so.13.0.88". A plain ".so" is version 0.
      const std::string version = name.substr(prefix.size());
      if (!version.empty() &&
          (version[0] != '.' || version.find_first_not_of(".0123456789") != std::string::npos)) {
        continue;
      }
      const int number = version.empty() ? 0 : atoi(version.c_str() + 1);
      if (number > best_version || (number == best_version && file.path() < best)) {
        best = file.path();
        best_version = number;
      }
    }
    if (!best.empty()) {
      return best.string();
    }
  }
  return "";
}

// The oldest release of NVRTC that works.
constexpr std::pair<int, int> kOldestRelease = {12, 8};

enum class Part { kNvrtc, kHeaders, kMoreHeaders, kNvcc, kPtxas, kCupti, kCublas };

// Where the parts are in a home, best first. A home is the folder of a toolkit, or the folder of
// NVIDIA's packages for Python: site-packages/nvidia/cu13 for CUDA 13, and for CUDA 12
// site-packages/nvidia, with a folder for each package. Triton's package has parts, too.
constexpr std::pair<Part, const char*> kPlaces[] = {
    {Part::kNvrtc, "lib64"},
    {Part::kNvrtc, "lib"},
    {Part::kNvrtc, "targets/x86_64-linux/lib"},
    {Part::kNvrtc, "lib/x86_64-linux-gnu"},
    {Part::kNvrtc, "cuda_nvrtc/lib"},
    {Part::kHeaders, "include"},
    {Part::kHeaders, "targets/x86_64-linux/include"},
    {Part::kHeaders, "cuda_runtime/include"},
    {Part::kMoreHeaders, "cuda_nvcc/include"},
    {Part::kMoreHeaders, "cuda_cccl/include"},
    {Part::kMoreHeaders, "curand/include"},
    {Part::kMoreHeaders, "../triton/backends/nvidia/include"},
    {Part::kMoreHeaders, "../../triton/backends/nvidia/include"},
    {Part::kNvcc, "bin"},
    {Part::kPtxas, "bin"},
    {Part::kPtxas, "cuda_nvcc/bin"},
    {Part::kPtxas, "../triton/backends/nvidia/bin"},
    {Part::kPtxas, "../../triton/backends/nvidia/bin"},
    {Part::kCupti, "lib64"},
    {Part::kCupti, "lib"},
    {Part::kCupti, "targets/x86_64-linux/lib"},
    {Part::kCupti, "lib/x86_64-linux-gnu"},
    {Part::kCupti, "extras/CUPTI/lib64"},
    {Part::kCupti, "cuda_cupti/lib"},
    {Part::kCublas, "lib64"},
    {Part::kCublas, "lib"},
    {Part::kCublas, "targets/x86_64-linux/lib"},
    {Part::kCublas, "lib/x86_64-linux-gnu"},
    {Part::kCublas, "cublas/lib"},
};

std::vector<fs::path> FoldersOf(Part part, const fs::path& home) {
  std::vector<fs::path> folders;
  for (const auto& [which, folder] : kPlaces) {
    if (which == part) folders.push_back((home / folder).lexically_normal());
  }
  return folders;
}

std::string FindFolderWith(const std::vector<fs::path>& folders, const char* file) {
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / file, ignored)) {
      return folder.string();
    }
  }
  return "";
}

std::string FindProgram(Part part, const fs::path& home, const char* name) {
  const std::string folder = FindFolderWith(FoldersOf(part, home), name);
  return folder.empty() ? "" : absl::StrCat(folder, "/", name);
}

// {12, 4} for ".../libnvrtc-builtins.so.12.4"; nullopt for a name without a release.
std::optional<std::pair<int, int>> ReleaseOf(const std::string& builtins) {
  const std::string name = fs::path(builtins).filename().string();
  std::pair<int, int> release;
  const size_t at = name.find(".so.");
  if (at == std::string::npos ||
      sscanf(name.c_str() + at, ".so.%d.%d", &release.first, &release.second) != 2) {
    return std::nullopt;
  }
  return release;
}

// The subfolders of `folder` whose names are `prefix` and a number, the highest number first:
// python3.12 before python3.9.
std::vector<fs::path> Numbered(const fs::path& folder, std::string_view prefix) {
  std::vector<std::pair<int, fs::path>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::string number = name.substr(std::min(name.size(), prefix.size()));
    if (!name.starts_with(prefix) || number.empty() ||
        number.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    found.emplace_back(atoi(number.c_str()), entry.path());
  }
  std::ranges::sort(found, std::greater());
  std::vector<fs::path> folders;
  for (auto& [number, path] : found) folders.push_back(std::move(path));
  return folders;
}

// The folders of NVIDIA's packages in the environment of an interpreter. Debian's pip installs into
// /usr/local for /usr/bin/python3.
std::vector<fs::path> PackageHomes(const fs::path& python) {
  std::vector<fs::path> homes;
  if (!python.has_parent_path()) return homes;
  std::error_code ignored;
  const fs::path environment = fs::absolute(python, ignored).parent_path().parent_path();
  for (const fs::path& lib : {environment / "lib", environment / "local/lib"}) {
    for (const fs::path& version : Numbered(lib, "python3.")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        const fs::path nvidia = version / packages / "nvidia";
        for (const fs::path& home : Numbered(nvidia, "cu")) homes.push_back(home);
        if (fs::exists(nvidia, ignored)) homes.push_back(nvidia);
      }
    }
  }
  return homes;
}

}  // namespace

std::vector<std::string> CudaHomes(const std::string& home, const std::string& program_folder,
                                   const std::string& python) {
  const std::string only = home.empty() ? Variable("KERNELCAST_CUDA_HOME") : home;
  if (!only.empty()) {
    return {only};
  }
  std::vector<std::string> homes;
  const auto add = [&homes](const std::string& path) {
    if (!path.empty() && std::find(homes.begin(), homes.end(), path) == homes.end()) {
      homes.push_back(path);
    }
  };
  add(Variable("CUDA_HOME"));
  add(Variable("CUDA_PATH"));
  if (!program_folder.empty()) {
    add((fs::path(program_folder).parent_path() / "cuda").string());
  }
  const std::string searched = Variable("LD_LIBRARY_PATH");
  for (const auto folder : absl::StrSplit(searched, ':', absl::SkipEmpty())) {
    add(fs::path(std::string(folder)).lexically_normal().parent_path().string());
  }
  add("/usr/local/cuda");
  add("/usr");
  for (const fs::path& packages : PackageHomes(python)) add(packages.string());
  return homes;
}

absl::StatusOr<CudaToolkit> FindCudaToolkit(const std::vector<std::string>& homes) {
  std::string complaints;
  for (const std::string& home : homes) {
    std::error_code ignored;
    const fs::path root = fs::absolute(home, ignored);  // programs start in other folders
    CudaToolkit toolkit;
    toolkit.home = root.string();
    toolkit.nvrtc_library = FindLibrary(FoldersOf(Part::kNvrtc, root), "libnvrtc.so");
    const auto complain = [&](const std::string& what) {
      absl::StrAppend(&complaints, complaints.empty() ? "" : "; ", home, ": ", what);
    };
    if (toolkit.nvrtc_library.empty()) {
      complain("no libnvrtc.so");
      continue;
    }
    toolkit.nvrtc_builtins =
        FindLibrary({fs::path(toolkit.nvrtc_library).parent_path()}, "libnvrtc-builtins.so");
    toolkit.include_directory = FindFolderWith(FoldersOf(Part::kHeaders, root), "cuda_fp16.h");
    if (toolkit.nvrtc_builtins.empty() || toolkit.include_directory.empty()) {
      complain(absl::StrCat("libnvrtc, but no ", toolkit.nvrtc_builtins.empty()
                                                     ? "libnvrtc-builtins.so next to it"
                                                     : "include/cuda_fp16.h"));
      continue;
    }
    if (const auto release = ReleaseOf(toolkit.nvrtc_builtins);
        release && *release < kOldestRelease) {
      complain(absl::StrCat("CUDA ", release->first, ".", release->second, "; ",
                            kOldestRelease.first, ".", kOldestRelease.second,
                            " or later is needed"));
      continue;
    }
    for (const fs::path& folder : FoldersOf(Part::kMoreHeaders, root)) {
      if (fs::exists(folder, ignored)) {
        toolkit.more_include_directories.push_back(folder.string());
      }
    }
    toolkit.nvcc = FindProgram(Part::kNvcc, root, "nvcc");
    toolkit.ptxas = FindProgram(Part::kPtxas, root, "ptxas");
    toolkit.cupti_library = FindLibrary(FoldersOf(Part::kCupti, root), "libcupti.so");
    toolkit.cublas_library = FindLibrary(FoldersOf(Part::kCublas, root), "libcublas.so");
    toolkit.cublaslt_library =
        FindLibrary({fs::path(toolkit.cublas_library).parent_path()}, "libcublasLt.so");
    if (toolkit.cublaslt_library.empty()) {
      toolkit.cublas_library.clear();
    }
    return toolkit;
  }
  return absl::NotFoundError(complaints.empty() ? "no folder to look for the CUDA toolkit in"
                                                : complaints);
}

}  // namespace kernelcast::worker
