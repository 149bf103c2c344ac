#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_MEMORY_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_MEMORY_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

enum class ElementType : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBfloat16,
  kFloat8E4m3,
  kFloat8E5m2,
  kInt64,
  kInt32,
  kInt8,
  kUint8,
};
int ElementBytes(ElementType type);

// Initial content of a buffer: values that are a function of their positions.
struct BufferSpec {
  enum class Values : uint8_t { kZeros, kNormal, kUniform, kIntegers, kConstant };
  int64_t bytes = 0;
  ElementType type = ElementType::kFloat32;
  Values values = Values::kZeros;
  // Mean and standard deviation, or lowest and highest, or the constant (`second` unused).
  double first = 0;
  double second = 0;
  // Whether the buffer holds these values before the first launch; otherwise its content is
  // undefined.
  bool initialised = true;
  bool is_output = false;
  std::string name = {};  // for messages
  // The initial bytes, instead of `values`: empty, or `bytes` of them.
  std::string content = {};
};

inline constexpr int kMaxBuffers = 24;
// Footprints are kept per region: the buffers, and after them the variables of the module.
inline constexpr int kRegions = kMaxBuffers + 1;

// Conversions between bits and values. Rounds to nearest even.
uint16_t ToHalf(float value);
float FromHalf(uint16_t bits);
uint16_t ToBfloat16(float value);
float FromBfloat16(uint16_t bits);
uint8_t ToFloat8(float value, bool e5m2);
float FromFloat8(uint8_t bits, bool e5m2);
// ToHalf(FromFloat8(code)) for each code.
const std::array<uint16_t, 256>& HalvesOfFloat8(bool e5m2);

// Global memory. Buffers may have any size: only written pages take space, up to a bound. Reads
// outside all buffers return 0; writes there have no effect. Not thread-safe.
class GlobalMemory {
 public:
  GlobalMemory(std::span<const BufferSpec> buffers, const Program& program);

  static uint64_t AddressOf(int buffer);
  // Index of the region that contains an address, or -1.
  int RegionOf(uint64_t address) const;
  // The region that an out-of-bounds address was probably meant for, or -1.
  int NearestRegion(uint64_t address) const;
  // Whether anything has been written to the region.
  bool Written(int region) const { return written_[static_cast<size_t>(region)]; }

  // `bytes`: 1, 2, 4 or 8.
  uint64_t Read(uint64_t address, int bytes) const;
  void Write(uint64_t address, int bytes, uint64_t value);

  // The bytes of a buffer that was given its content.
  std::string_view Content(int buffer) const { return contents_[static_cast<size_t>(buffer)]; }
  // Whether writes were lost because they touched more pages than the bound.
  bool full() const { return full_; }

 private:
  static constexpr int kPageBytes = 256;
  struct Page {
    uint64_t number = 0;
    std::array<uint64_t, kPageBytes / 64> written = {};
    std::array<uint8_t, kPageBytes> bytes = {};
  };

  uint64_t Initial(int region, uint64_t offset, int bytes) const;
  // Reads within an aligned group of eight bytes.
  uint64_t NarrowElements(const BufferSpec& buffer, int region, uint64_t offset, int bytes) const;
  // Index in table_ of the page, or of its insertion point.
  size_t Locate(uint64_t number) const;

  std::vector<BufferSpec> buffers_;    // without their content
  std::vector<std::string> contents_;  // by buffer
  // By buffer of narrow numbers: the values that occur in it; empty until it is read.
  mutable std::array<std::vector<uint16_t>, kMaxBuffers> draws_;
  const Program* program_;  // must outlive the memory
  int64_t module_bytes_ = 0;
  std::vector<Page> pages_;
  std::vector<int32_t> table_;  // indices into pages_, or -1; the size is a power of two
  std::array<bool, kRegions> written_ = {};
  bool full_ = false;
};

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_MEMORY_H_
