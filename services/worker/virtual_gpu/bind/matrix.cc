#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "services/worker/virtual_gpu/bind/fragments.h"
#include "services/worker/virtual_gpu/bind/memory_operands.h"
#include "services/worker/virtual_gpu/execute/access.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

void CountProduct(Warp& w, const Instruction& i) {
  w.counters.matrix[static_cast<size_t>(i.matrix)] += 1;
  w.counters.matrix_flops[static_cast<size_t>(i.matrix)] += i.flops;
  if (i.code != 0) w.counters.matrix_group_flops += i.flops;
}

// Products whose values are not computed have the result 0.
void MultiplyUnknown(Warp& w, const Instruction& i) {
  CountProduct(w, i);
  ClearResults(w, i);
}

constexpr size_t kMostElements = size_t{32} * 32;
using Elements64 = std::array<double, kMostElements>;

// Reads a matrix from registers of all lanes. `slots`: its registers.
void ReadFragment(Warp& w, const Fragment& fragment, const uint16_t* slots, std::span<double> to) {
  const int parts = ElementsPerRegister(fragment.kind);
  const int bits = 8 * BytesOf(fragment.kind);
  for (int r = 0; r < fragment.registers(); ++r) {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const uint64_t word = ReadLane(w, slots[r], lane);
      for (int part = 0; part < parts; ++part) {
        const Fragment::Position at = fragment.At(lane, r, part);
        to[static_cast<size_t>(at.row * fragment.columns + at.column)] =
            DecodeElement(fragment.kind, parts == 1 ? word : word >> (bits * part));
      }
    }
  }
}

// Adds the product of the first `rows` rows of a with b to c.
void AddProduct(std::span<const double> a, std::span<const double> b, std::span<double> c, int rows,
                int depth, int columns) {
  for (int m = 0; m < rows; ++m) {
    for (int k = 0; k < depth; ++k) {
      const double factor = a[static_cast<size_t>(m * depth + k)];
      const double* const row = b.data() + k * columns;
      double* const sums = c.data() + m * columns;
      for (int n = 0; n < columns; ++n) sums[n] += factor * row[n];
    }
  }
}

void WriteFragment(Warp& w, const Fragment& fragment, const uint16_t* slots,
                   std::span<const double> from, bool saturates) {
  const int parts = ElementsPerRegister(fragment.kind);
  for (int r = 0; r < fragment.registers(); ++r) {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      uint64_t word = 0;
      for (int part = 0; part < parts; ++part) {
        const Fragment::Position at = fragment.At(lane, r, part);
        double value = from[static_cast<size_t>(at.row * fragment.columns + at.column)];
        if (saturates) value = std::clamp(value, -2147483648.0, 2147483647.0);
        word |= EncodeElement(fragment.kind, value) << (16 * part);
      }
      WriteLane(w, slots[r], lane, word);
    }
  }
}

// mma and wmma.mma. Sums in double precision: a GPU's are less exact. detail: the registers of a;
// bytes: those of b.
void Multiply(Warp& w, const Instruction& i) {
  CountProduct(w, i);
  // Estimates do not need the values: they decide no branch in practice.
  if (w.block->checker == nullptr) {
    ClearResults(w, i);
    return;
  }
  // The instruction is undefined unless all lanes execute it.
  if (w.active != ~uint32_t{0}) {
    w.block->approximated = "matrix products in part of a warp";
    ClearResults(w, i);
    return;
  }
  const Product product = Product::Unpack(i.immediate);
  const uint16_t* const slots = w.operands(i);
  Elements64 a;
  Elements64 b;
  Elements64 c;
  ReadFragment(w, product.a, slots + i.writes, a);
  ReadFragment(w, product.b, slots + i.writes + i.detail, b);
  ReadFragment(w, product.c, slots + i.writes + i.detail + i.bytes, c);
  AddProduct(a, b, c, product.a.rows, product.a.columns, product.b.columns);
  Fragment d = product.c;
  d.kind = product.d;
  WriteFragment(w, d, slots, c, product.saturates);
}

