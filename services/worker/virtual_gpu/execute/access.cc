#include "services/worker/virtual_gpu/execute/access.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace kernelcast::worker::virtual_gpu {

Addresses Gather(Warp& w, const Instruction& i, int operand) {
  Addresses addresses;
  const uint16_t slot = w.operands(i)[operand];
  const auto offset = static_cast<uint64_t>(i.immediate);
  if (w.kernel->slots[slot].kind == SlotClass::kLong) {
    const auto* lanes = reinterpret_cast<const LaneU64*>(w.slot(slot));
    if (w.active == 0xffffffff) {
      for (size_t l = 0; l < kWarpLanes; ++l) addresses.at[l] = lanes[l] + offset;
      addresses.count = kWarpLanes;
      return addresses;
    }
    ForLanes(w.active, [&](int l) {
      addresses.at[static_cast<size_t>(addresses.count++)] = lanes[l] + offset;
    });
  } else {
    const auto* lanes = reinterpret_cast<const LaneU32*>(w.slot(slot));
    ForLanes(w.active, [&](int l) {
      addresses.at[static_cast<size_t>(addresses.count++)] =
          static_cast<uint32_t>(lanes[l] + static_cast<uint32_t>(offset));
    });
  }
  return addresses;
}

Space Resolve(Warp& w, Space space, Addresses& addresses) {
  if (space != Space::kGeneric || addresses.count == 0) {
    return space == Space::kGeneric ? Space::kGlobal : space;
  }
  const auto within = [&](uint64_t address, uint64_t window) {
    return address >= window && address - window < kWindowBytes;
  };
  for (const auto& [window, is] :
       {std::pair(kSharedWindow, Space::kShared), std::pair(kLocalWindow, Space::kLocal)}) {
    int inside = 0;
    for (int l = 0; l < addresses.count; ++l) {
      inside += within(addresses.at[static_cast<size_t>(l)], window) ? 1 : 0;
    }
    if (inside != 0 && inside != addresses.count) {
      w.block->approximated = "lanes of one access that use several spaces";
    }
    if (!within(addresses.at[0], window)) continue;
    for (int l = 0; l < addresses.count; ++l) addresses.at[static_cast<size_t>(l)] -= window;
    return is;
  }
  return Space::kGlobal;
}

int WidthIndex(int bytes) {
  return bytes <= 1 ? 0 : bytes <= 2 ? 1 : bytes <= 4 ? 2 : bytes <= 8 ? 3 : 4;
}

namespace {

// Lines re-read within 1/kRecentShare of the L1 capacity are not counted again.
constexpr double kRecentShare = 16;

Lines LinesOf(const Addresses& addresses, int bytes) {
  Lines lines;
  for (int l = 0; l < addresses.count; ++l) lines.Add(addresses.at[static_cast<size_t>(l)], bytes);
  return lines;
}

// That of the first sector of a line. Negative: none.
int RegionOf(const Warp& w, const Lines& lines, int n) {
  const auto sector = static_cast<uint64_t>(std::countr_zero(lines.sectors(n)));
  return w.block->memory->RegionOf(lines.line(n) * kLineBytes + uint64_t{kSectorBytes} * sector);
}

}  // namespace

float CountRead(Warp& w, const Addresses& addresses, int bytes, bool bypasses, int& sectors,
                int& line_count) {
  const Lines lines = LinesOf(addresses, bytes);
  sectors = lines.all_sectors();
  line_count = lines.count();
  const BlockState& block = *w.block;
  const Latencies& latencies = block.latencies;
  float latency = bypasses ? latencies.l2 : latencies.cached;
  Counters& c = w.counters;
  for (int n = 0; n < lines.count(); ++n) {
    const int region = RegionOf(w, lines, n);
    const int count = std::popcount(lines.sectors(n));
    if (region < 0) {
      c.stray_sectors += count;
      continue;
    }
    const auto at = static_cast<size_t>(region);
    const auto now = static_cast<float>(c.lines_read);
    const Footprint::Touched touched = w.block->reads.Touch(lines.line(n), lines.sectors(n), now);
    c.read_sectors[at] += count;
    c.read_new[at] += touched.fresh;
    c.read_halves[at] += touched.halves;
    if (touched.fresh > 0) {
      c.lines_read += touched.fresh / 4.0;
      latency = std::max(latency, sectors > 1 ? latencies.global_sectors : latencies.global);
      continue;
    }
    // Estimated number of lines that the block has read since then. A warp counts only its own
    // lines, because loops are inferred per warp.
    const double distance = (now - touched.since) * block.warps;
    const auto held = static_cast<double>(block.l1_lines);
    if (distance > held / kRecentShare) c.lines_read += count / 4.0;
    if (distance > held) latency = std::max(latency, latencies.l2);
  }
  return latency;
}

