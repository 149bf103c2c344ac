// The runner's profiling commands: kTrace and kCount.

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>

#include "services/worker/cuda/runner/records.h"
#include "services/worker/cuda/runner/runner.h"

namespace kernelcast::worker::cuda_runner {
namespace {

constexpr uint32_t kMaxTracedCalls = 4096;

// After a flush the cache is full of unwritten words, whose write-back would be charged to the
// call. This kernel reads `n` quadruples of words and writes nothing.
constexpr const char* kSweepPtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry sweep(.param .u64 from, .param .u64 n)
{
  .reg .pred %p<3>;
  .reg .b32 %r<10>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [n];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mad.wide.u32 %rd3, %r1, %r2, 0;
  cvt.u64.u32 %rd4, %r3;
  add.u64 %rd3, %rd3, %rd4;
  mul.wide.u32 %rd5, %r4, %r2;
  mov.u32 %r9, 0;
next:
  setp.ge.u64 %p1, %rd3, %rd2;
  @%p1 bra done;
  shl.b64 %rd6, %rd3, 4;
  add.u64 %rd7, %rd1, %rd6;
  ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd7];
  xor.b32 %r9, %r9, %r5;
  xor.b32 %r9, %r9, %r6;
  xor.b32 %r9, %r9, %r7;
  xor.b32 %r9, %r9, %r8;
  add.u64 %rd3, %rd3, %rd5;
  bra next;
done:
  setp.ne.u64 %p2, %rd2, 0;
  @%p2 bra end;
  st.global.u32 [%rd1], %r9;
end:
  ret;
}
)";
constexpr unsigned int kSweepBlocks = 512;
constexpr unsigned int kSweepThreads = 1024;

void SetReason(const absl::Status& status, char (&reason)[kReasonBytes]) {
  std::snprintf(reason, sizeof(reason), "%s", std::string(status.message()).c_str());
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// "void add<float>(float*)" of the compiler's name; others stay as they are.
std::string Demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return text == nullptr ? name : text.get();
}

// Summarises `calls` calls, whose kernels ran in the same order each time.
void Summarise(const std::vector<KernelRun>& runs, uint32_t calls, TraceReport& report) {
  std::vector<std::vector<double>> durations;
  for (const KernelRun& run : runs) {
    TracedKernel kernel{};
    std::snprintf(kernel.name, sizeof(kernel.name), "%s", Demangled(run.name).c_str());
    kernel.registers = run.registers;
    kernel.static_shared_bytes = run.static_shared_bytes;
    kernel.dynamic_shared_bytes = run.dynamic_shared_bytes;
    TracedKernel* const end = report.kernel + report.kernels;
    TracedKernel* found = std::find_if(report.kernel, end, [&](const TracedKernel& other) {
      return std::strcmp(other.name, kernel.name) == 0 &&
             other.dynamic_shared_bytes == kernel.dynamic_shared_bytes;
    });
    if (found == end) {
      if (report.kernels == kMaxTracedKernels) continue;
      *found = kernel;
      ++report.kernels;
      durations.emplace_back();
    }
    durations[static_cast<size_t>(found - report.kernel)].push_back(run.duration_ns);
  }
  for (uint32_t i = 0; i < report.kernels; ++i) {
    report.kernel[i].launches = static_cast<double>(durations[i].size()) / calls;
    report.kernel[i].median_ns = Median(durations[i]);
  }
  std::vector<double> sums(calls);
  for (size_t i = 0; i < runs.size(); ++i) sums[i * calls / runs.size()] += runs[i].duration_ns;
  report.call_ns = Median(std::move(sums));
}

// Mean over kernels, weighted by their time. NaN if one has no value.
template <class Value>
double Mean(const std::vector<std::vector<double>>& kernels, const Value& value) {
  double sum = 0;
  double weights = 0;
  for (const std::vector<double>& kernel : kernels) {
    sum += kernel[kKernelNs] * value(kernel);
    weights += kernel[kKernelNs];
  }
  return weights > 0 ? sum / weights : std::numeric_limits<double>::quiet_NaN();
}

void Summarise(const CounterValues& values, CountReport& report) {
  report.passes = values.passes;
  for (size_t i = 0; i < kCounterMetrics.size(); ++i) {
    const CounterMetric& counter = kCounterMetrics[i];
    const auto at = [i](const std::vector<double>& kernel) { return kernel[i]; };
    const double value = counter.sums
                             ? std::transform_reduce(values.kernels.begin(), values.kernels.end(),
                                                     0.0, std::plus<>(), at)
                             : Mean(values.kernels, at);
    report.values[i] = counter.scale * value;
  }
  for (size_t i = 0; i < kStallReasons.size(); ++i) {
    report.stalls[i] = Mean(values.kernels, [i](const std::vector<double>& kernel) {
      const double all = kernel.back();
      return all > 0 ? kernel[kCounterMetrics.size() + i] / all : 0;
    });
  }
}

}  // namespace