// Where a matrix of wgmma is in shared memory: rows of its depth, in groups of eight.
class SharedMatrix {
 public:
  explicit SharedMatrix(uint64_t descriptor)
      : start_((descriptor & 0x3fff) << 4),
        leading_((descriptor >> 16 & 0x3fff) << 4),
        stride_((descriptor >> 32 & 0x3fff) << 4) {
    constexpr uint64_t kRowBytes[] = {16, 128, 64, 32};
    row_bytes_ = kRowBytes[descriptor >> 62];
  }
  // The address of a byte of a row.
  uint64_t At(uint64_t row, uint64_t byte) const {
    const uint64_t address = start_ + row / 8 * stride_ + row % 8 * row_bytes_ +
                             byte / row_bytes_ * leading_ + byte % row_bytes_;
    // The pieces of 16 bytes are swapped depending on the line.
    return address ^ ((address >> 7 & (row_bytes_ / 16 - 1)) << 4);
  }

 private:
  uint64_t start_;
  uint64_t leading_;
  uint64_t stride_;
  uint64_t row_bytes_;
};

constexpr uint8_t kFactorInRegisters = 1;
constexpr uint8_t kScaledByPredicate = 2;
constexpr uint8_t kOverwrites = 4;
constexpr uint8_t kNegatesA = 8;
constexpr uint8_t kNegatesB = 16;

// wgmma.mma_async: each of four warps has 16 rows of the result. Computed at once: what a program
// may rely on is the same as if it was done when waited for. detail: the flags above.
void MultiplyGroup(Warp& w, const Instruction& i) {
  CountProduct(w, i);
  if (w.block->checker == nullptr) {
    ClearResults(w, i);
    return;
  }
  if (w.active != ~uint32_t{0}) {
    w.block->approximated = "matrix products in part of a warp";
    ClearResults(w, i);
    return;
  }
  const Product product = Product::Unpack(i.immediate);
  const uint16_t* const slots = w.operands(i);
  const int depth = product.a.columns;
  const int columns = product.b.columns;
  const auto bytes = static_cast<uint64_t>(BytesOf(product.a.kind));
  const uint16_t* next = slots + i.writes;
  const auto read = [&](const SharedMatrix& matrix, uint64_t row, int k) {
    const int size = static_cast<int>(bytes);
    const uint64_t address = matrix.At(row, static_cast<uint64_t>(k) * bytes);
    return ReadBytes(SharedAt(w, address, size), size);
  };
  constexpr int kRows = 16;
  Elements64 a;
  if ((i.detail & kFactorInRegisters) != 0) {
    const Fragment fragment = {Role::kA, product.a.kind, kRows, depth};
    ReadFragment(w, fragment, next, a);
    next += fragment.registers();
  } else {
    const SharedMatrix matrix(ReadLane(w, *next++, 0));
    for (int m = 0; m < kRows; ++m) {
      const auto row = static_cast<uint64_t>(kRows * (w.number % 4) + m);
      for (int k = 0; k < depth; ++k) {
        a[static_cast<size_t>(m * depth + k)] = DecodeElement(product.a.kind, read(matrix, row, k));
      }
    }
  }
  const SharedMatrix matrix(ReadLane(w, *next++, 0));
  std::vector<double> b(static_cast<size_t>(depth * columns));
  const double sign = ((i.detail & kNegatesA) != 0) != ((i.detail & kNegatesB) != 0) ? -1 : 1;
  for (int k = 0; k < depth; ++k) {
    for (int n = 0; n < columns; ++n) {
      b[static_cast<size_t>(k * columns + n)] =
          sign * DecodeElement(product.b.kind, read(matrix, static_cast<uint64_t>(n), k));
    }
  }
  const Fragment d = {Role::kC, product.d, kRows, columns};
  std::vector<double> c(static_cast<size_t>(kRows * columns));
  const bool adds = (i.detail & kScaledByPredicate) != 0 ? (w.mask_of(*next) & 1) != 0
                                                         : (i.detail & kOverwrites) == 0;
  if (adds) ReadFragment(w, d, slots, c);
  AddProduct(a, b, c, kRows, depth, columns);
  WriteFragment(w, d, slots, c, product.saturates);
}

