#include "services/worker/virtual_gpu/execute/checker.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "common/base/strings.h"
#include "services/worker/virtual_gpu/execute/launch.h"
#include "services/worker/virtual_gpu/execute/warp.h"
#include "services/worker/virtual_gpu/text.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

constexpr size_t kMaxFindings = 32;
constexpr size_t kMaxDetail = 480;

int ThreadOf(const Warp& w, int lane) { return w.number * kWarpLanes + lane; }

const char* Verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead: return "reads";
    case AccessKind::kAtomic: return "updates";
    default: return "writes";
  }
}

std::string Part(std::string_view text) { return std::string(text); }
std::string Part(const char* text) { return text; }
template <class Number>
requires std::is_integral_v<Number> std::string Part(Number value) { return std::to_string(value); }
template <class... Parts>
std::string Cat(const Parts&... parts) {
  std::string text;
  (text.append(Part(parts)), ...);
  return text;
}

std::string Hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

Checker::Checker(const Program& program, const Kernel& kernel, const LaunchSpec& launch,
                 std::span<const BufferSpec> buffers, const GlobalMemory& memory,
                 int64_t shared_bytes)
    : program_(program),
      kernel_(kernel),
      launch_(launch),
      buffers_(buffers),
      memory_(memory),
      shared_bytes_(shared_bytes) {
  for (const Instruction& i : kernel.instructions) {
    if (i.hidden_synchronisation) {
      follows_shared_ = false;
      not_checked_ =
          "races and uninitialised reads of shared memory: named barriers, mbarriers or volatile "
          "accesses order them, or wmma stores to it";
    }
    orders_blocks_ = orders_blocks_ || i.orders_blocks;
    if (i.shared_width > 0) cell_bytes_ = std::min<int>(cell_bytes_, i.shared_width);
  }
  if (follows_shared_) {
    cells_.resize(static_cast<size_t>(shared_bytes_ / cell_bytes_ + 1));
    shared_.resize(static_cast<size_t>(shared_bytes_) + 8);
  }
  line_starts_.push_back(0);
  for (size_t k = 0; k < program.text.size(); ++k) {
    if (program.text[k] == '\n') line_starts_.push_back(k + 1);
  }
}

void Checker::BeginBlock(const std::array<uint32_t, 3>& at) {
  block_ = at;
  ++blocks_;
  ++epoch_;
  copies_.clear();
  std::fill(shared_.begin(), shared_.end(), uint8_t{0});
  // Cells of earlier blocks are recognised by the block number. Copies that nobody waited for end
  // here.
  if (!copied_) return;
  for (Cell& cell : cells_) cell.pending = false;
  copied_ = false;
}

bool Checker::Known(Fault fault, const Instruction& i) {
  const auto found = findings_.find({i.line, fault});
  if (found != findings_.end()) {
    ++found->second.count;
    return true;
  }
  return findings_.size() >= kMaxFindings;
}

std::string Checker::TextOf(int32_t line) const {
  const auto index = static_cast<size_t>(line - 1);
  if (line < 1 || index >= line_starts_.size()) return "";
  const size_t end =
      index + 1 < line_starts_.size() ? line_starts_[index + 1] - 1 : program_.text.size();
  std::string text(
      Trim(std::string_view(program_.text).substr(line_starts_[index], end - line_starts_[index])));
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text.substr(0, 160);
}

std::string Checker::Where(const Warp& w, int lane) const {
  const int64_t thread = ThreadOf(w, lane);
  const int64_t x = launch_.block[0];
  const int64_t y = launch_.block[1];
  const auto three = [](int64_t a, int64_t b, int64_t c) {
    return Cat("(", a, ",", b, ",", c, ")");
  };
  return Cat("thread ", three(thread % x, thread / x % y, thread / (x * y)), " of block ",
             three(block_[0], block_[1], block_[2]));
}

std::string Checker::NameOf(int buffer) const {
  const std::string& name = buffers_[static_cast<size_t>(buffer)].name;
  return name.empty() ? Cat("buffer ", buffer) : name;
}

void Checker::Report(Fault fault, const Warp& w, const Instruction& i, int lane,
                     const std::string& detail) {
  LaunchFinding& finding = findings_[{i.line, fault}];
  finding.fault = fault;
  finding.line = i.line;
  finding.source_line = i.source_line;
  finding.count = 1;
  finding.detail = Cat(TextOf(i.line), " ", Where(w, lane), " ", detail).substr(0, kMaxDetail);
}