int CountWrite(Warp& w, const Addresses& addresses, int bytes) {
  const Lines lines = LinesOf(addresses, bytes);
  for (int n = 0; n < lines.count(); ++n) {
    const int region = RegionOf(w, lines, n);
    const int count = std::popcount(lines.sectors(n));
    if (region < 0) {
      w.counters.stray_sectors += count;
      continue;
    }
    const auto at = static_cast<size_t>(region);
    const Footprint::Touched touched = w.block->writes.Touch(lines.line(n), lines.sectors(n));
    w.counters.write_sectors[at] += count;
    w.counters.write_new[at] += touched.fresh;
    w.counters.write_halves[at] += touched.halves;
    // Requests almost always go to one region.
    if (n == 0) w.counters.write_bytes[at] += addresses.count * bytes;
  }
  w.counters.global_lines += lines.count();
  return lines.all_sectors();
}

void CountLocal(Warp& w, const Addresses& addresses, int bytes) {
  Lines lines;
  int n = 0;
  ForLanes(w.active, [&](int l) {
    const uint64_t address = addresses.at[static_cast<size_t>(n++)];
    for (int at = 0; at < std::max(bytes, 4); at += 4) {
      lines.Add(
          (address / 4 + static_cast<uint64_t>(at / 4)) * kLineBytes + static_cast<uint64_t>(4 * l),
          4);
    }
  });
  w.counters.local_sectors += lines.all_sectors();
  w.counters.local_lines += lines.count();
  w.latency = w.block->local_in_l1 ? w.block->latencies.cached : w.block->latencies.l2;
}

int IdealWavefronts(int lanes, int bytes) { return std::max(1, lanes * bytes / (4 * kBanks)); }

void CountShared(Warp& w, const Addresses& addresses, int bytes, bool load) {
  const int wavefronts =
      SharedWavefronts({addresses.at.data(), static_cast<size_t>(addresses.count)}, bytes);
  const int ideal = IdealWavefronts(addresses.count, bytes);
  Counters& c = w.counters;
  c.shared_bytes += addresses.count * bytes;
  if (load) {
    c.shared_load_requests += 1;
    c.shared_load_wavefronts += wavefronts;
    c.shared_load_ideal += ideal;
  } else {
    c.shared_store_requests += 1;
    c.shared_store_wavefronts += wavefronts;
    c.shared_store_ideal += ideal;
  }
  w.counters.kind[static_cast<size_t>(load ? Kind::kLoadShared : Kind::kStoreShared)] += 1;
  w.latency = w.block->latencies.shared + static_cast<float>(wavefronts - 1);
}

int SharedWavefronts(std::span<const uint64_t> addresses, int bytes) {
  const int lanes_at_once = bytes <= 4 ? kWarpLanes : bytes <= 8 ? kWarpLanes / 2 : kWarpLanes / 4;
  const int words = std::max(1, bytes / 4);
  int wavefronts = 0;
  for (size_t start = 0; start < addresses.size(); start += static_cast<size_t>(lanes_at_once)) {
    const size_t end = std::min(addresses.size(), start + static_cast<size_t>(lanes_at_once));
    // Distinct words requested from each bank.
    std::array<std::array<uint64_t, kWarpLanes>, kBanks> wanted;
    std::array<uint8_t, kBanks> count = {};
    int most = 1;
    for (size_t l = start; l < end; ++l) {
      for (int word = 0; word < words; ++word) {
        const uint64_t at = addresses[l] / 4 + static_cast<uint64_t>(word);
        const auto bank = static_cast<size_t>(at % kBanks);
        uint8_t& known = count[bank];
        bool found = false;
        for (uint8_t k = 0; k < known && !found; ++k) found = wanted[bank][k] == at;
        if (!found && known < kWarpLanes) {
          wanted[bank][known++] = at;
          most = std::max<int>(most, known);
        }
      }
    }
    wavefronts += most;
  }
  return std::max(1, wavefronts);
}

void CheckAccess(Warp& w, const Instruction& i, const Addresses& addresses,
                 const LaneAccess& access) {
  const Space space = access.space;
  const int bytes = access.bytes;
  Checker& checker = *w.block->checker;
  checker.BeginInstruction();
  int n = 0;
  ForLanes(w.active, [&](int l) {
    const uint64_t first = addresses.at[static_cast<size_t>(n++)];
    if (space != Space::kParameter && space != Space::kConstant && space != Space::kArgument) {
      checker.Aligned(w, i, l, first, bytes * access.elements);
    }
    for (int element = 0; element < access.elements; ++element) {
      const uint64_t at = first + static_cast<uint64_t>(element * bytes);
      const uint64_t value = access.values == nullptr ? 0 : ReadLane(w, access.values[element], l);
      switch (space) {
        case Space::kShared: checker.Shared(w, i, l, at, bytes, access.kind, value); break;
        case Space::kLocal: checker.Local(w, i, l, at, bytes, access.kind); break;
        case Space::kGlobal: checker.Global(w, i, l, at, bytes, access.kind, value); break;
        default: break;
      }
    }
  });
}

}  // namespace kernelcast::worker::virtual_gpu
