#include "services/worker/virtual_gpu/estimate/estimate.h"

#include <algorithm>
#include <cmath>

namespace kernelcast::worker::virtual_gpu {
namespace {

constexpr double kBytesPerSector = 32;
// Achievable share of the bandwidth in data sheets.
constexpr double kDramShare = 0.92;
// Exponent of the norm that combines the times of resources, which overlap, but not fully.
constexpr double kNorm = 4;
// Time of an empty launch, and until the first data arrives from DRAM.
constexpr double kLaunchNs = 2200;
constexpr double kFirstDataNs = 2000;
// Cycles of a block before its first and after its last instruction: of a block without memory
// accesses, of other blocks, and for each warp of those.
constexpr double kBlockCycles = 300;
constexpr double kMemoryBlockCycles = 280;
constexpr double kMemoryWarpCycles = 15;
// Time to start a block, and cycles of a multiprocessor to start a warp.
constexpr double kBlockStartNs = 0.605;
constexpr double kWarpStartCycles = 5.8;
// Atomics per cycle in the L2 cache.
constexpr double kAtomicsPerCycle = 40;
// Cycles per line of local memory in a request.
constexpr double kLocalLineCycles = 2.6;
// Until a block sees what another one wrote: a write and a read of the L2 cache, and their order.
constexpr double kPublishCycles = 1080;
// Concurrent reads relative to the size of the L2 cache up to which it holds all of them, and from
// which on it holds none until they are read again.
constexpr double kL2HoldsAll = 0.8;
constexpr double kL2HoldsNone = 1.3;
// Throughput of integer operations relative to the integer units, including the float32 units.
constexpr double kIntegerShare = 1.5;
// Bytes per cycle between a multiprocessor and the L2 cache.
constexpr double kL2PortBytes = 64;

double At(const std::array<double, kPipes>& pipes, Pipe pipe) {
  return pipes[static_cast<size_t>(pipe)];
}

double RoundUp(double value, double unit) { return std::ceil(value / unit) * unit; }

double BlocksThatFit(const GpuModel& gpu, double warps, const LaunchResources& resources) {
  double blocks = std::min<double>(gpu.max_blocks, std::floor(gpu.max_warps / warps));
  if (resources.registers > 0) {
    const double of_warp = RoundUp(static_cast<double>(resources.registers) * 32, 256);
    const double fit = std::floor(static_cast<double>(gpu.registers) / 4 / of_warp) * 4;
    blocks = std::min(blocks, std::floor(fit / warps));
  }
  const double shared = RoundUp(static_cast<double>(resources.shared_bytes) + 1024, 128);
  blocks = std::min(blocks, std::floor(static_cast<double>(gpu.shared_bytes) / shared));
  return std::max(1.0, blocks);
}

// Bytes of each region written by earlier launches.
using Written = std::array<double, kRegions>;

class LaunchEstimator {
 public:
  LaunchEstimator(const GpuModel& gpu, std::span<const BufferSpec> buffers,
                  const LaunchCounts& counts, const LaunchResources& resources, Written& written)
      : gpu_(gpu),
        buffers_(buffers),
        counts_(counts),
        c_(counts.counters),
        resources_(resources),
        written_(written) {}

  LaunchEstimate Run() {
    resident_ = BlocksThatFit(gpu_, std::max(1.0, counts_.warps), resources_);
    const double sms = gpu_.multiprocessors;
    const double per_sm = counts_.blocks / sms;
    // The busiest multiprocessor runs whole blocks.
    const double busiest = std::ceil(per_sm);
    used_ = counts_.blocks / busiest;  // equivalent number of fully loaded multiprocessors
    estimate_.blocks_per_multiprocessor = resident_;
    estimate_.waves = counts_.blocks / (sms * resident_);
    LocalMemory();
    Memory();
    Compute();
    Latency();
    Atomics();
    const auto bound = std::max_element(estimate_.ns.begin(), estimate_.ns.end());
    estimate_.bound = static_cast<Resource>(bound - estimate_.ns.begin());
    estimate_.total_ns = kLaunchNs + (estimate_.dram_bytes > 0 ? kFirstDataNs : 0) + Combined();
    return estimate_;
  }