void Checker::Race(const Warp& w, const Instruction& i, int lane, uint64_t address, AccessKind kind,
                   const Other& other) {
  if (Known(Fault::kSharedRace, i)) return;
  Report(Fault::kSharedRace, w, i, lane,
         Cat(Verb(kind), " shared byte ", address, " that thread ", other.thread, " ", other.did,
             " at PTX line ", other.line, " (", TextOf(other.line), ") with no barrier between"));
}

namespace {

// Whether two numbers in single precision differ by no more than sums of the same terms in another
// order do. Threads that hold the same sum after a reduction by shuffles may differ this much,
// because each contracts its own product.
bool DifferByRounding(const uint8_t* current, uint32_t bits) {
  constexpr float kRatio = 1e-4F;
  float a = 0;
  float b = 0;
  std::memcpy(&a, current, sizeof(a));
  std::memcpy(&b, &bits, sizeof(b));
  return std::isnormal(a) && std::isnormal(b) &&
         std::abs(a - b) <= kRatio * std::max(std::abs(a), std::abs(b));
}

}  // namespace

void Checker::Shared(const Warp& w, const Instruction& i, int lane, uint64_t address, int bytes,
                     AccessKind kind, uint64_t value) {
  if (address >= static_cast<uint64_t>(shared_bytes_) ||
      static_cast<uint64_t>(shared_bytes_) - address < static_cast<uint64_t>(bytes)) {
    if (Known(Fault::kSharedOutOfBounds, i)) return;
    Report(Fault::kSharedOutOfBounds, w, i, lane,
           Cat(Verb(kind), " ", bytes, " bytes at shared byte ",
               (address > uint64_t{1} << 31 ? Hex(address) : std::to_string(address)),
               "; the block has ", shared_bytes_));
    return;
  }
  if (!follows_shared_) return;
  const bool same_but_for_rounding =
      kind == AccessKind::kWrite && bytes == 4 &&
      DifferByRounding(shared_.data() + address, static_cast<uint32_t>(value));
  const auto thread = static_cast<uint16_t>(ThreadOf(w, lane));
  const auto warp_of = [](uint16_t t) { return t / kWarpLanes; };
  const bool reads = kind == AccessKind::kRead || kind == AccessKind::kAtomic;
  const bool writes = kind != AccessKind::kRead;
  bool initialised = false;
  for (int at = 0; at < bytes; at += cell_bytes_) {
    const auto index = static_cast<uint32_t>((address + static_cast<uint64_t>(at)) /
                                             static_cast<uint64_t>(cell_bytes_));
    Cell& cell = cells_[index];
    if (cell.written_in != blocks_) {
      const uint32_t epoch = cell.read_epoch;
      const uint16_t reader = cell.reader;
      const bool many = cell.many_readers;
      const int32_t line = cell.read_line;
      cell = Cell();
      cell.read_epoch = epoch;
      cell.reader = reader;
      cell.many_readers = many;
      cell.read_line = line;
    }
    const bool is_initialised = cell.written_in == blocks_;
    initialised = initialised || is_initialised;
    const bool same_epoch = is_initialised && cell.write_epoch == epoch_;
    if (is_initialised && cell.pending && !(kind == AccessKind::kAsyncWrite)) {
      Race(w, i, lane, address, kind, {"still copies to", cell.writer, cell.write_line});
    } else if (reads && same_epoch && !cell.atomic && warp_of(cell.writer) != w.number) {
      Race(w, i, lane, address, kind,
           {cell.atomic ? "updates" : "writes", cell.writer, cell.write_line});
    }
    if (writes) {
      const auto offset = static_cast<size_t>(address) + static_cast<size_t>(at);
      uint64_t piece = value >> (8 * (at & 7));
      bool changes = true;
      const auto size = static_cast<size_t>(std::min(cell_bytes_, bytes));
      if (kind == AccessKind::kWrite) {
        changes = !same_but_for_rounding &&
                  (!is_initialised || std::memcmp(shared_.data() + offset, &piece, size) != 0);
        std::memcpy(shared_.data() + offset, &piece, size);
      }
      if (same_epoch && changes && kind == AccessKind::kWrite) {
        if (warp_of(cell.writer) != w.number) {
          Race(w, i, lane, address, kind,
               {cell.atomic ? "updates" : "writes", cell.writer, cell.write_line});
        } else if (cell.write_serial == serial_ && cell.writer != thread) {
          if (!Known(Fault::kSharedRace, i)) {
            Report(Fault::kSharedRace, w, i, lane,
                   Cat("writes shared byte ", address, ", as does thread ", cell.writer,
                       " with another value, in one instruction"));
          }
        }
      }
      if (kind != AccessKind::kAtomic && changes && cell.read_epoch == epoch_ &&
          (cell.many_readers || warp_of(cell.reader) != w.number)) {
        Race(w, i, lane, address, kind, {"reads", cell.reader, cell.read_line});
      }
      cell.write_epoch = epoch_;
      cell.write_serial = serial_;
      cell.written_in = blocks_;
      cell.writer = thread;
      cell.atomic = kind == AccessKind::kAtomic;
      cell.pending = kind == AccessKind::kAsyncWrite;
      cell.write_line = i.line;
      if (cell.pending) {
        copies_[w.number].open.emplace_back(index, thread);
        copied_ = true;
      }
    }
    if (kind == AccessKind::kRead) {
      if (cell.read_epoch != epoch_) {
        cell.read_epoch = epoch_;
        cell.reader = thread;
        cell.many_readers = false;
      } else if (warp_of(cell.reader) != w.number) {
        cell.many_readers = true;
        // Prefer to name a reader of another warp than the first writer.
      }
      cell.read_line = i.line;
    }
  }
  if (reads && !initialised && !Known(Fault::kSharedUninitialised, i)) {
    Report(Fault::kSharedUninitialised, w, i, lane,
           Cat(Verb(kind), " shared byte ", address, ", which no thread of the block has written"));
  }
}

