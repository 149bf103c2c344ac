#include "services/worker/virtual_gpu/execute/memory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/split_mix.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

constexpr uint64_t kBufferBase = 0x0000'2000'0000'0000;
constexpr int kBufferShift = 36;
constexpr size_t kMaxPages = 1 << 14;
constexpr size_t kFirstTableSize = 1 << 7;

uint64_t LowBits(uint64_t value, int bytes) {
  return bytes >= 8 ? value : value & ((uint64_t{1} << (8 * bytes)) - 1);
}

uint64_t HashOf(uint64_t index, int region) {
  return MixBits(index * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(region) + 1);
}

double Draw(const BufferSpec& buffer, uint64_t hash) {
  switch (buffer.values) {
    case BufferSpec::Values::kZeros: return 0;
    case BufferSpec::Values::kConstant: return buffer.first;
    case BufferSpec::Values::kNormal: {
      // The sum of four uniform values has variance 1/3.
      const double sum = static_cast<double>((hash & 0xffff) + (hash >> 16 & 0xffff) +
                                             (hash >> 32 & 0xffff) + (hash >> 48)) /
                         65536.0;
      return buffer.first + buffer.second * (sum - 2) * 1.7320508075688772;
    }
    case BufferSpec::Values::kUniform:
      return buffer.first +
             (buffer.second - buffer.first) * static_cast<double>(hash >> 11) * 0x1p-53;
    case BufferSpec::Values::kIntegers: {
      const double count = std::max(1.0, std::floor(buffer.second - buffer.first) + 1);
      return buffer.first + std::floor(static_cast<double>(hash >> 11) * 0x1p-53 * count);
    }
  }
  return 0;
}

uint64_t BitsOf(ElementType type, double value) {
  const auto single = static_cast<float>(value);
  const bool integral = std::abs(value) < 9e18;
  const int64_t whole = integral ? static_cast<int64_t>(value) : 0;
  switch (type) {
    case ElementType::kFloat64: return std::bit_cast<uint64_t>(value);
    case ElementType::kFloat32: return std::bit_cast<uint32_t>(single);
    case ElementType::kFloat16: return ToHalf(single);
    case ElementType::kBfloat16: return ToBfloat16(single);
    case ElementType::kFloat8E4m3: return ToFloat8(single, false);
    case ElementType::kFloat8E5m2: return ToFloat8(single, true);
    case ElementType::kInt64:
    case ElementType::kInt32:
    case ElementType::kInt8:
    case ElementType::kUint8: return LowBits(static_cast<uint64_t>(whole), ElementBytes(type));
  }
  return 0;
}

}  // namespace

int ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kFloat64:
    case ElementType::kInt64: return 8;
    case ElementType::kFloat32:
    case ElementType::kInt32: return 4;
    case ElementType::kFloat16:
    case ElementType::kBfloat16: return 2;
    case ElementType::kFloat8E4m3:
    case ElementType::kFloat8E5m2:
    case ElementType::kInt8:
    case ElementType::kUint8: return 1;
  }
  return 4;
}

uint16_t ToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x47800000) {  // 65536 or more
    return static_cast<uint16_t>(sign | (magnitude > 0x7f800000 ? 0x7fff : 0x7c00));
  }
  if (magnitude < 0x38800000) {  // below the smallest normal number
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0F;
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(scaled)));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

float FromHalf(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000U} << 16;
  const uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00) {
    return std::bit_cast<float>(sign | 0x7f800000 | magnitude << 13);
  }
  if (magnitude < 0x400) {
    const float value = static_cast<float>(magnitude) / 16777216.0F;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
}

uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return 0x7fff;
  }
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float FromBfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint8_t ToFloat8(float value, bool e5m2) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 24 & 0x80;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return static_cast<uint8_t>(sign | 0x7f);
  }
  const int fraction = e5m2 ? 2 : 3;
  const int bias = e5m2 ? 15 : 7;
  const uint32_t largest = e5m2 ? 0x7b : 0x7e;
  // The float32 exponent bits of the smallest normal number.
  const auto least = static_cast<uint32_t>(128 - bias) << 23;
  uint32_t code = 0;
  if (magnitude < least) {
    code = static_cast<uint32_t>(
        std::nearbyint(std::ldexp(std::bit_cast<float>(magnitude), bias - 1 + fraction)));
  } else {
    const int dropped = 23 - fraction;
    const uint32_t half = (uint32_t{1} << (dropped - 1)) - 1;
    const uint64_t rounded = uint64_t{magnitude} + half + (magnitude >> dropped & 1);
    code = static_cast<uint32_t>((rounded - (least - (uint32_t{1} << 23))) >> dropped);
  }
  return static_cast<uint8_t>(sign | std::min(code, largest));
}