 private:
  double Ns(Resource resource) const { return estimate_.ns[static_cast<size_t>(resource)]; }
  // Blocks wait for memory at the same times, so that waiting overlaps with the transfer of data
  // less than other work does.
  double Combined() const {
    const auto power = [](double ns) { return std::pow(ns, kNorm); };
    const double memory = std::hypot(
        std::pow(power(Ns(Resource::kDram)) + power(Ns(Resource::kL2)), 1 / kNorm), wait_ns_);
    double sum = power(memory) + power(start_ns_);
    for (size_t r = 0; r < estimate_.ns.size(); ++r) {
      const auto resource = static_cast<Resource>(r);
      const bool is_memory = resource == Resource::kDram || resource == Resource::kL2;
      if (!is_memory && resource != Resource::kLatency) sum += power(estimate_.ns[r]);
    }
    return std::pow(sum, 1 / kNorm);
  }
  void SetNs(Resource resource, double ns) { estimate_.ns[static_cast<size_t>(resource)] = ns; }
  // `cycles` of work spread over the multiprocessors in use.
  void SetCycles(Resource resource, double cycles) {
    SetNs(resource, cycles / used_ / gpu_.clock_hz * 1e9);
  }
  double BytesOf(size_t region) const {
    return region < buffers_.size() ? static_cast<double>(buffers_[region].bytes) : 1 << 16;
  }

  // Partially written sectors are read before they are written back, in half lines.
  double WrittenBytes(size_t region, double bytes) const {
    const double whole = std::min(c_.write_new[region] * kBytesPerSector, bytes);
    const double covered = whole > 0 ? std::min(1.0, c_.write_bytes[region] / whole) : 1;
    if (covered > 0.9) return whole;
    return std::max(2 * whole,
                    std::min(2 * c_.write_halves[region] * 2 * kBytesPerSector, 2 * bytes));
  }

  // Local memory traffic: accesses in the PTX, and registers spilled by ptxas. Each spilled
  // register is assumed to be written and read about as often as an instruction is executed.
  void LocalMemory() {
    const double spilled =
        std::max(0.0, (static_cast<double>(resources_.stack_bytes) - counts_.local_bytes) / 4);
    const double warps = std::max(1.0, counts_.blocks * counts_.warps);
    const double executed = c_.instructions / warps / std::max(1.0, counts_.static_instructions);
    const double spills = 2 * spilled * warps * std::max(1.0, executed);
    local_lines_ = c_.local_lines + spills;
    local_sectors_ = c_.local_sectors + 4 * spills;
    const double resident = std::min(resident_, std::ceil(counts_.blocks / gpu_.multiprocessors));
    const double footprint =
        resident * counts_.warps * 32 *
        std::max(static_cast<double>(resources_.stack_bytes), counts_.local_bytes);
    const double cache = std::max(
        16e3, gpu_.l1_bytes - resident_ * static_cast<double>(resources_.shared_bytes + 1024));
    local_misses_ = local_lines_ > 0 ? 1 - std::min(1.0, cache / std::max(1.0, footprint)) : 0;
  }

  // Share of what blocks read again that is still in the L2 cache. `read` is in sectors, the first
  // ones of each block.
  double HeldByL2(double unique_bytes, double read) const {
    const double running = std::min(counts_.blocks, resident_ * gpu_.multiprocessors);
    const double bytes =
        std::min(unique_bytes, read * kBytesPerSector * running / std::max(1.0, counts_.blocks));
    const double full = bytes / gpu_.l2_bytes;
    return std::clamp((kL2HoldsNone - full) / (kL2HoldsNone - kL2HoldsAll), 0.0, 1.0);
  }

  void Memory() {
    double dram = 0;
    double unique = 0;
    double all_read = 0;
    double new_read = 0;
    double unique_read = 0;
    double written = 0;
    for (size_t region = 0; region < c_.read_new.size(); ++region) {
      const double bytes = BytesOf(region);
      // DRAM is read in half lines.
      const double reads = std::min(c_.read_halves[region] * 2 * kBytesPerSector, bytes);
      const double writes = WrittenBytes(region, bytes);
      unique_read += std::min(c_.read_new[region] * kBytesPerSector, bytes);
      unique += std::max(std::min(c_.read_new[region] * kBytesPerSector, bytes),
                         std::min(c_.write_new[region] * kBytesPerSector, bytes));
      // Small outputs of an earlier launch are still in the L2 cache.
      const bool there = written_[region] > 0 && written_[region] < 0.5 * gpu_.l2_bytes;
      dram += (there ? 0 : reads) + writes;
      all_read += c_.read_sectors[region];
      new_read += c_.read_new[region];
      written += c_.write_sectors[region];
    }
    for (size_t region = 0; region < c_.read_new.size(); ++region) {
      written_[region] = std::max(
          written_[region], std::min(c_.write_new[region] * kBytesPerSector, BytesOf(region)));
    }
    // Data that a block reads again is in the L1 cache, as far as it fits.
    const double footprint = new_read * kBytesPerSector / std::max(1.0, counts_.blocks) *
                             std::min(resident_, std::ceil(counts_.blocks / gpu_.multiprocessors));
    const double cache = std::max(
        16e3, gpu_.l1_bytes - resident_ * static_cast<double>(resources_.shared_bytes + 1024));
    const double held = std::clamp(cache / std::max(1.0, footprint), 0.0, 1.0);
    // Small data that all blocks read stays in the L1 cache from one block to the next.
    double first_read = 0;
    for (size_t region = 0; region < c_.read_new.size(); ++region) {
      const double bytes = BytesOf(region);
      const double once = bytes < 0.4 * cache ? used_ * bytes / kBytesPerSector : 1e30;
      first_read += std::min(c_.read_new[region], std::max(once, 0.0));
    }
    const double again = (all_read - new_read) * (1 - held);
    dram += again * (1 - HeldByL2(unique_read, new_read)) * kBytesPerSector;
    const double l2 =
        (first_read + again + written + local_sectors_ * local_misses_) * kBytesPerSector;
    estimate_.dram_bytes = dram;
    estimate_.l2_bytes = l2;
    estimate_.unique_bytes = unique;
    estimate_.l2_reuse = l2 > 0 ? std::clamp(1 - dram / l2, 0.0, 1.0) : 0;
    SetNs(Resource::kDram, dram / (gpu_.memory_bytes_per_second * kDramShare) * 1e9);
    const double ports = l2 / kL2PortBytes / used_ / gpu_.clock_hz * 1e9;
    SetNs(Resource::kL2, std::max(ports, l2 / gpu_.l2_bytes_per_second * 1e9));
  }

