#include "services/orchestrator/generator/profile_text.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"
#include "common/prompt/prompt_text.h"
#include "common/prompt/unified_diff.h"

namespace kernelcast::orchestrator {
namespace {

constexpr size_t kMaxShapes = 4;
constexpr size_t kMaxStalls = 5;
constexpr size_t kMaxKernels = 8;
// A resource that is used to this share bounds the kernel.
constexpr double kBusy = 0.6;
// Calls that spend this share of their time on launching are bound by it.
constexpr double kLaunchShare = 0.3;

std::string Percent(double share) { return absl::StrCat(NumberText(100 * share, 3), "%"); }
std::string Microseconds(double ns) { return absl::StrCat(NumberText(ns / 1000, 4), " us"); }

struct CounterWords {
  std::string_view name;
  const char* words;
  bool is_share;
};
constexpr CounterWords kCounters[] = {
    {"dram_throughput_ratio", "DRAM throughput", true},
    {"memory_throughput_ratio", "memory system throughput", true},
    {"sm_throughput_ratio", "multiprocessor throughput", true},
    {"tensor_pipe_ratio", "tensor cores active", true},
    {"issue_active_ratio", "cycles in which an instruction was issued", true},
    {"achieved_occupancy_ratio", "occupancy", true},
    {"l1_hit_ratio", "L1 hits", true},
    {"l2_hit_ratio", "L2 hits", true},
    {"dram_read_bytes", "bytes read from DRAM", false},
    {"dram_written_bytes", "bytes written to DRAM", false},
    {"instructions", "instructions of warps", false},
};
// The bytes that one request moves, from two counters.
struct RatioWords {
  const char* dividend;
  const char* divisor;
  const char* words;
};
constexpr RatioWords kRatios[] = {
    {"global_load_sectors", "global_load_requests",
     "sectors of 32 bytes per global load of a warp"},
    {"global_store_sectors", "global_store_requests",
     "sectors of 32 bytes per global store of a warp"},
};
constexpr std::pair<std::string_view, const char*> kResources[] = {
    {"dram_throughput_ratio", "DRAM"},
    {"memory_throughput_ratio", "the memory system"},
    {"sm_throughput_ratio", "the multiprocessors"},
    {"tensor_pipe_ratio", "the tensor cores"},
};

bool HasCounters(const ShapeTiming& timing) {
  return timing.profile && !timing.profile->counters.empty();
}

// "Bound by DRAM, which is used to 83%.", or empty if nothing says so.
std::string BoundText(const ShapeTiming& timing) {
  const double ns = timing.candidate.median_ns;
  if (ns > 0 && timing.call_overhead_ns > kLaunchShare * ns) {
    return absl::StrCat("Bound by launching: an empty call takes ",
                        Microseconds(timing.call_overhead_ns), ".");
  }
  if (HasCounters(timing)) {
    const char* busiest = nullptr;
    double most = 0;
    for (const auto& [counter, words] : kResources) {
      const auto found = timing.profile->counters.find(std::string(counter));
      if (found == timing.profile->counters.end() || found->second <= most) continue;
      most = found->second;
      busiest = words;
    }
    if (busiest == nullptr) return "";
    return most >= kBusy ? absl::StrCat("Bound by ", busiest, ", used to ", Percent(most), ".")
                         : absl::StrCat("Bound by latency: nothing is used to more than ",
                                        Percent(most), " (", busiest, ").");
  }
  if (!timing.roofline || timing.roofline->ratio <= 0) return "";
  const char* peak =
      timing.roofline->bound == Roofline::Bound::kMemory ? "memory bandwidth" : "arithmetic";
  if (1 / timing.roofline->ratio >= kBusy) return absl::StrCat("Bound by ", peak, ".");
  return absl::StrCat("Not bound by ", peak,
                      " yet: latency, instructions or traffic beyond the least come first.");
}

std::string CountersText(const ShapeProfile& profile) {
  std::string text;
  const auto add = [&text](const std::string& words) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", words);
  };
  for (const CounterWords& shown : kCounters) {
    const auto found = profile.counters.find(std::string(shown.name));
    if (found == profile.counters.end()) continue;
    add(absl::StrCat(shown.words, " ",
                     shown.is_share ? Percent(found->second) : NumberText(found->second, 4)));
  }
  for (const RatioWords& shown : kRatios) {
    const auto dividend = profile.counters.find(shown.dividend);
    const auto divisor = profile.counters.find(shown.divisor);
    if (dividend == profile.counters.end() || divisor == profile.counters.end()) continue;
    if (divisor->second <= 0) continue;
    add(absl::StrCat(shown.words, " ", NumberText(dividend->second / divisor->second, 3)));
  }
  return text;
}

std::string StallsText(const ShapeProfile& profile) {
  std::string text;
  for (size_t i = 0; i < std::min(profile.stall_reasons.size(), kMaxStalls); ++i) {
    const StallReason& stall = profile.stall_reasons[i];
    absl::StrAppend(&text, text.empty() ? "" : ", ", Inline(stall.reason), " ",
                    Percent(stall.share));
  }
  return text;
}

std::string KernelsText(const ShapeProfile& profile) {
  std::string text;
  for (size_t i = 0; i < std::min(profile.kernels.size(), kMaxKernels); ++i) {
    const KernelActivity& kernel = profile.kernels[i];
    absl::StrAppend(&text, text.empty() ? "" : "; ", Inline(kernel.name), " ",
                    Microseconds(kernel.median_ns), ", ", kernel.registers, " registers, ",
                    kernel.static_shared_bytes + kernel.dynamic_shared_bytes,
                    " bytes of shared memory");
    if (kernel.launches > 1) {
      absl::StrAppend(&text, ", ", NumberText(kernel.launches, 3), " launches");
    }
  }
  return text;
}

std::string ShapeText(const ShapeTiming& timing) {
  std::string text = "- ";
  if (!timing.shape.empty()) absl::StrAppend(&text, "At ", AxisText(timing.shape), ": ");
  absl::StrAppend(&text, Microseconds(timing.candidate.median_ns));
  if (timing.roofline && timing.roofline->ratio > 0) {
    const Roofline& roofline = *timing.roofline;
    absl::StrAppend(&text, ". The roofline of this device is ", Microseconds(roofline.time_ns),
                    ", by its ", roofline.bound == Roofline::Bound::kMemory ? "memory" : "compute",
                    " peak ", Inline(roofline.peak), ". The kernel takes ",
                    NumberText(roofline.ratio, 3), " times as long, and so reaches ",
                    Percent(1 / roofline.ratio), " of it");
  }
  text += '.';
  if (const std::string bound = BoundText(timing); !bound.empty()) {
    absl::StrAppend(&text, " ", bound);
  }
  text += '\n';
  if (!timing.profile) return text;
  for (const auto& [title, words] :
       {std::pair("Why warps waited, in shares of their time", StallsText(*timing.profile)),
        std::pair("Counters", CountersText(*timing.profile)),
        std::pair("Kernels", KernelsText(*timing.profile))}) {
    if (!words.empty()) absl::StrAppend(&text, "  - ", title, ": ", words, ".\n");
  }
  return text;
}

double Distance(const ShapeTiming* timing) {
  return timing->roofline ? -timing->roofline->ratio : 0;
}

}  // namespace

