// kernelcast-cuda-probe: prints what this machine has of CUDA as one JSON object. A separate
// program because it opens NVIDIA's libraries, which may be of any version and in any state.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>

#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/probe/machine.h"

int main(int argc, char** argv) {
  CLI::App app("Prints what this machine has of CUDA, as JSON.", "kernelcast-cuda-probe");
  std::string home;
  app.add_option(
      "--cuda-home", home,
      "Folder of the CUDA toolkit [KERNELCAST_CUDA_HOME, CUDA_HOME or the usual places]");
  std::string python;
  app.add_option("--python", python,
                 "Interpreter in whose environment NVIDIA's packages are searched");
  CLI11_PARSE(app, argc, argv);
  std::error_code ignored;
  const std::string folder =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
  const std::string report = kernelcast::worker::ToJson(
      kernelcast::worker::ReportMachine(kernelcast::worker::CudaHomes(home, folder, python)));
  return std::puts(report.c_str()) < 0 ? 1 : 0;
}