// Two elements of 16 bits, as a lane holds them of each matrix: of row lane / 4 the columns
// 2 * (lane % 4) and the next one, or the same of the transposed matrix.
struct Pair {
  uint64_t first;
  uint64_t second;
};
Pair PairOf(const Addresses& rows, int matrix, int lane, bool transposed) {
  const auto row = [&](int r) { return rows.at[static_cast<size_t>(8 * matrix + r)]; };
  const int column = 2 * (lane % 4);
  if (!transposed) {
    const uint64_t first = row(lane / 4) + static_cast<uint64_t>(2 * column);
    return {first, first + 2};
  }
  const auto offset = static_cast<uint64_t>(2 * (lane / 4));
  return {row(column) + offset, row(column + 1) + offset};
}

void CheckMatrices(Warp& w, const Instruction& i, const Addresses& rows, bool store) {
  Checker& checker = *w.block->checker;
  checker.BeginInstruction();
  for (int row = 0; row < 8 * i.lanes; ++row) {
    checker.Aligned(w, i, row, rows.at[static_cast<size_t>(row)], 16);
  }
  const bool transposed = i.detail != 0;
  const uint16_t* operands = w.operands(i);
  for (int m = 0; m < i.lanes; ++m) {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const Pair at = PairOf(rows, m, lane, transposed);
      const uint64_t value = store ? ReadLane(w, operands[1 + m], lane) : 0;
      const AccessKind kind = store ? AccessKind::kWrite : AccessKind::kRead;
      if (!transposed) {
        checker.Shared(w, i, lane, at.first, 4, kind, value);
        continue;
      }
      // Halves of a word that different lanes write are not a conflict.
      checker.BeginInstruction();
      checker.Shared(w, i, lane, at.first, 2, kind, value & 0xffff);
      checker.BeginInstruction();
      checker.Shared(w, i, lane, at.second, 2, kind, value >> 16);
    }
  }
}

// Moves the elements between shared memory and the lanes of a whole warp.
void MoveMatrices(Warp& w, const Instruction& i, Space space, const Addresses& rows, bool store) {
  const bool transposed = i.detail != 0;
  const uint16_t* operands = w.operands(i);
  for (int m = 0; m < i.lanes; ++m) {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const Pair at = PairOf(rows, m, lane, transposed);
      if (store) {
        const uint64_t value = ReadLane(w, operands[1 + m], lane);
        WriteAt(w, space, lane, at.first, 2, value & 0xffff);
        WriteAt(w, space, lane, at.second, 2, value >> 16 & 0xffff);
      } else {
        WriteLane(w, operands[m], lane,
                  ReadAt(w, space, lane, at.first, 2) | ReadAt(w, space, lane, at.second, 2) << 16);
      }
    }
  }
}