void Checker::Local(Warp& w, const Instruction& i, int lane, uint64_t address, int bytes,
                    AccessKind kind) {
  const auto each = static_cast<uint64_t>(kernel_.local_bytes);
  if (address >= each || each - address < static_cast<uint64_t>(bytes)) {
    if (Known(Fault::kLocalOutOfBounds, i)) return;
    Report(Fault::kLocalOutOfBounds, w, i, lane,
           Cat(Verb(kind), " ", bytes, " bytes at local byte ",
               (address > uint64_t{1} << 31 ? Hex(address) : std::to_string(address)),
               "; the thread has ", each));
    return;
  }
  if (w.local_written.empty()) w.local_written.assign(static_cast<size_t>(32 * each), 0);
  auto* const from = w.local_written.data() + static_cast<uint64_t>(lane) * each + address;
  if (kind == AccessKind::kWrite) {
    std::fill_n(from, bytes, uint8_t{1});
  } else if (std::all_of(from, from + bytes, [](uint8_t is) { return is == 0; }) &&
             !Known(Fault::kLocalUninitialised, i)) {
    Report(Fault::kLocalUninitialised, w, i, lane,
           Cat("reads local byte ", address, ", which it has not written"));
  }
}

void Checker::Global(const Warp& w, const Instruction& i, int lane, uint64_t address, int bytes,
                     AccessKind kind, uint64_t value) {
  const int region = memory_.RegionOf(address);
  const int last = memory_.RegionOf(address + static_cast<uint64_t>(bytes) - 1);
  if (region < 0 || last != region) {
    if (Known(Fault::kGlobalOutOfBounds, i)) return;
    const int near = memory_.NearestRegion(address);
    std::string detail = Cat(Verb(kind), " ", bytes, " bytes ");
    if (near >= 0 && near < static_cast<int>(buffers_.size())) {
      const BufferSpec& buffer = buffers_[static_cast<size_t>(near)];
      const auto offset = static_cast<int64_t>(address - GlobalMemory::AddressOf(near));
      detail += Cat("at byte ", offset, " of ", NameOf(near), ", which has ", buffer.bytes);
    } else {
      detail += Cat("at ", Hex(address), ", where nothing is");
    }
    Report(Fault::kGlobalOutOfBounds, w, i, lane, detail);
    return;
  }
  if (kind == AccessKind::kWrite && !orders_blocks_ && region < static_cast<int>(buffers_.size()) &&
      buffers_[static_cast<size_t>(region)].is_output) {
    WriteOutput(w, i, lane, region, address, bytes, value);
  }
  if (kind == AccessKind::kWrite || region >= static_cast<int>(buffers_.size()) ||
      buffers_[static_cast<size_t>(region)].initialised || memory_.Written(region)) {
    return;
  }
  if (Known(Fault::kGlobalUninitialised, i)) return;
  Report(Fault::kGlobalUninitialised, w, i, lane,
         Cat(Verb(kind), " ", NameOf(region), ", to which nothing has been written"));
}

