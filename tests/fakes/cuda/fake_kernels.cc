#include "tests/fakes/cuda/fake_kernels.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/domain/problem.h"
#include "services/worker/core/draw_plan.h"
#include "services/worker/core/verification.h"
#include "services/worker/cuda/judge/judge_kernels.h"

namespace kernelcast::testing {
namespace {

struct Fault {
  CUresult lost;
};
struct LaunchError {
  CUresult error;
};

class Parameters {
 public:
  Parameters(FakeCuda& cuda, void** values) : cuda_(cuda), values_(values) {}

  template <class T>
  T Get(size_t index) const {
    T value;
    std::memcpy(&value, values_[index], sizeof(T));
    return value;
  }
  std::byte* Memory(CUdeviceptr address, int64_t bytes, bool to_write) const {
    std::byte* const memory = cuda_.Memory(address, static_cast<size_t>(bytes), to_write);
    if (memory == nullptr) throw Fault{CUDA_ERROR_ILLEGAL_ADDRESS};
    return memory;
  }

 private:
  FakeCuda& cuda_;
  void** const values_;
};

template <class T>
T* As(std::byte* memory) {
  return reinterpret_cast<T*>(memory);
}

double Jitter(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<double>(state >> 11) * 0x1.0p-53 - 0.5;
}

// Whether this is the first call with this number, of all processes: it creates a file.
bool IsFirst(double number) {
  const std::string path = absl::StrCat("/dev/shm/kernelcast-once-", static_cast<int64_t>(number));
  const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

template <class Value>
void Affine(FakeKernel& kernel, FakeCuda& cuda, const Parameters& parameters) {
  const auto x = parameters.Get<CUdeviceptr>(0);
  const auto y = parameters.Get<CUdeviceptr>(1);
  const auto n = parameters.Get<int64_t>(2);
  const int64_t bytes = n * static_cast<int64_t>(sizeof(Value));
  const int64_t in_bytes = n * static_cast<int64_t>(sizeof(float));
  const int call = kernel.calls[n]++;
  const bool odd = call >= kernel.Option("from");
  const auto does = [&](std::string_view option) { return odd && kernel.Option(option) != 0; };
  if (does("launch_error")) throw LaunchError{static_cast<CUresult>(kernel.Option("launch_error"))};
  if (does("fault")) throw Fault{static_cast<CUresult>(kernel.Option("fault"))};
  if (does("hang")) {
    for (;;) pause();
  }
  if (does("exit")) _exit(3);

  const uint32_t found = std::exchange(cuda.shared_word, 0);
  const float shared = std::bit_cast<float>(found);
  const bool unfilled = found == 0 && kernel.all_calls++ < kernel.Option("wants_fill");
  if (found != 0) ++kernel.all_calls;
  if (n == kernel.Option("fault_at_n", -1)) throw Fault{CUDA_ERROR_ILLEGAL_ADDRESS};
  if (n == kernel.Option("hang_at_n", -1)) {
    for (;;) pause();
  }

  std::byte* const in = parameters.Memory(x, in_bytes, false);
  std::byte* const out = parameters.Memory(y, bytes, true);
  if (does("write_input")) *parameters.Memory(x, 4, true) = std::byte{1};
  const std::vector<std::byte> content(in, in + in_bytes);
  const bool is_new = kernel.seen[x] != content;
  const bool is_changed = is_new && !kernel.seen[x].empty();
  kernel.seen[x] = content;

  for (int64_t i = 0; i < n && !does("skip"); ++i) {
    double value = kernel.Option("scale", 1) * As<const float>(in)[i] + kernel.Option("add");
    if (does("noise") && i % 2 == 0) value *= 1 + kernel.Option("noise");
    if (does("drift")) value *= 1 + kernel.Option("drift") * (getpid() % 32);
    if (does("wrong") || unfilled) value = value * 1.5 + 1;
    // Like fmaxf, which hides NaN.
    if (does("reads_shared") && shared > value) value = shared;
    if (does("adds_shared")) value += 0 * shared;
    // A GPU's sum has one NaN. The host's keeps bits of the fill, which can be those of the poison.
    if (does("nan") || (does("adds_shared") && std::isnan(value))) {
      value = std::numeric_limits<double>::quiet_NaN();
    }
    As<Value>(out)[i] = static_cast<Value>(value);
  }
  const auto [kept, first] = kernel.written.try_emplace(y, out, out + bytes);
  if (does("stale") && !first) std::copy(kept->second.begin(), kept->second.end(), out);
  if (does("beyond"))
    As<Value>(parameters.Memory(y + static_cast<uint64_t>(bytes), 8, true))[0] = 1;
  if (does("before")) As<Value>(parameters.Memory(y - 8, 8, true))[0] = 1;
  if (does("steal"))
    std::memcpy(out, parameters.Memory(cuda.InNextArena(y), bytes, false),
                static_cast<size_t>(bytes));
  if (does("spoil"))
    std::memset(parameters.Memory(cuda.InNextArena(y), bytes, true), 1, static_cast<size_t>(bytes));

  const double ns_new = kernel.Option("ns_new");
  const double ns = (is_new && ns_new > 0 ? ns_new : kernel.Option("ns")) +
                    kernel.Option("place_ns") * static_cast<double>((y >> 9) & 63);
  cuda.QueueWork(kernel.Option("leaves_ns"));
  double host_ns = odd ? kernel.Option("host_ns") : 0;
  const auto stall_every = static_cast<int>(kernel.Option("stall_every"));
  if (stall_every > 0 && call % stall_every == 0) host_ns += kernel.Option("stall_ns");
  const double once_ns =
      kernel.Option("once_ns") > 0 && is_changed && IsFirst(kernel.Option("once"))
          ? kernel.Option("once_ns")
          : 0;
  cuda.Work(ns * (1 + kernel.Option("jitter") * Jitter(kernel.jitter_state)) + once_ns, host_ns);
}

// The judge's own kernels, with the semantics of their CUDA source.

double Largest(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat64: return std::numeric_limits<double>::max();
    case DataType::kFloat32: return 3.4028235677973366e38;
    case DataType::kFloat16: return 65520;
    case DataType::kBfloat16: return 3.3961775292304601e38;
    default: return 61440;  // float8_e5m2
  }
}

void Describe(DataType dtype, const Parameters& parameters) {
  const auto n = parameters.Get<int64_t>(1);
  const bool wide = parameters.Get<int32_t>(3) != 0;
  std::byte* const values =
      parameters.Memory(parameters.Get<CUdeviceptr>(0), (wide ? 8 : 4) * n, true);
  auto* const statistics = As<worker::ExpectedStatistics>(
      parameters.Memory(parameters.Get<CUdeviceptr>(2), sizeof(worker::ExpectedStatistics), true));
  for (int64_t i = 0; i < n; ++i) {
    double value = wide ? As<double>(values)[i] : As<float>(values)[i];
    if (std::isnan(value)) {
      ++statistics->nan;
      continue;
    }
    if (dtype == DataType::kFloat8E4m3) {
      value = std::clamp(value, -448.0, 448.0);
    } else if (std::abs(value) >= Largest(dtype)) {
      value = value > 0 ? HUGE_VAL : -HUGE_VAL;
    }
    if (wide) {
      As<double>(values)[i] = value;
    } else {
      As<float>(values)[i] = static_cast<float>(value);
    }
    if (std::isinf(value)) continue;
    statistics->squares += value * value;
    ++statistics->finite;
  }
}

void Compare(DataType dtype, const Parameters& parameters) {
  const auto n = parameters.Get<int64_t>(2);
  const auto rule = parameters.Get<worker::ComparisonRule>(3);
  const auto poison = parameters.Get<uint32_t>(4);
  const auto size = static_cast<size_t>(SizeBytes(dtype));
  const bool wide = parameters.Get<int32_t>(6) != 0;
  const DataType kept_dtype = !IsFloat(dtype) ? dtype
                              : wide          ? DataType::kFloat64
                                              : DataType::kFloat32;
  const auto kept = static_cast<size_t>(SizeBytes(kept_dtype));
  const auto bytes = static_cast<size_t>(n) * size;
  const std::span<const std::byte> got(
      parameters.Memory(parameters.Get<CUdeviceptr>(0), static_cast<int64_t>(bytes), false), bytes);
  const std::span<const std::byte> expected(
      parameters.Memory(parameters.Get<CUdeviceptr>(1), n * static_cast<int64_t>(kept), false),
      static_cast<size_t>(n) * kept);
  auto* const result = As<worker::TensorComparison>(
      parameters.Memory(parameters.Get<CUdeviceptr>(5), sizeof(worker::TensorComparison), true));
  std::byte pattern[8];
  std::memcpy(pattern, &poison, 4);
  std::memcpy(pattern + 4, &poison, 4);
  for (int64_t i = 0; i < n; ++i) {
    const double g = worker::ElementAt(dtype, got, i);
    const double e = worker::ElementAt(kept_dtype, expected, i);
    bool agrees = (g == e && (rule.infinities == 0 || (rule.infinities == 1 && e < 0))) ||
                  (rule.nan_agrees != 0 && std::isnan(g) && std::isnan(e));
    result->nonzero += g != 0 ? 1 : 0;
    if (std::isfinite(g) && std::isfinite(e)) {
      const double error = std::abs(g - e);
      if (IsFloat(dtype)) result->error_squares += error * error;
      const double bound = rule.larger_of_both != 0
                               ? std::max(rule.absolute, rule.rtol * (std::abs(e) + 1e-8))
                               : rule.absolute + rule.rtol * std::abs(e);
      const bool beyond = rule.max_error > 0 && error > rule.max_error;
      agrees = error <= bound && !beyond;
      result->intolerable += beyond ? 1 : 0;
      if (agrees && IsFloat(dtype)) result->variation.Add(e, g);
    } else if (!agrees && (!std::isfinite(g) || rule.max_error > 0)) {
      ++result->intolerable;
    }
    if (agrees) continue;
    ++result->mismatches;
    result->first = std::min(result->first, static_cast<uint64_t>(i));
    const size_t at = static_cast<size_t>(i) * size;
    result->unwritten += std::memcmp(got.data() + at, pattern + at % 8, size) == 0 ? 1 : 0;
    result->non_finite += std::isfinite(g) ? 0 : 1;
  }
}

void CountChanged(const Parameters& parameters) {
  const auto n = parameters.Get<int64_t>(1);
  const auto* const words =
      As<const uint32_t>(parameters.Memory(parameters.Get<CUdeviceptr>(0), 4 * n, false));
  auto* const count = As<uint64_t>(parameters.Memory(parameters.Get<CUdeviceptr>(3), 8, true));
  const auto pattern = parameters.Get<uint32_t>(2);
  *count += static_cast<uint64_t>(
      std::count_if(words, words + n, [&](uint32_t word) { return word != pattern; }));
}

void Fingerprint(const Parameters& parameters) {
  const auto n = parameters.Get<int64_t>(1);
  const auto* const words =
      As<const uint64_t>(parameters.Memory(parameters.Get<CUdeviceptr>(0), 8 * n, false));
  auto* const sum = As<uint64_t>(parameters.Memory(parameters.Get<CUdeviceptr>(3), 8, true));
  const auto seed = parameters.Get<uint64_t>(2);
  for (int64_t i = 0; i < n; ++i) {
    *sum += (words[i] ^ (seed + static_cast<uint64_t>(i))) * 0x9e3779b97f4a7c15u;
  }
}

void Draw(const Parameters& parameters) {
  const DataType dtype = worker::NumberedType(parameters.Get<int32_t>(4));
  const int64_t bytes = parameters.Get<int64_t>(1) * SizeBytes(dtype);
  worker::DrawByCounter(
      dtype, parameters.Get<worker::DrawPlan>(3), parameters.Get<uint64_t>(2),
      {parameters.Memory(parameters.Get<CUdeviceptr>(0), bytes, true), static_cast<size_t>(bytes)});
}

void Alter(const Parameters& parameters) {
  const auto size = static_cast<size_t>(parameters.Get<int32_t>(3));
  const int64_t bytes = parameters.Get<int64_t>(2) * parameters.Get<int32_t>(3);
  const auto length = static_cast<size_t>(bytes);
  worker::AlterByCounter(size, parameters.Get<uint64_t>(4),
                         {parameters.Memory(parameters.Get<CUdeviceptr>(1), bytes, false), length},
                         {parameters.Memory(parameters.Get<CUdeviceptr>(0), bytes, true), length});
}

// One word of shared memory represents all of the filled memory.
void Hostile(FakeCuda& cuda, const std::string& name, const Parameters& parameters) {
  if (name != "hostile_shared") return;
  cuda.shared_word = parameters.Get<uint32_t>(0);
  ++*As<uint32_t>(parameters.Memory(parameters.Get<CUdeviceptr>(2), 4, true));
}

void Judge(FakeCuda& cuda, const std::string& name, const Parameters& parameters) {
  const size_t end = name.find('_');
  if (name.starts_with("hostile_")) return Hostile(cuda, name, parameters);
  if (name == "count_changed") return CountChanged(parameters);
  if (name == "fingerprint") return Fingerprint(parameters);
  if (name == "alter") return Alter(parameters);
  if (name.substr(0, end) == "draw") return Draw(parameters);
  const DataType dtype = ParseDataType(name.substr(end + 1)).value();
  return name[0] == 'd' ? Describe(dtype, parameters) : Compare(dtype, parameters);
}

std::vector<size_t> ParameterBytes(const FakeKernel& kernel) {
  if (kernel.function == "judge") {
    if (kernel.name == "count_changed") return {8, 8, 4, 8};
    if (kernel.name == "fingerprint") return {8, 8, 8, 8};
    if (kernel.name == "alter") return {8, 8, 8, 4, 8};
    if (kernel.name.substr(0, 5) == "draw_") return {8, 8, 8, sizeof(worker::DrawPlan), 4};
    if (kernel.name == "hostile_shared") return {4, 4, 8};
    if (kernel.name == "hostile_local") return {4, 4};
    if (kernel.name[0] == 'd') return {8, 8, 8};
    return {8, 8, 8, sizeof(worker::ComparisonRule), 4, 8};
  }
  std::vector<size_t> bytes = {8, 8, 8};
  if (kernel.Option("narrow") != 0) bytes[2] = 4;
  if (kernel.Option("extra_parameter") != 0) {
    bytes.push_back(static_cast<size_t>(kernel.Option("extra_parameter")));
  }
  return bytes;
}

}  // namespace

std::string FakeCubin(const std::vector<std::string>& kernels) {
  std::string cubin = "fake cubin\n";
  for (const std::string& kernel : kernels) absl::StrAppend(&cubin, "kernel ", kernel, "\n");
  return cubin + "end\n";
}

std::vector<std::string> FakeJudgeCubins() {
  std::vector<std::string> cubins;
  for (const worker::JudgeModule& module : worker::JudgeModules()) {
    std::vector<std::string> kernels;
    for (const std::string& name : module.kernels) kernels.push_back(name + " judge");
    cubins.push_back(FakeCubin(kernels));
  }
  return cubins;
}

double FakeKernel::Option(std::string_view option, double otherwise) const {
  const auto found = options.find(option);
  return found == options.end() ? otherwise : found->second;
}

CUresult FakeKernel::Run(FakeCuda& cuda, void** values, CUresult& lost) {
  const Parameters parameters(cuda, values);
  try {
    if (function == "judge") {
      Judge(cuda, name, parameters);
    } else if (function == "nothing") {
      cuda.Work(1000);
    } else if (Option("double") != 0) {
      Affine<double>(*this, cuda, parameters);
    } else {
      Affine<float>(*this, cuda, parameters);
    }
  } catch (const Fault& fault) {
    lost = fault.lost;
  } catch (const LaunchError& failed) {
    return failed.error;
  }
  return CUDA_SUCCESS;
}

std::optional<std::vector<std::unique_ptr<FakeKernel>>> ParseFakeCubin(std::string_view text) {
  constexpr std::string_view kEntry = ".entry ";
  if (const size_t entry = text.find(kEntry);
      text.substr(0, 8) == ".version" && entry != std::string_view::npos) {
    std::string_view name = text.substr(entry + kEntry.size());
    name = name.substr(0, name.find('('));
    std::vector<std::unique_ptr<FakeKernel>> kernels;
    kernels.push_back(std::make_unique<FakeKernel>());
    kernels.back()->name = name;
    kernels.back()->function = "nothing";
    kernels.back()->parameter_bytes = {8, 8};
    return kernels;
  }
  const size_t end = text.find("\nend\n");
  if (text.substr(0, 11) != "fake cubin\n" || end == std::string_view::npos) {
    return std::nullopt;
  }
  std::istringstream lines{std::string(text.substr(11, end - std::min<size_t>(end, 10)))};
  std::vector<std::unique_ptr<FakeKernel>> kernels;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    auto kernel = std::make_unique<FakeKernel>();
    if (!(words >> word >> kernel->name >> kernel->function) || word != "kernel" ||
        (kernel->function != "affine" && kernel->function != "judge")) {
      return std::nullopt;
    }
    while (words >> word) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) {
        return std::nullopt;
      }
      kernel->options[word.substr(0, equals)] = std::strtod(word.c_str() + equals + 1, nullptr);
    }
    kernel->parameter_bytes = ParameterBytes(*kernel);
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace kernelcast::testing