void MatrixLoad(Warp& w, const Instruction& i) {
  const bool store = i.code != 0;
  Addresses addresses = Gather(w, i, i.writes);
  const Space space = Resolve(w, i.space, addresses);
  // Each matrix is eight rows of 16 bytes, whose addresses come from successive lanes.
  int wavefronts = 0;
  const int matrices = i.lanes;
  for (int m = 0; m < matrices; ++m) {
    const int first = 8 * m;
    const int count = std::clamp(addresses.count - first, 0, 8);
    if (count > 0) {
      wavefronts += SharedWavefronts({addresses.at.data() + first, static_cast<size_t>(count)}, 16);
    }
  }
  Counters& c = w.counters;
  c.shared_bytes += 128.0 * matrices;
  if (space == Space::kShared) {
    if (store) {
      c.shared_store_requests += 1;
      c.shared_store_wavefronts += wavefronts;
      c.shared_store_ideal += matrices;
    } else {
      c.shared_load_requests += 1;
      c.shared_load_wavefronts += wavefronts;
      c.shared_load_ideal += matrices;
    }
  }
  w.latency = w.block->latencies.shared + static_cast<float>(wavefronts);
  // The instruction is undefined unless all lanes execute it.
  if (addresses.count < kWarpLanes) {
    w.block->approximated = "matrix loads in part of a warp";
    if (!store) ClearResults(w, i);
    return;
  }
  if (w.block->checker != nullptr && space == Space::kShared) CheckMatrices(w, i, addresses, store);
  MoveMatrices(w, i, space, addresses, store);
}

// How a tile of wmma is held, in `flops`.
Fragment TileOf(const Instruction& i) {
  const auto packed = static_cast<int64_t>(i.flops);
  return {static_cast<Role>(packed & 3), static_cast<ElementKind>(packed >> 2 & 15),
          static_cast<int>(packed >> 8 & 255), static_cast<int>(packed >> 16 & 255)};
}
int64_t PackTile(const Fragment& fragment) {
  return static_cast<int64_t>(fragment.role) | static_cast<int64_t>(fragment.kind) << 2 |
         fragment.rows << 8 | fragment.columns << 16;
}

// Moves the elements of a tile of wmma. detail: 1: has a stride; 2: neighbours of a column are
// neighbours in memory.
void MoveTile(Warp& w, const Instruction& i, Space space, uint64_t first, uint64_t stride) {
  const bool store = i.code != 0;
  const Fragment fragment = TileOf(i);
  const uint16_t* const slots = w.operands(i) + (store ? i.reads - i.lanes : 0);
  const int held = fragment.registers();
  const int parts = ElementsPerRegister(fragment.kind);
  const int bytes = BytesOf(fragment.kind);
  Checker* const checker = w.block->checker;
  if (checker != nullptr) checker->BeginInstruction();
  for (int r = 0; r < i.lanes; ++r) {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      // Fragments may hold their elements more than once.
      if (r >= held) {
        if (!store) WriteLane(w, slots[r], lane, ReadLane(w, slots[r % held], lane));
        continue;
      }
      uint64_t word = store ? ReadLane(w, slots[r], lane) : 0;
      for (int part = 0; part < parts; ++part) {
        const Fragment::Position at = fragment.At(lane, r, part);
        const auto row = static_cast<uint64_t>(at.row);
        const auto column = static_cast<uint64_t>(at.column);
        const uint64_t index = (i.detail & 2) != 0 ? column * stride + row : row * stride + column;
        const uint64_t address = first + index * static_cast<uint64_t>(bytes);
        const uint64_t value =
            parts == 1 ? word : word >> (8 * bytes * part) & ((uint64_t{1} << (8 * bytes)) - 1);
        if (checker != nullptr) {
          const AccessKind kind = store ? AccessKind::kWrite : AccessKind::kRead;
          if (space == Space::kShared) {
            checker->Shared(w, i, lane, address, bytes, kind, value);
          } else if (space == Space::kGlobal) {
            checker->Global(w, i, lane, address, bytes, kind, value);
          }
        }
        if (store) {
          WriteAt(w, space, lane, address, bytes, value);
        } else {
          word |= ReadAt(w, space, lane, address, bytes) << (parts == 1 ? 0 : 8 * bytes * part);
        }
      }
      if (!store) WriteLane(w, slots[r], lane, word);
    }
  }
}

