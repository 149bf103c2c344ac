#include "services/worker/cpu/peaks.h"

#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/roofline.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kLimitNs = 10'000'000'000;
// DLPack's code for floating-point types.
constexpr uint8_t kDlpackFloat = 2;
constexpr int64_t kScratchBytes = int64_t{64} << 20;
// Bytes that a copy reads and writes in total; the last is larger than the caches.
constexpr int64_t kWorkingSets[] = {32 << 10, 1 << 20, kScratchBytes};
constexpr size_t kResults = 5;

constexpr std::string_view kSource =
    R"cpp(#include <kernelcast/candidate.h>
#include <time.h>

          static double Now() {
            struct timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
          }

          // Bytes per second of the fastest of some copies. The first pass maps the pages.
          static double Copy(float* scratch, long working_set) {
            const long count = working_set / 2 / (long)sizeof(float);
            const float* __restrict from = scratch;
            float* __restrict to = scratch + count;
            const long passes = working_set < (4 << 20) ? (4 << 20) / working_set : 1;
            double best = 0;
            for (int round = 0; round < (passes > 1 ? 24 : 4); ++round) {
              const double start = Now();
              for (long pass = 0; pass < passes; ++pass) {
                for (long i = 0; i < count; ++i) to[i] = 0.5f * from[i];
                __asm__ volatile("" ::: "memory");
              }
              const double rate = (double)(passes * working_set) / (Now() - start);
              if (round > 0 && rate > best) best = rate;
            }
            return best;
          }

          template <class T>
          static double MultiplyAdd() {
            typedef T Vector __attribute__((vector_size(64)));
            constexpr int kAccumulators = 10;
            constexpr long kTurns = 20000;
            Vector sums[kAccumulators] = {};
            Vector factor = {};
            for (unsigned i = 0; i < 64 / sizeof(T); ++i) factor[i] = (T)0.999;
            __asm__ volatile("" : "+m"(factor));
            double best = 0;
            for (int round = 0; round < 12; ++round) {
              const double start = Now();
              for (long turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 10
                for (int k = 0; k < kAccumulators; ++k) sums[k] = sums[k] * factor + factor;
              }
              const double rate = 2.0 * kTurns * kAccumulators * (64 / sizeof(T)) / (Now() - start);
              if (rate > best) best = rate;
            }
            for (int k = 0; k < kAccumulators; ++k) __asm__ volatile("" ::"m"(sums[k]));
            return best;
          }

          extern "C" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor* outputs,
                                            int32_t, void*) {
            double* results = kc_data<double>(outputs[0]);
            float* scratch = kc_data<float>(outputs[1]);
            results[0] = Copy(scratch, 32 << 10);
            results[1] = Copy(scratch, 1 << 20);
            results[2] = Copy(scratch, outputs[1].shape[0] * (long)sizeof(float));
            results[3] = MultiplyAdd<float>();
            results[4] = MultiplyAdd<double>();
            return 0;
          }
    )cpp";

std::string SizeText(int64_t bytes) {
  return bytes < (1 << 20) ? absl::StrCat(bytes >> 10, " KiB") : absl::StrCat(bytes >> 20, " MiB");
}

}  // namespace

std::string_view CpuPeaksSource() { return kSource; }

absl::StatusOr<std::vector<DevicePeak>> MeasureCpuPeaks(const LoadableObject& object,
                                                        const RunnerOptions& options,
                                                        const Placement& placement,
                                                        TimingLease& lease,
                                                        const CancelToken& cancel) {
  constexpr int64_t kScratchAt = 4096;
  KC_ASSIGN_OR_RETURN(const TimingLease::Held held, lease.Acquire(cancel));
  KC_ASSIGN_OR_RETURN(const MemoryFile inputs,
                      MemoryFile::Create("kernelcast-peaks", 1, MemoryFile::Sharing::kReadOnly));
  KC_ASSIGN_OR_RETURN(const MemoryFile outputs,
                      MemoryFile::Create("kernelcast-peaks", kScratchAt + kScratchBytes,
                                         MemoryFile::Sharing::kReadWrite));
  runner::CaseRecord call{};
  call.outputs = 2;
  call.tensors[0] = {.offset = 0,
                     .bytes = kResults * sizeof(double),
                     .dlpack_code = kDlpackFloat,
                     .dlpack_bits = 64,
                     .dimensions = 1,
                     .reserved = 0,
                     .shape = {kResults}};
  call.tensors[1] = {.offset = kScratchAt,
                     .bytes = kScratchBytes,
                     .dlpack_code = kDlpackFloat,
                     .dlpack_bits = 32,
                     .dimensions = 1,
                     .reserved = 0,
                     .shape = {kScratchBytes / 4}};
  KC_ASSIGN_OR_RETURN(const auto process, RunnerProcess::Start(options, placement, object,
                                                               {&call, 1}, inputs, outputs));
  RunnerProcess::End end = process->WaitReady(kLimitNs, cancel);
  if (end == RunnerProcess::End::kDone) {
    end = process->Call(runner::kRun, 0, false, kLimitNs, cancel).end;
  }
  KC_RETURN_IF_ERROR(cancel.Check());
  if (end != RunnerProcess::End::kDone) {
    return absl::UnavailableError("the process that measures peaks ended early");
  }
  std::array<double, kResults> rates{};
  std::memcpy(rates.data(), outputs.Span(0, sizeof(rates)).data(), sizeof(rates));
  for (const double rate : rates) {
    if (!(rate > 0) || !std::isfinite(rate)) {
      return absl::UnavailableError("the process that measures peaks gave no number");
    }
  }
  std::vector<DevicePeak> peaks;
  for (size_t i = 0; i < std::size(kWorkingSets); ++i) {
    const bool last = i + 1 == std::size(kWorkingSets);
    peaks.push_back({.name = std::string(kMemoryPeak),
                     .per_second = rates[i],
                     .source = PeakSource::kMeasured,
                     .detail = absl::StrCat("copy on one core, ", SizeText(kWorkingSets[i]),
                                            " read and written"),
                     .working_set_bytes = last ? 0 : kWorkingSets[i]});
  }
  for (const auto& [name, rate] :
       {std::pair{"float32", rates[3]}, std::pair{"float64", rates[4]}}) {
    peaks.push_back({.name = name,
                     .per_second = rate,
                     .source = PeakSource::kMeasured,
                     .detail = "multiply-adds on one core in the widest vectors"});
  }
  return peaks;
}

}  // namespace kernelcast::worker
