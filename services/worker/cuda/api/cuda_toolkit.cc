#include "services/worker/cuda/api/cuda_toolkit.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>

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

std::string FindFolderWith(const std::vector<fs::path>& folders, const char* file) {
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / file, ignored)) {
      return folder.string();
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> CudaHomes(const std::string& home, const std::string& program_folder) {
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
  return homes;
}

absl::StatusOr<CudaToolkit> FindCudaToolkit(const std::vector<std::string>& homes) {
  std::string complaints;
  for (const std::string& home : homes) {
    std::error_code ignored;
    const fs::path root = fs::absolute(home, ignored);  // programs start in other folders
    const std::vector<fs::path> libraries = {root / "lib64", root / "lib",
                                             root / "targets/x86_64-linux/lib",
                                             root / "lib/x86_64-linux-gnu"};
    CudaToolkit toolkit;
    toolkit.home = root.string();
    toolkit.nvrtc_library = FindLibrary(libraries, "libnvrtc.so");
    if (toolkit.nvrtc_library.empty()) {
      absl::StrAppend(&complaints, complaints.empty() ? "" : "; ", home, ": no libnvrtc.so");
      continue;
    }
    toolkit.nvrtc_builtins =
        FindLibrary({fs::path(toolkit.nvrtc_library).parent_path()}, "libnvrtc-builtins.so");
    toolkit.include_directory =
        FindFolderWith({root / "include", root / "targets/x86_64-linux/include"}, "cuda_fp16.h");
    if (toolkit.nvrtc_builtins.empty() || toolkit.include_directory.empty()) {
      absl::StrAppend(&complaints, complaints.empty() ? "" : "; ", home, ": libnvrtc, but no ",
                      toolkit.nvrtc_builtins.empty() ? "libnvrtc-builtins.so next to it"
                                                     : "include/cuda_fp16.h");
      continue;
    }
    if (const std::string bin = FindFolderWith({root / "bin"}, "nvcc"); !bin.empty()) {
      toolkit.nvcc = absl::StrCat(bin, "/nvcc");
    }
    std::vector<fs::path> with_extras = libraries;
    with_extras.push_back(root / "extras/CUPTI/lib64");
    toolkit.cupti_library = FindLibrary(with_extras, "libcupti.so");
    toolkit.cublas_library = FindLibrary(libraries, "libcublas.so");
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