// wmma.load and wmma.store: a tile at one address with a stride. Counts a row of 16 elements for
// two lanes.
void TileAccess(Warp& w, const Instruction& i) {
  const bool store = i.code != 0;
  Addresses base = Gather(w, i, i.writes);
  const Space space = Resolve(w, i.space, base);
  const uint16_t* operands = w.operands(i);
  const bool has_stride = (i.detail & 1) != 0;
  const int rows = 16;
  const int row_bytes = i.bytes * 16;
  Addresses rows_at;
  rows_at.count = kWarpLanes;
  int n = 0;
  uint64_t first = base.count > 0 ? base.at[0] : 0;
  uint64_t stride = 16;
  if (has_stride && base.count > 0) {
    stride = ReadLane(w, operands[i.writes + 1], std::countr_zero(w.active));
  }
  const int each = std::max(1, row_bytes / 2);
  for (n = 0; n < kWarpLanes; ++n) {
    const auto row = static_cast<uint64_t>(n / 2 % rows);
    rows_at.at[static_cast<size_t>(n)] =
        first + row * stride * i.bytes + static_cast<uint64_t>(n % 2 * each);
  }
  Counters& c = w.counters;
  const int request_bytes = std::min(each, 16);
  const int requests = std::max(1, each / 16);
  if (space == Space::kShared) {
    const int wavefronts =
        requests * SharedWavefronts({rows_at.at.data(), kWarpLanes}, request_bytes);
    (store ? c.shared_store_requests : c.shared_load_requests) += requests;
    (store ? c.shared_store_wavefronts : c.shared_load_wavefronts) += wavefronts;
    (store ? c.shared_store_ideal : c.shared_load_ideal) +=
        requests * IdealWavefronts(kWarpLanes, request_bytes);
    c.shared_bytes += row_bytes * rows;
    w.latency = w.block->latencies.shared + static_cast<float>(wavefronts);
  } else if (store) {
    c.store_requests[static_cast<size_t>(WidthIndex(request_bytes))] += requests;
    c.store_sectors[static_cast<size_t>(WidthIndex(request_bytes))] += CountWrite(w, rows_at, each);
    c.store_bytes += row_bytes * rows;
    c.kind[static_cast<size_t>(Kind::kStoreGlobal)] += 1;
  } else {
    int sectors = 0;
    int lines = 0;
    w.latency = CountRead(w, rows_at, each, false, sectors, lines);
    c.load_requests[static_cast<size_t>(WidthIndex(request_bytes))] += requests;
    c.load_sectors[static_cast<size_t>(WidthIndex(request_bytes))] += sectors;
    c.load_bytes += row_bytes * rows;
    c.global_lines += lines;
    c.kind[static_cast<size_t>(Kind::kLoadGlobal)] += 1;
    c.loads += 1;
    c.load_cycles += w.latency;
    c.load_byte_cycles += static_cast<double>(w.latency) * sectors * kSectorBytes;
  }
  if (w.active == ~uint32_t{0} && i.approximates == nullptr) {
    MoveTile(w, i, space, first, stride);
    return;
  }
  w.block->approximated = "tiles of wmma in part of a warp";
  if (!store) ClearResults(w, i);
}

// Parses the numbers of e.g. "m16n8k16".
bool ShapeOf(const Opcode& opcode, double& m, double& n, double& k) {
  for (const std::string_view part : opcode.parts) {
    int numbers[3] = {0, 0, 0};
    const char* at = part.data();
    const char* const end = part.data() + part.size();
    bool ok = true;
    for (int d = 0; d < 3 && ok; ++d) {
      ok = at < end && *at == "mnk"[d];
      if (!ok) break;
      const auto [rest, error] = std::from_chars(at + 1, end, numbers[d]);
      ok = error == std::errc() && numbers[d] > 0 && numbers[d] <= 1024;
      at = rest;
    }
    if (ok && at == end) {
      m = numbers[0];
      n = numbers[1];
      k = numbers[2];
      return true;
    }
  }
  return false;
}

