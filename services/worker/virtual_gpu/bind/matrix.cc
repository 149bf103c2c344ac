#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "services/worker/virtual_gpu/bind/memory_operands.h"
#include "services/worker/virtual_gpu/execute/access.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

// Results of matrix products are 0: they decide no branch in practice.
void Multiply(Warp& w, const Instruction& i) {
  w.counters.matrix[static_cast<size_t>(i.matrix)] += 1;
  w.counters.matrix_flops[static_cast<size_t>(i.matrix)] += i.flops;
  if (i.code != 0) w.counters.matrix_group_flops += i.flops;
  ClearResults(w, i);
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
  const Space space = Resolve(i.space, addresses);
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
    if (!store) ClearResults(w, i);
    return;
  }
  if (w.block->checker != nullptr && space == Space::kShared) CheckMatrices(w, i, addresses, store);
  MoveMatrices(w, i, space, addresses, store);
}

// wmma.load and wmma.store: a tile at one address with a stride. Approximates the fragment layouts:
// a row of 16 elements for two lanes.
void TileAccess(Warp& w, const Instruction& i) {
  const bool store = i.code != 0;
  Addresses base = Gather(w, i, i.writes);
  const Space space = Resolve(i.space, base);
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
  if (store) {
    return;
  }
  for (int m = 0; m < i.writes; ++m) {
    ForLanes(w.active, [&](int l) { WriteLane(w, operands[m], l, 0); });
  }
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

bool BindTile(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const bool store = opcode.Has("store");
  if (!store && !opcode.Has("load")) return Refuse(decoder, "not known");
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  Instruction& i = decoder.instruction();
  i.space = SpaceOf(opcode);
  i.code = store ? 1 : 0;
  // The mapping of lanes to elements is not modelled.
  i.hidden_synchronisation = store && MayBeShared(i.space);
  const std::string_view type = opcode.type();
  i.bytes = type == "f32" || type == "s32" || type == "tf32" ? 4
            : type == "f64"                                  ? 8
            : type == "s8" || type == "u8"                   ? 1
                                                             : 2;
  const auto stride = [&](size_t at) {
    if (operands.size() <= at) return;
    i.detail = 1;
    decoder.Read(operands[at], SlotClass::kWord);
  };
  if (store) {
    decoder.ReadAddress(operands[0]);
    stride(2);
    if (i.detail == 0) return Refuse(decoder, "a tile without a stride");
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
  return Set(decoder, Multiply, {Kind::kMatrix, Pipe::kTensor, 1, std::min(latency, 128.0F)});
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
