#include "services/cli/core/cuda_checks.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {
namespace {

using Json = nlohmann::ordered_json;

// Returns a field of an object, or a default if it is missing or of another type.
std::string Text(const Json& object, const char* key) { return OneLine(StringAt(object, key)); }
double Number(const Json& object, const char* key, double otherwise = 0) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}
bool IsTrue(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}
Json Object(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : Json::object();
}
Json List(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : Json::array();
}
std::vector<std::string> Texts(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& entry : list) {
    if (entry.is_string()) {
      texts.push_back(OneLine(entry.get<std::string>()));
    }
  }
  return texts;
}

Check OfDriver(const Json& report, size_t gpus) {
  const Json driver = Object(report, "driver");
  const std::string version = Text(driver, "version");
  const std::string cuda = Text(driver, "cuda_version");
  const std::string shown =
      absl::StrCat(version.empty() ? "NVIDIA driver" : absl::StrCat("NVIDIA driver ", version),
                   cuda.empty() ? "" : absl::StrCat(", for CUDA up to ", cuda));
  if (!IsTrue(driver, "found")) {
    const std::string why = Text(driver, "error");
    return {"gpu driver", Verdict::kNote,
            cuda.empty()
                ? "none, so no candidate is measured on a GPU; install NVIDIA's driver to do so"
                : absl::StrCat(shown, ", but it does not work: ", why)};
  }
  if (gpus == 0) {
    return {"gpu driver", Verdict::kNote, shown + ", but no GPU that this process may use"};
  }
  return {"gpu driver", Verdict::kGood, shown};
}

Check OfGpu(const Json& gpu, size_t index) {
  std::string detail =
      absl::StrCat(Text(gpu, "name"), ", ", Text(gpu, "architecture"), ", ",
                   FormatBytes(Number(gpu, "memory_bytes")), ", ",
                   FormatNumber(Number(gpu, "multiprocessors")), " multiprocessors");
  if (const double clock = Number(gpu, "max_clock_mhz"); clock > 0) {
    absl::StrAppend(&detail, ", ", FormatNumber(Number(gpu, "clock_mhz")), " of ",
                    FormatNumber(clock), " MHz");
  }
  if (const double celsius = Number(gpu, "temperature_celsius"); celsius > 0) {
    absl::StrAppend(&detail, ", ", FormatNumber(celsius), " C");
  }
  absl::StrAppend(&detail, ", ", Text(gpu, "uuid"));

  std::vector<std::string> concerns;
  if (IsTrue(gpu, "mig")) {
    concerns.emplace_back("it is divided (MIG), and its parts disturb each other's timing");
  }
  const Json processes = List(gpu, "processes");
  if (!processes.empty()) {
    double bytes = 0;
    for (const Json& process : processes) {
      bytes += process.is_object() ? Number(process, "memory_bytes") : 0;
    }
    concerns.push_back(absl::StrCat(
        processes.size(), processes.size() == 1 ? " process computes" : " processes compute",
        " on it", bytes > 0 ? absl::StrCat(" with ", FormatBytes(bytes)) : "",
        "; other work widens intervals"));
  }
  if (const auto reasons = Texts(List(gpu, "clock_reasons")); !reasons.empty()) {
    concerns.push_back(absl::StrCat("its clocks are throttled: ", Join(reasons, ", ")));
  }
  if (!concerns.empty()) {
    absl::StrAppend(&detail, "; ", Join(concerns, "; "));
  }
  return {absl::StrCat("gpu ", index), concerns.empty() ? Verdict::kGood : Verdict::kNote, detail};
}

Check OfTool(const Json& report, const char* name, const std::string& use,
             const std::string& remedy) {
  const Json tool = Object(report, name);
  if (IsTrue(tool, "found")) {
    const std::string version = Text(tool, "version");
    return {name, Verdict::kGood,
            absl::StrCat(version.empty() ? "" : version + ", ", Text(tool, "path"))};
  }
  return {name, Verdict::kNote,
          absl::StrCat("not found (", Text(tool, "error"), "); ", use, "; ", remedy)};
}

}  // namespace

std::vector<Check> CudaChecks(std::string_view probe_output) {
  const Json report = ParseBoundedJson<Json>(probe_output);
  if (!report.is_object()) {
    return {{"gpu driver", Verdict::kNote,
             absl::StrCat("kernelcast-cuda-probe failed: ", OneLine(probe_output.substr(0, 300)))}};
  }
  const Json gpus = List(report, "gpus");
  std::vector<Check> checks = {OfDriver(report, gpus.size())};
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].is_object()) {
      checks.push_back(OfGpu(gpus[i], i));
    }
  }
  Check nvrtc = OfTool(report, "nvrtc", "device CUDA cannot be compiled without it",
                       "pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl brings "
                       "it to the environment of --python, scripts/setup.sh to a checkout; or set "
                       "CUDA_HOME to a toolkit of CUDA 12.8 or later");
  const auto architectures = Texts(List(Object(report, "nvrtc"), "architectures"));
  if (!architectures.empty()) {
    absl::StrAppend(&nvrtc.detail, ", for ", architectures.front(), " to ", architectures.back());
  }
  checks.push_back(std::move(nvrtc));
  if (const Json found = Object(report, "nvrtc");
      IsTrue(found, "found") && !IsTrue(found, "cccl")) {
    const std::string release = Text(found, "version");
    checks.push_back(
        {"cccl", Verdict::kNote,
         absl::StrCat("not among the headers in ", Text(found, "headers"),
                      "; device CUDA that includes cub, thrust or most headers of the "
                      "standard library does not compile; pip install 'nvidia-cuda-cccl",
                      release.starts_with("12.") ? "-cu12" : "", "==", release, ".*' brings it")});
  }
  // The rest is useful only with GPUs.
  if (gpus.empty()) {
    return checks;
  }
  checks.push_back(OfTool(report, "nvcc", "host-launched candidates for cuda need it",
                          "install NVIDIA's CUDA toolkit and set CUDA_HOME"));
  checks.push_back(OfTool(report, "cupti", "hardware counters are not read without it",
                          "install NVIDIA's CUDA toolkit and set CUDA_HOME"));
  const Json counters = Object(report, "counters");
  const bool permitted = IsTrue(counters, "permitted");
  checks.push_back(
      {"gpu counters", permitted ? Verdict::kGood : Verdict::kNote,
       absl::StrCat(Text(counters, "reason"), IsTrue(counters, "restricted")
                                                  ? "; to allow it, load the nvidia module with "
                                                    "NVreg_RestrictProfilingToAdminUsers=0"
                                                  : "")});
  return checks;
}

}  // namespace kernelcast::cli