  void Compute() {
    SetCycles(Resource::kIssue, c_.issue_slots / 4);
    SetCycles(Resource::kFloat32, At(c_.pipe, Pipe::kFloat32) * 32 / gpu_.float32_lanes);
    // ptxas turns every second addition into a multiply-add, which uses the float32 units.
    SetCycles(Resource::kInteger,
              At(c_.pipe, Pipe::kInteger) * 32 / (kIntegerShare * gpu_.integer_lanes));
    SetCycles(Resource::kFloat64, At(c_.pipe, Pipe::kFloat64) * 32 / gpu_.float64_lanes);
    SetCycles(Resource::kHalf, At(c_.pipe, Pipe::kHalf) * 32 / gpu_.half_lanes);
    SetCycles(Resource::kSpecial, At(c_.pipe, Pipe::kSpecial) / 2 * 32 / gpu_.special_lanes);
    SetCycles(Resource::kConversion, At(c_.pipe, Pipe::kConversion) * 32 / gpu_.conversion_lanes);
    double flops = 0;
    for (const double of_type : c_.matrix_flops) flops += of_type;
    const double by_groups = flops > 0 ? c_.matrix_group_flops / flops : 0;
    double tensor = 0;
    for (size_t type = 0; type < c_.matrix_flops.size(); ++type) {
      const bool as_half =
          static_cast<MatrixType>(type) == MatrixType::kFloat8 && !gpu_.warp_float8;
      const double warp_rate =
          gpu_.matrix_flops[as_half ? static_cast<size_t>(MatrixType::kHalf) : type] *
          gpu_.warp_matrix_share;
      tensor += c_.matrix_flops[type] *
                (by_groups / gpu_.matrix_flops[type] + (1 - by_groups) / warp_rate);
    }
    SetCycles(Resource::kTensor, tensor);
    // One cycle per line of a request, and per 128 bytes.
    const double global = std::max(c_.global_lines, (c_.load_bytes + c_.store_bytes) / 128);
    const double shared =
        c_.shared_load_wavefronts + c_.shared_store_wavefronts + c_.shared_atomic_cycles;
    SetCycles(Resource::kLoadStore,
              global + shared + kLocalLineCycles * local_lines_ + At(c_.pipe, Pipe::kShuffle));
  }

  // Time that a block waits for preceding blocks that run concurrently. If each block publishes its
  // result only after it has the previous one's, they form a chain with a write and a read of the
  // L2 cache per block. If each first publishes its own part and then walks back, reading one part
  // at a time until it finds a result, n steps suffice for n * n / 2 blocks.
  double WaitCycles() const {
    const double together = std::min(counts_.blocks, resident_ * gpu_.multiprocessors);
    switch (counts_.waits) {
      case Waits::kNever: break;
      case Waits::kAfterPublishing: return kPublishCycles / 2 * std::sqrt(2 * together);
      case Waits::kBeforePublishing: return kPublishCycles * together;
    }
    return 0;
  }