MatrixType MatrixTypeOf(const Opcode& opcode) {
  for (size_t k = opcode.parts.size(); k-- > 1;) {
    const std::string_view part = opcode.parts[k];
    if (part == "e4m3" || part == "e5m2") return MatrixType::kFloat8;
    if (part == "f16" || part == "bf16") return MatrixType::kHalf;
    if (part == "tf32") return MatrixType::kTf32;
    if (part == "f64") return MatrixType::kFloat64;
    if (part == "s8" || part == "u8") return MatrixType::kInteger8;
  }
  return MatrixType::kOther;
}

// Sets how a tile of wmma is held, if its values are moved.
void BindTileFragment(const Opcode& opcode, const Operand& registers, Instruction& i) {
  double m = 0;
  double n = 0;
  double k = 0;
  const auto kind = ElementKindOf(opcode.type());
  i.approximates = "tiles of wmma of this type";
  if (!kind || !ShapeOf(opcode, m, n, k)) return;
  Fragment fragment;
  fragment.role = opcode.Has("a") ? Role::kA : opcode.Has("b") ? Role::kB : Role::kC;
  fragment.kind = *kind;
  fragment.rows = static_cast<int>(fragment.role == Role::kB ? k : m);
  fragment.columns = static_cast<int>(fragment.role == Role::kA ? k : n);
  const auto given = static_cast<int>(Elements(registers).size());
  if (fragment.registers() < 1 || given % fragment.registers() != 0) return;
  i.approximates = nullptr;
  i.flops = static_cast<double>(PackTile(fragment));
  i.lanes = static_cast<uint8_t>(given);
  if (opcode.Has("col")) i.detail |= 2;
  i.shared_width = MayBeShared(i.space) ? i.bytes : 0;
}

// Sets how the matrices of a product are held, and the handler. Their values are not computed where
// that is not known.
Handler BindProduct(const Opcode& opcode, const Operands& operands, int m, int n, int k,
                    Instruction& i) {
  i.approximates = "matrix products of this type";
  const auto& parts = opcode.parts;
  if (operands.size() < 4 || parts.size() < 5) return MultiplyUnknown;
  const auto kind_at = [&](size_t from_end) {
    return ElementKindOf(parts[parts.size() - from_end]);
  };
  const bool two_types = !kind_at(3);
  const auto d = kind_at(two_types ? 2 : 4);
  const auto a = two_types ? ElementKind::kF16 : kind_at(3);
  const auto b = two_types ? ElementKind::kF16 : kind_at(2);
  const auto c = kind_at(1);
  if (!d || !a || !b || !c || (two_types && opcode.name() == "mma")) return MultiplyUnknown;
  // Has a layout of its own.
  if (opcode.name() == "mma" && m == 8 && BytesOf(*a) == 2) return MultiplyUnknown;
  if (m * k > static_cast<int>(kMostElements) || k * n > static_cast<int>(kMostElements) ||
      m * n > static_cast<int>(kMostElements)) {
    return MultiplyUnknown;
  }
  const Product product = {.a = {Role::kA, *a, m, k},
                           .b = {Role::kB, *b, k, n},
                           .c = {Role::kC, *c, m, n},
                           .d = *d,
                           .saturates = opcode.Has("satfinite")};
  Fragment result = product.c;
  result.kind = product.d;
  const auto given = [&](size_t at) { return static_cast<int>(Elements(operands[at]).size()); };
  const auto fits = [&](const Fragment& fragment, size_t at) {
    return fragment.registers() >= 1 && given(at) % fragment.registers() == 0;
  };
  if (!fits(product.a, 1) || !fits(product.b, 2) || product.c.registers() != given(3) ||
      result.registers() != given(0)) {
    return MultiplyUnknown;
  }
  i.approximates = nullptr;
  i.immediate = product.Pack();
  i.detail = static_cast<uint8_t>(given(1));
  i.bytes = static_cast<uint8_t>(given(2));
  return Multiply;
}