float FromFloat8(uint8_t bits, bool e5m2) {
  static const std::array<std::array<float, 128>, 2> kMagnitudes = [] {
    std::array<std::array<float, 128>, 2> tables{};
    for (int wide = 0; wide < 2; ++wide) {
      const int fraction = wide != 0 ? 2 : 3;
      const int bias = wide != 0 ? 15 : 7;
      for (int code = 0; code < 128; ++code) {
        const int exponent = code >> fraction;
        const int digits = code & ((1 << fraction) - 1);
        tables[static_cast<size_t>(wide)][static_cast<size_t>(code)] =
            exponent == 0 ? std::ldexp(static_cast<float>(digits), 1 - bias - fraction)
                          : std::ldexp(static_cast<float>(digits + (1 << fraction)),
                                       exponent - bias - fraction);
      }
    }
    return tables;
  }();
  const float magnitude = kMagnitudes[e5m2 ? 1 : 0][bits & 0x7f];
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

const std::array<uint16_t, 256>& HalvesOfFloat8(bool e5m2) {
  static const std::array<std::array<uint16_t, 256>, 2> kHalves = [] {
    std::array<std::array<uint16_t, 256>, 2> tables{};
    for (size_t code = 0; code < 256; ++code) {
      for (const bool wide : {false, true}) {
        tables[wide ? 1 : 0][code] = ToHalf(FromFloat8(static_cast<uint8_t>(code), wide));
      }
    }
    return tables;
  }();
  return kHalves[e5m2 ? 1 : 0];
}

GlobalMemory::GlobalMemory(std::span<const BufferSpec> buffers, const Program& program)
    : buffers_(buffers.begin(), buffers.begin() + static_cast<ptrdiff_t>(std::min<size_t>(
                                                      buffers.size(), kMaxBuffers))),
      program_(&program),
      table_(kFirstTableSize, -1) {
  for (BufferSpec& buffer : buffers_) {
    contents_.push_back(std::exchange(buffer.content, {}));
    contents_.back().resize(contents_.back().empty() ? 0 : static_cast<size_t>(buffer.bytes));
  }
  for (const ModuleVariable& variable : program.variables) {
    module_bytes_ = std::max<int64_t>(
        module_bytes_, static_cast<int64_t>(variable.address - kModuleBase) + variable.bytes);
  }
}

uint64_t GlobalMemory::AddressOf(int buffer) {
  return kBufferBase + (static_cast<uint64_t>(buffer) << kBufferShift);
}

int GlobalMemory::RegionOf(uint64_t address) const {
  if (address >= kModuleBase && address - kModuleBase < static_cast<uint64_t>(module_bytes_)) {
    return kMaxBuffers;
  }
  if (address < kBufferBase) {
    return -1;
  }
  const uint64_t index = (address - kBufferBase) >> kBufferShift;
  if (index >= buffers_.size() || address - AddressOf(static_cast<int>(index)) >=
                                      static_cast<uint64_t>(buffers_[index].bytes)) {
    return -1;
  }
  return static_cast<int>(index);
}

int GlobalMemory::NearestRegion(uint64_t address) const {
  // Buffers are far apart: an address closer to the start of the next buffer belongs to that one.
  const uint64_t half = uint64_t{1} << (kBufferShift - 1);
  if (address + half < kBufferBase) return -1;
  const uint64_t index = (address + half - kBufferBase) >> kBufferShift;
  if (index < buffers_.size() && address < AddressOf(static_cast<int>(index))) {
    return static_cast<int>(index);
  }
  const uint64_t within = (address - kBufferBase) >> kBufferShift;
  return within < buffers_.size() ? static_cast<int>(within) : -1;
}

uint64_t GlobalMemory::NarrowElements(const BufferSpec& buffer, int region, uint64_t offset,
                                      int bytes) const {
  const auto each = static_cast<uint64_t>(ElementBytes(buffer.type));
  std::vector<uint16_t>& draws = draws_[static_cast<size_t>(region)];
  if (draws.empty()) {
    for (uint64_t i = 0; i < (each == 1 ? 256 : 1024); ++i) {
      draws.push_back(static_cast<uint16_t>(BitsOf(buffer.type, Draw(buffer, HashOf(i, region)))));
    }
  }
  // One hash provides eight bytes.
  const uint64_t hash = HashOf(offset / 8, region);
  const uint64_t first = offset % 8 / each * each;
  uint64_t value = 0;
  for (uint64_t at = first; at < offset % 8 + static_cast<uint64_t>(bytes); at += each) {
    value |= uint64_t{draws[(hash >> (8 * at)) & (draws.size() - 1)]} << (8 * (at - first));
  }
  return LowBits(value >> (8 * (offset % 8 - first)), bytes);
}

uint64_t GlobalMemory::Initial(int region, uint64_t offset, int bytes) const {
  if (region == kMaxBuffers) {
    const uint64_t address = kModuleBase + offset;
    for (const ModuleVariable& variable : program_->variables) {
      if (address < variable.address ||
          address - variable.address >= static_cast<uint64_t>(variable.bytes)) {
        continue;
      }
      uint64_t value = 0;
      const uint64_t at = address - variable.address;
      for (int i = 0; i < bytes; ++i) {
        const uint64_t from = at + static_cast<uint64_t>(i);
        if (from < variable.initial.size()) {
          value |= uint64_t{static_cast<uint8_t>(variable.initial[from])} << (8 * i);
        }
      }
      return value;
    }
    return 0;
  }
  const BufferSpec& buffer = buffers_[static_cast<size_t>(region)];
  if (buffer.values == BufferSpec::Values::kZeros) {
    return 0;
  }
  const int each = ElementBytes(buffer.type);
  // Rounding to a narrow type is the most expensive part of a load, so it has a fast path.
  if (each <= 2) return NarrowElements(buffer, region, offset, bytes);
  const auto unit = static_cast<uint64_t>(each);
  const auto element = [&](uint64_t at) {
    return BitsOf(buffer.type, Draw(buffer, HashOf(at / unit, region)));
  };
  if (bytes <= each) return LowBits(element(offset) >> (8 * (offset % unit)), bytes);
  uint64_t value = 0;
  for (int i = 0; i < bytes; i += each) {
    value |= element(offset + static_cast<uint64_t>(i)) << (8 * i);
  }
  return value;
}

size_t GlobalMemory::Locate(uint64_t number) const {
  const size_t mask = table_.size() - 1;
  size_t at = MixBits(number) & mask;
  while (table_[at] >= 0 && pages_[static_cast<size_t>(table_[at])].number != number) {
    at = (at + 1) & mask;
  }
  return at;
}

uint64_t GlobalMemory::Read(uint64_t address, int bytes) const {
  address &= ~(static_cast<uint64_t>(bytes) - 1);
  const int region = RegionOf(address);
  if (region < 0) {
    return 0;
  }
  if (region != kMaxBuffers && !contents_[static_cast<size_t>(region)].empty()) {
    const std::string& content = contents_[static_cast<size_t>(region)];
    const uint64_t offset = address - AddressOf(region);
    uint64_t value = 0;
    std::memcpy(&value, content.data() + offset,
                std::min<uint64_t>(static_cast<uint64_t>(bytes), content.size() - offset));
    return value;
  }
  if (written_[static_cast<size_t>(region)]) {
    const int32_t index = table_[Locate(address / kPageBytes)];
    const uint64_t in_page = address % kPageBytes;
    if (index >= 0) {
      const Page& page = pages_[static_cast<size_t>(index)];
      if ((page.written[in_page / 64] >> (in_page % 64) & 1) != 0) {
        uint64_t value = 0;
        std::memcpy(&value, page.bytes.data() + in_page, static_cast<size_t>(bytes));
        return value;
      }
    }
  }
  const uint64_t base = region == kMaxBuffers ? kModuleBase : AddressOf(region);
  return Initial(region, address - base, bytes);
}

void GlobalMemory::Write(uint64_t address, int bytes, uint64_t value) {
  address &= ~(static_cast<uint64_t>(bytes) - 1);
  const int region = RegionOf(address);
  if (region < 0) {
    return;
  }
  if (region != kMaxBuffers && !contents_[static_cast<size_t>(region)].empty()) {
    std::string& content = contents_[static_cast<size_t>(region)];
    const uint64_t offset = address - AddressOf(region);
    std::memcpy(content.data() + offset, &value,
                std::min<uint64_t>(static_cast<uint64_t>(bytes), content.size() - offset));
    written_[static_cast<size_t>(region)] = true;
    return;
  }
  size_t at = Locate(address / kPageBytes);
  if (table_[at] < 0) {
    if (pages_.size() >= kMaxPages) {
      full_ = true;
      return;
    }
    if (pages_.size() * 2 >= table_.size()) {
      table_.assign(table_.size() * 4, -1);
      for (size_t k = 0; k < pages_.size(); ++k) {
        table_[Locate(pages_[k].number)] = static_cast<int32_t>(k);
      }
      at = Locate(address / kPageBytes);
    }
    table_[at] = static_cast<int32_t>(pages_.size());
    pages_.emplace_back();
    pages_.back().number = address / kPageBytes;
  }
  written_[static_cast<size_t>(region)] = true;
  Page& page = pages_[static_cast<size_t>(table_[at])];
  const uint64_t in_page = address % kPageBytes;
  std::memcpy(page.bytes.data() + in_page, &value, static_cast<size_t>(bytes));
  page.written[in_page / 64] |= ((uint64_t{1} << bytes) - 1) << (in_page % 64);
}

}  // namespace kernelcast::worker::virtual_gpu