void Checker::WriteOutput(const Warp& w, const Instruction& i, int lane, int region,
                          uint64_t address, int bytes, uint64_t value) {
  const uint64_t mask = bytes >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1;
  if (memory_.Read(address, bytes) == (value & mask)) return;
  // Narrow elements of one word do not conflict.
  const uint64_t key = bytes >= 4 ? address >> 2 << 1 : address << 1 | 1;
  const auto [found, is_new] = written_by_.try_emplace(key, blocks_, i.line);
  auto& [block, line] = found->second;
  if (!is_new && block != blocks_ && !Known(Fault::kGlobalRace, i)) {
    Report(
        Fault::kGlobalRace, w, i, lane,
        Cat("writes ", bytes, " bytes at byte ", address - GlobalMemory::AddressOf(region), " of ",
            NameOf(region), ", where another block wrote another value at PTX line ", line));
  }
  block = blocks_;
  line = i.line;
}

void Checker::Aligned(const Warp& w, const Instruction& i, int lane, uint64_t address, int bytes) {
  if (bytes <= 1 || !std::has_single_bit(static_cast<unsigned>(bytes)) ||
      address % static_cast<uint64_t>(bytes) == 0 || Known(Fault::kMisaligned, i)) {
    return;
  }
  Report(Fault::kMisaligned, w, i, lane, Cat("accesses ", bytes, " bytes at ", Hex(address)));
}

void Checker::Mask(const Warp& w, const Instruction& i, uint32_t active) {
  const uint16_t slot = w.operands(i)[i.mask_operand - 1];
  const auto* masks =
      reinterpret_cast<const LaneU32*>(w.registers.data() + kernel_.slots[slot].offset);
  uint32_t live = 0;
  for (const StackEntry& entry : w.stack) live |= entry.mask;
  uint32_t rest = active;
  while (rest != 0) {
    const int lane = std::countr_zero(rest);
    rest &= rest - 1;
    const uint32_t mask = masks[lane];
    const bool leaves_out = (mask >> lane & 1) == 0;
    const uint32_t absent = mask & live & ~active;
    if (!leaves_out && absent == 0) continue;
    if (Known(Fault::kWrongMask, i)) return;
    Report(Fault::kWrongMask, w, i, lane,
           leaves_out ? Cat("executes it with mask ", Hex(mask), ", which leaves it out")
                      : Cat("executes it with mask ", Hex(mask), ", but lane ",
                            std::countr_zero(absent), " does not"));
    return;
  }
}

void Checker::ArrivesAtBarrier(const Warp& w, const Instruction& i, uint32_t active) {
  uint32_t live = 0;
  for (const StackEntry& entry : w.stack) live |= entry.mask;
  const uint32_t absent = live & ~active;
  if (absent == 0 || active == 0 || Known(Fault::kMissedBarrier, i)) return;
  Report(Fault::kMissedBarrier, w, i, std::countr_zero(active),
         Cat("waits while lane ", std::countr_zero(absent), " of its warp took another way"));
}

void Checker::CommitCopies(const Warp& w) {
  Copies& copies = copies_[w.number];
  copies.groups.push_back(std::exchange(copies.open, {}));
}

void Checker::WaitForCopies(const Warp& w, int64_t left) {
  Copies& copies = copies_[w.number];
  const auto arrive = [&](const std::vector<std::pair<uint32_t, uint16_t>>& group) {
    for (const auto& [index, thread] : group) {
      Cell& cell = cells_[index];
      if (!cell.pending || cell.writer != thread) continue;
      cell.pending = false;
      cell.write_epoch = epoch_;
    }
  };
  const size_t keep = left < 0 ? 0 : static_cast<size_t>(left);
  while (copies.groups.size() > keep) {
    arrive(copies.groups.front());
    copies.groups.erase(copies.groups.begin());
  }
  if (left < 0) arrive(std::exchange(copies.open, {}));
}

std::vector<LaunchFinding> Checker::Findings() const {
  std::vector<LaunchFinding> findings;
  for (const auto& [key, finding] : findings_) findings.push_back(finding);
  return findings;
}

}  // namespace kernelcast::worker::virtual_gpu