  void Latency() {
    const double around =
        c_.global_lines > 0 ? kMemoryBlockCycles + kMemoryWarpCycles * counts_.warps : kBlockCycles;
    const double cycles = counts_.block_cycles + around + WaitCycles();
    const double waves = estimate_.waves;
    // The last wave is partial; with many waves, blocks are no longer in step.
    const double rounds = waves <= 1 ? 1 : waves < 6 ? (std::ceil(waves) + waves) / 2 : waves + 0.5;
    wait_ns_ = cycles * rounds / gpu_.clock_hz * 1e9;
    // Blocks are started one after the other, and so are the warps of a multiprocessor.
    start_ns_ =
        std::max(counts_.blocks * gpu_.scaled_ns(kBlockStartNs),
                 counts_.blocks * counts_.warps * kWarpStartCycles / used_ / gpu_.clock_hz * 1e9);
    SetNs(Resource::kLatency, std::max(wait_ns_, start_ns_));
    const double time = std::max(1.0, cycles * std::max(1.0, waves)) * gpu_.multiprocessors;
    estimate_.loads_in_flight = c_.load_cycles / time;
    estimate_.bytes_in_flight = c_.load_byte_cycles / time;
  }

  void Atomics() {
    // Requests for one line of the L2 cache are serialised.
    const double hottest = gpu_.scaled_ns(counts_.hottest_global_ns);
    const double throughput = c_.global_atomics / (kAtomicsPerCycle * gpu_.clock_hz) * 1e9;
    const double shared = c_.shared_atomic_cycles / used_ / gpu_.clock_hz * 1e9;
    SetNs(Resource::kAtomics, std::max({hottest, throughput, shared}));
  }

  const GpuModel& gpu_;
  std::span<const BufferSpec> buffers_;
  const LaunchCounts& counts_;
  const Counters& c_;
  const LaunchResources& resources_;
  Written& written_;
  LaunchEstimate estimate_;
  double resident_ = 1;
  double used_ = 1;
  double wait_ns_ = 0;   // for dependent instructions
  double start_ns_ = 0;  // of all blocks
  double local_lines_ = 0;
  double local_sectors_ = 0;
  double local_misses_ = 0;
};

}  // namespace

std::string_view Name(Resource resource) {
  switch (resource) {
    case Resource::kDram: return "dram";
    case Resource::kL2: return "l2";
    case Resource::kLoadStore: return "load_store";
    case Resource::kIssue: return "issue";
    case Resource::kFloat32: return "float32";
    case Resource::kInteger: return "integer";
    case Resource::kFloat64: return "float64";
    case Resource::kHalf: return "half";
    case Resource::kSpecial: return "special";
    case Resource::kConversion: return "conversion";
    case Resource::kTensor: return "tensor";
    case Resource::kAtomics: return "atomics";
    case Resource::kLatency: return "latency";
  }
  return "";
}

std::vector<LaunchEstimate> Estimate(const GpuModel& gpu, std::span<const BufferSpec> buffers,
                                     std::span<const LaunchCounts> launches,
                                     std::span<const LaunchResources> resources) {
  Written written = {};
  std::vector<LaunchEstimate> estimates;
  for (size_t k = 0; k < launches.size(); ++k) {
    const LaunchResources own = k < resources.size() ? resources[k] : LaunchResources{};
    estimates.push_back(launches[k].not_covered.empty()
                            ? LaunchEstimator(gpu, buffers, launches[k], own, written).Run()
                            : LaunchEstimate{});
  }
  return estimates;
}

namespace {

// Operations per cycle and multiprocessor.
double PeakOf(const GpuModel& gpu, const KnownAmounts& amounts) {
  switch (amounts.unit) {
    case Resource::kTensor: return gpu.matrix_flops[static_cast<size_t>(amounts.matrix)];
    case Resource::kFloat64: return 2 * gpu.float64_lanes;
    default: return 2 * gpu.float32_lanes;
  }
}

}  // namespace

LaunchEstimate EstimateAmounts(const GpuModel& gpu, std::span<const KnownAmounts> operations) {
  LaunchEstimate all;
  for (const KnownAmounts& amounts : operations) {
    const double dram_ns = amounts.bytes / (gpu.memory_bytes_per_second * kDramShare) * 1e9;
    const double rate = PeakOf(gpu, amounts) * gpu.multiprocessors * gpu.clock_hz;
    const double unit_ns = rate > 0 ? amounts.operations / rate * 1e9 : 0;
    const double together =
        std::pow(std::pow(dram_ns, kNorm) + std::pow(unit_ns, kNorm), 1 / kNorm);
    const double total_ns = kLaunchNs + (amounts.bytes > 0 ? kFirstDataNs : 0) + together;
    all.ns[static_cast<size_t>(Resource::kDram)] += amounts.count * dram_ns;
    all.ns[static_cast<size_t>(amounts.unit)] += amounts.count * unit_ns;
    all.total_ns += amounts.count * total_ns;
    all.dram_bytes += amounts.count * amounts.bytes;
    all.unique_bytes += amounts.count * amounts.bytes;
  }
  const auto bound = std::max_element(all.ns.begin(), all.ns.end());
  all.bound = static_cast<Resource>(bound - all.ns.begin());
  return all;
}

}  // namespace kernelcast::worker::virtual_gpu