std::string ProfileText(const Attempt* kernel, const CompileFacts& reference_facts) {
  std::string text;
  bool counted = false;
  if (kernel != nullptr && kernel->measured != nullptr) {
    std::vector<const ShapeTiming*> shapes;
    for (const ShapeTiming& timing : kernel->measured->shapes) shapes.push_back(&timing);
    std::ranges::stable_sort(shapes, {}, Distance);
    counted = !shapes.empty();
    for (size_t i = 0; i < std::min(shapes.size(), kMaxShapes); ++i) {
      text += ShapeText(*shapes[i]);
      counted = counted && HasCounters(*shapes[i]);
    }
    const std::string& reason = kernel->measured->environment.counters_unavailable_reason;
    if (!counted && !reason.empty()) {
      absl::StrAppend(&text, "- No hardware counters: ", Inline(reason), "\n");
    }
  }
  const CompileFacts& facts = kernel == nullptr ? reference_facts : kernel->facts;
  if (!counted && !facts.simulations.empty()) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", "Simulation:\n\n",
                    SimulationText(facts, kernel == nullptr ? CompileFacts() : reference_facts));
  }
  return text.empty() ? "Not known.\n" : text;
}

std::string ChangeText(const Attempt& kernel, const Attempt& parent, size_t max_bytes) {
  if (!(kernel.speedup > parent.speedup) || !(parent.speedup > 0)) return "";
  const UnifiedDiff diff =
      MakeUnifiedDiff(parent.candidate.source, kernel.candidate.source, max_bytes);
  if (diff.removed + diff.added == 0) return "";
  std::string text =
      absl::StrCat("This change made it ", NumberText(kernel.speedup / parent.speedup, 4),
                   " times as fast as the kernel that it was made from (",
                   NumberText(parent.speedup, 4), " times as fast as the reference before, ",
                   NumberText(kernel.speedup, 4), " after):\n\n", Fenced(diff.text, "diff"));
  if (diff.cut_lines > 0) {
    absl::StrAppend(&text, "\n", diff.cut_lines, " more lines of the change are left out.\n");
  }
  return text;
}

}  // namespace kernelcast::orchestrator
