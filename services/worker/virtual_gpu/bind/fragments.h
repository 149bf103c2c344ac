#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_FRAGMENTS_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_FRAGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

// How the lanes of a warp hold the matrices of mma and wmma: which element is in which part of
// which register. The layouts of mma are those of the PTX ISA. wmma leaves them open; it has tiles
// of mma, as on the GPUs.

namespace kernelcast::worker::virtual_gpu {

enum class ElementKind : uint8_t { kF16, kBf16, kTf32, kF32, kF64, kE4m3, kE5m2, kS8, kU8, kS32 };

// nullopt for types whose values are not computed.
std::optional<ElementKind> ElementKindOf(std::string_view name);
int BytesOf(ElementKind kind);
// Elements that share a register: of 32 bits, or of 64 for kF64.
int ElementsPerRegister(ElementKind kind);
double DecodeElement(ElementKind kind, uint64_t bits);
// Integers wrap.
uint64_t EncodeElement(ElementKind kind, double value);

enum class Role : uint8_t { kA, kB, kC };

// A matrix of a product: A is m x k, B is k x n, C is m x n.
struct Fragment {
  Role role = Role::kA;
  ElementKind kind = ElementKind::kF16;
  int rows = 0;
  int columns = 0;

  int registers() const { return rows * columns / (32 * ElementsPerRegister(kind)); }

  struct Position {
    int row;
    int column;
  };
  // The element in a part of a register of a lane.
  Position At(int lane, int register_index, int part) const;
};

// A product d = a * b + c of a warp.
struct Product {
  Fragment a;
  Fragment b;
  Fragment c;
  ElementKind d = ElementKind::kF32;
  bool saturates = false;

  // Into the immediate of an instruction, and back.
  int64_t Pack() const;
  static Product Unpack(int64_t packed);
};

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_FRAGMENTS_H_