bool Runner::WriteReport(std::span<const std::byte> report, int fd) {
  for (size_t done = 0; done < report.size();) {
    const ssize_t written =
        pwrite(fd, report.data() + done, report.size() - done, static_cast<off_t>(done));
    if (written <= 0) {
      return Refuse("the report cannot be written");
    }
    done += static_cast<size_t>(written);
  }
  return true;
}

bool Runner::Trace(const Request& request, std::span<const std::byte> packet, int fd) {
  const auto runs = Records<RunRecord>(packet, sizeof(request), request.count);
  if (profiler_ == nullptr || fd < 0 || !runs || runs->size() != 1 || request.extra == 0 ||
      request.extra > kMaxTracedCalls) {
    return Refuse("kTrace");
  }
  ReadyProgram* const program = Find(runs->front().slot, runs->front().program);
  if (program == nullptr) {
    return false;
  }
  bool ok = true;
  const auto kernels = profiler_->Trace([&] {
    // Record events between calls, as in timing. Otherwise a kernel starts while its predecessor's
    // output is still being written to memory, and takes longer.
    for (uint32_t call = 0; call < request.extra && ok; ++call) {
      ok = Check(api_.EventRecord(events_[0], stream_), "cuEventRecord") && Enqueue(*program) &&
           Check(api_.EventRecord(events_[1], stream_), "cuEventRecord");
    }
    ok = Finish(ok, api_.CtxSynchronize());
    return ok;
  });
  if (!ok) {
    return false;
  }
  const auto report = std::make_unique<TraceReport>();
  if (!kernels.ok()) {
    SetReason(kernels.status(), report->unavailable);
  } else if (kernels->empty()) {
    SetReason(absl::UnavailableError("the profiler saw no kernel"), report->unavailable);
  } else {
    Summarise(*kernels, request.extra, *report);
  }
  return WriteReport(std::as_bytes(std::span(report.get(), 1)), fd);
}

bool Runner::LoadSweep() {
  CUfunction function = nullptr;
  if (api_.ModuleLoadData(&sweep_.module, kSweepPtx) != CUDA_SUCCESS ||
      api_.ModuleGetFunction(&function, sweep_.module, "sweep") != CUDA_SUCCESS) {
    return false;
  }
  sweep_.kernels = {function};
  return true;
}

bool Runner::Sweep() {
  uint64_t from = flush_;
  uint64_t quadruples = flush_bytes_ / 16;
  void* parameters[] = {&from, &quadruples};
  CUlaunchConfig config{};
  config.gridDimX = kSweepBlocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = kSweepThreads;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream_;
  return Check(api_.LaunchKernelEx(&config, sweep_.kernels.front(), parameters, nullptr),
               "cuLaunchKernelEx");
}

bool Runner::Count(const Request& request, std::span<const std::byte> packet, int fd) {
  const auto samples = Records<SampleRecord>(packet, sizeof(request), request.count);
  const auto poisons =
      samples ? Records<PoisonRecord>(
                    packet, sizeof(request) + samples->size() * sizeof(SampleRecord), request.extra)
              : std::nullopt;
  if (profiler_ == nullptr || fd < 0 || !poisons || samples->empty() ||
      samples->size() > kMaxSamples || poisons->size() > kMaxPoisons) {
    return Refuse("kCount");
  }
  std::vector<ReadyProgram*> programs;
  for (const SampleRecord& sample : *samples) {
    programs.push_back(Find(sample.slot, sample.program));
    if (programs.back() == nullptr) {
      return false;
    }
  }
  ReadyProgram& counted = *programs.back();
  programs.pop_back();
  // Without the sweep, counts of written data are slightly high.
  const bool sweeps = request.flushes != 0 && (!sweep_.kernels.empty() || LoadSweep());
  bool ok = true;
  const auto prepare = [&] {
    for (const PoisonRecord& poison : *poisons) ok = ok && Poison(poison);
    if (request.flushes != 0) {
      ok = ok &&
           Check(api_.MemsetD32Async(flush_, 0, flush_bytes_ / 4, stream_), "cuMemsetD32Async") &&
           (!sweeps || Sweep());
    }
    for (ReadyProgram* const before : programs) ok = ok && Enqueue(*before);
    ok = Finish(ok, api_.CtxSynchronize());
    return ok;
  };
  const auto call = [&] {
    ok = Enqueue(counted);
    ok = Finish(ok, api_.CtxSynchronize());
    return ok;
  };
  const auto kernels = std::ranges::count_if(
      counted.launches, [](const ReadyLaunch& launch) { return launch.function != nullptr; });
  const auto values =
      profiler_->Count(device_, context_, CounterMetricNames(),
                       std::max<size_t>(1, static_cast<size_t>(kernels)), prepare, call);
  if (!ok) {
    return false;
  }
  const auto report = std::make_unique<CountReport>();
  if (!values.ok()) {
    SetReason(values.status(), report->unavailable);
  } else if (values->kernels.empty()) {
    SetReason(absl::UnavailableError("the profiler counted over no kernel"), report->unavailable);
  } else {
    Summarise(*values, *report);
  }
  return WriteReport(std::as_bytes(std::span(report.get(), 1)), fd);
}

}  // namespace kernelcast::worker::cuda_runner