// Sets how the matrices of wgmma are held, and the handler.
Handler BindGroupProduct(const Opcode& opcode, const Operands& operands, int n, int k,
                         Instruction& i) {
  i.approximates = "products by wgmma of this type";
  const auto& parts = opcode.parts;
  if (operands.size() < 4 || parts.size() < 6) return MultiplyUnknown;
  const auto d = ElementKindOf(parts[parts.size() - 3]);
  const auto a = ElementKindOf(parts[parts.size() - 2]);
  const auto b = ElementKindOf(parts[parts.size() - 1]);
  if (!d || !a || !b || n > 256 || k * BytesOf(*a) != 32 || BytesOf(*a) != BytesOf(*b)) {
    return MultiplyUnknown;
  }
  const bool in_registers = operands[1].type == Operand::Type::kVector;
  const Fragment factor = {Role::kA, *a, 16, k};
  const Fragment result = {Role::kC, *d, 16, n};
  if (static_cast<int>(Elements(operands[0]).size()) != result.registers() ||
      (in_registers && static_cast<int>(operands[1].elements.size()) != factor.registers())) {
    return MultiplyUnknown;
  }
  const auto is = [&](size_t at, int64_t value) {
    return operands.size() > at && operands[at].type == Operand::Type::kImmediate &&
           static_cast<int32_t>(operands[at].bits) == value;
  };
  // Transposed factors are laid out otherwise.
  if (is(6, 1) || is(7, 1)) return MultiplyUnknown;
  const bool by_predicate = operands[3].type == Operand::Type::kRegister;
  i.detail = static_cast<uint8_t>(
      (in_registers ? kFactorInRegisters : 0) | (by_predicate ? kScaledByPredicate : 0) |
      (is(3, 0) ? kOverwrites : 0) | (is(4, -1) ? kNegatesA : 0) | (is(5, -1) ? kNegatesB : 0));
  i.approximates = nullptr;
  i.immediate = Product{.a = {Role::kA, *a, 64, k},
                        .b = {Role::kB, *b, k, n},
                        .c = {Role::kC, *d, 64, n},
                        .d = *d}
                    .Pack();
  return MultiplyGroup;
}

bool BindTile(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const bool store = opcode.Has("store");
  if (!store && !opcode.Has("load")) return Refuse(decoder, "not known");
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  Instruction& i = decoder.instruction();
  i.space = SpaceOf(opcode);
  i.code = store ? 1 : 0;
  const std::string_view type = opcode.type();
  i.bytes = type == "f32" || type == "s32" || type == "tf32" ? 4
            : type == "f64"                                  ? 8
            : type == "s8" || type == "u8"                   ? 1
                                                             : 2;
  BindTileFragment(opcode, operands[store ? 1 : 0], i);
  const auto stride = [&](size_t at) {
    if (operands.size() <= at) return;
    i.detail |= 1;
    decoder.Read(operands[at], SlotClass::kWord);
  };
  if (store) {
    decoder.ReadAddress(operands[0]);
    stride(2);
    if ((i.detail & 1) == 0) return Refuse(decoder, "a tile without a stride");
    for (const Operand& value : Elements(operands[1])) decoder.ReadAny(value);
  } else {
    for (const Operand& value : Elements(operands[0])) decoder.Write(value, decoder.KindOf(value));
    decoder.ReadAddress(operands[1]);
    stride(2);
  }
  return Set(decoder, TileAccess, {Kind::kMatrixLoad, Pipe::kMemory, 2, 33});
}

}  // namespace

bool BindMatrix(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  const std::string_view name = opcode.name();
  const bool group = name == "wgmma";
  if (group && !opcode.Has("mma_async")) {
    if (opcode.Has("wait_group")) i.flow = Flow::kNext;
    return Set(decoder, Nothing,
               {Kind::kOther, Pipe::kControl, 1, opcode.Has("wait_group") ? 60.0F : 4.0F});
  }
  if (opcode.Has("sp")) return Refuse(decoder, "sparse matrices");
  double m = 0;
  double n = 0;
  double k = 0;
  if (!ShapeOf(opcode, m, n, k) || operands.empty()) return Refuse(decoder, "not known");
  i.matrix = MatrixTypeOf(opcode);
  // If the accumulator's type is last, take the type of the factors.
  if (name == "mma" || group) {
    const auto& parts = opcode.parts;
    if (parts.size() >= 4) {
      Opcode factors;
      factors.parts = {parts[0], parts[parts.size() - 2]};
      i.matrix = MatrixTypeOf(group ? opcode : factors);
    }
  } else {
    i.matrix = opcode.Has("s8") || opcode.Has("u8") ? MatrixType::kInteger8
               : opcode.Has("tf32")                 ? MatrixType::kTf32
               : opcode.Has("f64")                  ? MatrixType::kFloat64
                                                    : MatrixType::kHalf;
  }
  i.flops = 2 * m * n * k / (group ? 4 : 1);
  i.code = group ? 1 : 0;
  const auto write = [&](const Operand& operand) {
    if (operand.type == Operand::Type::kVector) {
      for (const Operand& element : operand.elements)
        decoder.Write(element, decoder.KindOf(element));
    } else {
      decoder.Write(operand, decoder.KindOf(operand));
    }
  };
  const auto read = [&](const Operand& operand) {
    if (operand.type == Operand::Type::kVector) {
      for (const Operand& element : operand.elements) decoder.ReadAny(element);
    } else if (operand.type == Operand::Type::kRegister) {
      decoder.ReadAny(operand);
    }
  };
  write(operands[0]);
  if (group) {
    // The accumulators are read too, but the next product of the group reads them without a wait.
    for (size_t o = 1; o < operands.size(); ++o) {
      if (operands[o].type != Operand::Type::kImmediate) read(operands[o]);
    }
  } else {
    for (size_t o = 1; o < operands.size(); ++o) read(operands[o]);
  }
  // Cycles on a tensor core that performs 1024 half-precision multiply-adds per cycle.
  const float latency =
      group ? static_cast<float>(n) / 2 + 20 : 18 + static_cast<float>(i.flops / 256);
  Handler handler = MultiplyUnknown;
  if (group) {
    handler = BindGroupProduct(opcode, operands, static_cast<int>(n), static_cast<int>(k), i);
  } else {
    handler = BindProduct(opcode, operands, static_cast<int>(m), static_cast<int>(n),
                          static_cast<int>(k), i);
  }
  return Set(decoder, handler, {Kind::kMatrix, Pipe::kTensor, 1, std::min(latency, 128.0F)});
}

bool BindMatrixLoad(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const bool store = opcode.name() == "stmatrix";
  Instruction& i = decoder.instruction();
  if (operands.size() < 2 || !opcode.Has("m8n8")) return Refuse(decoder, "not known");
  i.lanes = opcode.Has("x4") ? 4 : opcode.Has("x2") ? 2 : 1;
  i.detail = opcode.Has("trans") ? 1 : 0;
  i.space = SpaceOf(opcode);
  i.code = store ? 1 : 0;
  if (store) {
    if (std::ssize(Elements(operands[1])) != i.lanes) return Refuse(decoder, "not known");
    decoder.ReadAddress(operands[0]);
    for (const Operand& value : Elements(operands[1])) decoder.Read(value, SlotClass::kWord);
  } else {
    if (std::ssize(Elements(operands[0])) != i.lanes) return Refuse(decoder, "not known");
    for (const Operand& value : Elements(operands[0])) decoder.Write(value, SlotClass::kWord);
    decoder.ReadAddress(operands[1]);
  }
  return Set(decoder, MatrixLoad, {Kind::kMatrixLoad, Pipe::kMemory, 1, 33});
}

// Fragments as whole matrices: loads, stores and products.
bool BindFragments(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  return opcode.Has("mma") ? BindMatrix(opcode, operands, decoder)
                           : BindTile(opcode, operands, decoder);
}

}  // namespace kernelcast::worker::virtual_gpu
