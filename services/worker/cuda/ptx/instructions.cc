#include <algorithm>
#include <bit>
#include <cfenv>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "services/worker/cuda/ptx/access.h"
#include "services/worker/cuda/ptx/binding.h"
#include "services/worker/cuda/ptx/decoder.h"
#include "services/worker/cuda/ptx/warp.h"

// The semantics and costs of each instruction. Issue slots and latencies approximate the machine
// code that ptxas generates for sm_80 to sm_90.

namespace kernelcast::worker::ptx {
namespace {

// --- Elementwise ---------------------------------------------------------------------------------

template <class T, class F>
void Unary(Warp& w, const Instruction& i) {
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  ForLanes(w.active, [&](int l) { T::Set(d, l, F::Of(T::Get(a, l))); });
}
template <class T, class F>
void Binary(Warp& w, const Instruction& i) {
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<typename T::Lane>(i, 2);
  ForLanes(w.active, [&](int l) { T::Set(d, l, F::Of(T::Get(a, l), T::Get(b, l))); });
}
template <class T, class F>
void Ternary(Warp& w, const Instruction& i) {
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<typename T::Lane>(i, 2);
  const auto* c = w.lanes<typename T::Lane>(i, 3);
  ForLanes(w.active, [&](int l) { T::Set(d, l, F::Of(T::Get(a, l), T::Get(b, l), T::Get(c, l))); });
}
// The second operand is always a word.
template <class T, class F>
void Shift(Warp& w, const Instruction& i) {
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  ForLanes(w.active, [&](int l) { T::Set(d, l, F::Of(T::Get(a, l), b[l])); });
}
// Operates on both halves of a word.
template <bool kBrain, class F, int kSources>
void Packed(Warp& w, const Instruction& i) {
  using H = HalfType<kBrain>;
  auto* d = w.lanes<LaneU32>(i, 0);
  const LaneU32* s[3] = {w.lanes<LaneU32>(i, 1), kSources > 1 ? w.lanes<LaneU32>(i, 2) : nullptr,
                         kSources > 2 ? w.lanes<LaneU32>(i, 3) : nullptr};
  ForLanes(w.active, [&](int l) {
    uint32_t result = 0;
    for (int half = 0; half < 2; ++half) {
      const int by = 16 * half;
      const float a = H::Decode(s[0][l] >> by & 0xffff);
      float value = 0;
      if constexpr (kSources == 1) {
        value = F::Of(a);
      } else if constexpr (kSources == 2) {
        value = F::Of(a, H::Decode(s[1][l] >> by & 0xffff));
      } else {
        value = F::Of(a, H::Decode(s[1][l] >> by & 0xffff), H::Decode(s[2][l] >> by & 0xffff));
      }
      result |= H::Encode(value) << by;
    }
    d[l] = result;
  });
}

template <class V>
using Wider =
    std::conditional_t<sizeof(V) == 8,
                       std::conditional_t<std::is_signed_v<V>, __int128, unsigned __int128>,
                       std::conditional_t<std::is_signed_v<V>, int64_t, uint64_t>>;
template <class V>
V Wrap(auto value) {
  return static_cast<V>(static_cast<std::make_unsigned_t<V>>(value));
}
template <class V>
using Raw = std::conditional_t<(sizeof(V) < 4), uint32_t, std::make_unsigned_t<V>>;

struct Add {
  template <class V>
  static V Of(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      return Wrap<V>(static_cast<Raw<V>>(a) + static_cast<Raw<V>>(b));
    } else {
      return a + b;
    }
  }
};
struct Sub {
  template <class V>
  static V Of(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      return Wrap<V>(static_cast<Raw<V>>(a) - static_cast<Raw<V>>(b));
    } else {
      return a - b;
    }
  }
};
struct Mul {
  template <class V>
  static V Of(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      return Wrap<V>(static_cast<Raw<V>>(a) * static_cast<Raw<V>>(b));
    } else {
      return a * b;
    }
  }
};
struct MulHigh {
  template <class V>
  static V Of(V a, V b) {
    return Wrap<V>(static_cast<Wider<V>>(a) * static_cast<Wider<V>>(b) >> (8 * sizeof(V)));
  }
};
struct Mad {
  template <class V>
  static V Of(V a, V b, V c) {
    if constexpr (std::is_integral_v<V>) {
      return Add::Of<V>(Mul::Of<V>(a, b), c);
    } else if constexpr (sizeof(V) == 4) {
      // Rounds twice in rare cases, but is much faster than a call of fma.
      return static_cast<V>(static_cast<double>(a) * static_cast<double>(b) +
                            static_cast<double>(c));
    } else {
      return std::fma(a, b, c);
    }
  }
};
struct MadHigh {
  template <class V>
  static V Of(V a, V b, V c) {
    return Add::Of<V>(MulHigh::Of<V>(a, b), c);
  }
};
struct Div {
  template <class V>
  static V Of(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      if (b == 0) return static_cast<V>(-1);
      if (std::is_signed_v<V> && b == static_cast<V>(-1)) return Sub::Of<V>(0, a);
      return static_cast<V>(a / b);
    } else {
      return a / b;
    }
  }
};
struct Rem {
  template <class V>
  static V Of(V a, V b) {
    if (b == 0) return a;
    if (std::is_signed_v<V> && b == static_cast<V>(-1)) return 0;
    return static_cast<V>(a % b);
  }
};
struct Min {
  template <class V>
  static V Of(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      return std::min(a, b);
    } else {
      return std::fmin(a, b);
    }
  }
};
struct Max {
  template <class V>
  static V Of(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      return std::max(a, b);
    } else {
      return std::fmax(a, b);
    }
  }
};
struct ReluMin {
  static int32_t Of(int32_t a, int32_t b) { return std::max(std::min(a, b), 0); }
};
struct ReluMax {
  static int32_t Of(int32_t a, int32_t b) { return std::max({a, b, 0}); }
};
inline int32_t Saturated(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
}
struct SaturatedAdd {
  static int32_t Of(int32_t a, int32_t b) { return Saturated(int64_t{a} + b); }
};
struct SaturatedSub {
  static int32_t Of(int32_t a, int32_t b) { return Saturated(int64_t{a} - b); }
};
// NaN if either operand is.
struct StrictMin {
  template <class V>
  static V Of(V a, V b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<V>::quiet_NaN() : std::fmin(a, b);
  }
};
struct StrictMax {
  template <class V>
  static V Of(V a, V b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<V>::quiet_NaN() : std::fmax(a, b);
  }
};
struct Neg {
  template <class V>
  static V Of(V a) {
    if constexpr (std::is_integral_v<V>) {
      return Sub::Of<V>(0, a);
    } else {
      return -a;
    }
  }
};
struct Abs {
  template <class V>
  static V Of(V a) {
    if constexpr (std::is_unsigned_v<V>) {
      return a;
    } else if constexpr (std::is_integral_v<V>) {
      return a < 0 ? Sub::Of<V>(0, a) : a;
    } else {
      return std::fabs(a);
    }
  }
};
struct And {
  template <class V>
  static V Of(V a, V b) {
    return static_cast<V>(a & b);
  }
};
struct Or {
  template <class V>
  static V Of(V a, V b) {
    return static_cast<V>(a | b);
  }
};
struct Xor {
  template <class V>
  static V Of(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};
struct Not {
  template <class V>
  static V Of(V a) {
    return static_cast<V>(~a);
  }
};
struct LogicalNot {
  template <class V>
  static V Of(V a) {
    return a == 0 ? 1 : 0;
  }
};
struct Same {
  template <class V>
  static V Of(V a) {
    return a;
  }
};
struct ShiftLeft {
  template <class V>
  static V Of(V a, uint32_t by) {
    return by >= 8 * sizeof(V) ? V{0} : static_cast<V>(static_cast<Raw<V>>(a) << by);
  }
};
struct ShiftRight {
  template <class V>
  static V Of(V a, uint32_t by) {
    const auto most = static_cast<uint32_t>(8 * sizeof(V) - 1);
    if (by > most) return std::is_signed_v<V> ? static_cast<V>(a >> most) : V{0};
    return static_cast<V>(a >> by);
  }
};
struct PopCount {
  template <class V>
  static V Of(V a) {
    return static_cast<V>(std::popcount(a));
  }
};
struct ReverseBits {
  template <class V>
  static V Of(V a) {
    V result = 0;
    for (size_t bit = 0; bit < 8 * sizeof(V); ++bit) {
      result = static_cast<V>(result << 1 | (a >> bit & 1));
    }
    return result;
  }
};
struct Sad {
  template <class V>
  static V Of(V a, V b, V c) {
    return Add::Of<V>(c, a < b ? Sub::Of<V>(b, a) : Sub::Of<V>(a, b));
  }
};

struct Reciprocal {
  template <class V>
  static V Of(V a) {
    return 1 / a;
  }
};
struct SquareRoot {
  template <class V>
  static V Of(V a) {
    return std::sqrt(a);
  }
};
struct ReciprocalRoot {
  template <class V>
  static V Of(V a) {
    return 1 / std::sqrt(a);
  }
};
struct PowerOfTwo {
  static float Of(float a) { return std::exp2(a); }
};
struct LogOfTwo {
  static float Of(float a) { return std::log2(a); }
};
struct Sine {
  static float Of(float a) { return std::isfinite(a) ? std::sin(a) : a; }
};
struct Cosine {
  static float Of(float a) { return std::isfinite(a) ? std::cos(a) : a; }
};
struct Tangent {
  static float Of(float a) { return std::tanh(a); }
};
struct CopySign {
  template <class V>
  static V Of(V a, V b) {
    return std::copysign(b, a);
  }
};

// Products of twice the width.
template <class V, bool kAdds>
void MultiplyWide(Warp& w, const Instruction& i) {
  using Narrow = IntegerType<V>;
  using W = std::conditional_t<sizeof(V) == 4, Wider<V>,
                               std::conditional_t<std::is_signed_v<V>, int32_t, uint32_t>>;
  using Wide = IntegerType<W>;
  auto* d = w.lanes<typename Wide::Lane>(i, 0);
  const auto* a = w.lanes<typename Narrow::Lane>(i, 1);
  const auto* b = w.lanes<typename Narrow::Lane>(i, 2);
  const auto* c = kAdds ? w.lanes<typename Wide::Lane>(i, 3) : nullptr;
  ForLanes(w.active, [&](int l) {
    W product = Mul::Of<W>(static_cast<W>(Narrow::Get(a, l)), static_cast<W>(Narrow::Get(b, l)));
    if (kAdds) product = Add::Of<W>(product, Wide::Get(c, l));
    Wide::Set(d, l, product);
  });
}

void FunnelShift(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  const bool left = i.code == 0;
  const bool wraps = i.detail != 0;
  ForLanes(w.active, [&](int l) {
    const uint64_t both = uint64_t{b[l]} << 32 | a[l];
    const uint32_t by = wraps ? c[l] & 31 : std::min<uint32_t>(c[l], 32);
    d[l] = static_cast<uint32_t>(left ? (by == 0 ? both >> 32 : both >> (32 - by)) : both >> by);
  });
}

void Permute(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  ForLanes(w.active, [&](int l) {
    const uint64_t both = uint64_t{b[l]} << 32 | a[l];
    uint32_t result = 0;
    for (int byte = 0; byte < 4; ++byte) {
      const uint32_t select = c[l] >> (4 * byte) & 0xf;
      uint32_t value = both >> (8 * (select & 7)) & 0xff;
      if ((select & 8) != 0) value = (value & 0x80) != 0 ? 0xff : 0;
      result |= value << (8 * byte);
    }
    d[l] = result;
  });
}

void Lookup(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  const auto table = static_cast<uint32_t>(i.immediate);
  ForLanes(w.active, [&](int l) {
    uint32_t result = 0;
    for (uint32_t row = 0; row < 8; ++row) {
      if ((table >> row & 1) == 0) continue;
      result |= ((row & 4) != 0 ? a[l] : ~a[l]) & ((row & 2) != 0 ? b[l] : ~b[l]) &
                ((row & 1) != 0 ? c[l] : ~c[l]);
    }
    d[l] = result;
  });
}

template <class V>
void ExtractBits(Warp& w, const Instruction& i) {
  using T = IntegerType<V>;
  using U = std::make_unsigned_t<V>;
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  constexpr uint32_t kBits = 8 * sizeof(V);
  ForLanes(w.active, [&](int l) {
    const uint32_t at = b[l] & 0xff;
    const uint32_t count = c[l] & 0xff;
    const V value = T::Get(a, l);
    const bool sign = std::is_signed_v<V> && count > 0 &&
                      (static_cast<U>(value) >> std::min(at + count - 1, kBits - 1) & 1) != 0;
    U result = at >= kBits ? U{0} : static_cast<U>(static_cast<U>(value) >> at);
    if (count < kBits) {
      const U mask = static_cast<U>((U{1} << count) - 1);
      result = sign ? result | static_cast<U>(~mask) : result & mask;
    }
    T::Set(d, l, static_cast<V>(result));
  });
}

template <class V>
void InsertBits(Warp& w, const Instruction& i) {
  using T = IntegerType<V>;
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<typename T::Lane>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  const auto* e = w.lanes<LaneU32>(i, 4);
  constexpr uint32_t kBits = 8 * sizeof(V);
  ForLanes(w.active, [&](int l) {
    const uint32_t at = c[l] & 0xff;
    const uint32_t count = e[l] & 0xff;
    const V below = count >= kBits ? static_cast<V>(~V{0}) : static_cast<V>((V{1} << count) - 1);
    const V mask = at >= kBits ? V{0} : static_cast<V>(below << at);
    const V moved = at >= kBits ? V{0} : static_cast<V>(T::Get(a, l) << at);
    T::Set(d, l, static_cast<V>((T::Get(b, l) & ~mask) | (moved & mask)));
  });
}

// The result is always a word.
template <class V>
void CountBits(Warp& w, const Instruction& i) {
  using T = IntegerType<V>;
  using U = std::make_unsigned_t<V>;
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  ForLanes(w.active, [&](int l) {
    U value = static_cast<U>(T::Get(a, l));
    switch (i.code) {
      case 0: d[l] = static_cast<uint32_t>(std::popcount(value)); break;
      case 1: d[l] = static_cast<uint32_t>(std::countl_zero(value)); break;
      default: {
        if (std::is_signed_v<V> && static_cast<V>(value) < 0) value = static_cast<U>(~value);
        const int top = static_cast<int>(8 * sizeof(V)) - 1 - std::countl_zero(value);
        const int shift = static_cast<int>(8 * sizeof(V)) - 1 - top;
        d[l] = value == 0 ? 0xffffffff : static_cast<uint32_t>(i.code == 2 ? top : shift);
      }
    }
  });
}

// --- Comparisons and selections ------------------------------------------------------------------

uint32_t Combine(uint8_t detail, uint32_t result, uint32_t other) {
  switch (detail & 7) {
    case 1: return result & other;
    case 2: return result | other;
    case 3: return result ^ other;
    default: return result;
  }
}
constexpr uint8_t kUnordered = 8;
constexpr uint8_t kNegatedThird = 16;

template <class T>
void SetPredicate(Warp& w, const Instruction& i) {
  const auto* a = w.lanes<typename T::Lane>(i, i.writes);
  const auto* b = w.lanes<typename T::Lane>(i, i.writes + 1);
  uint32_t result = 0;
  const bool unordered = (i.detail & kUnordered) != 0;
  ForLanes(w.active, [&](int l) {
    result |= static_cast<uint32_t>(Compares(i.code, unordered, T::Get(a, l), T::Get(b, l))) << l;
  });
  if constexpr (std::is_integral_v<typename T::Value>) {
    if (i.driver >= 0) {
      DriverValues& driver = w.drivers[static_cast<size_t>(i.driver)];
      driver.seen = true;
      driver.comparison = i.code;
      driver.is_unsigned = std::is_unsigned_v<typename T::Value>;
      ForLanes(w.active, [&](int l) {
        driver.left[static_cast<size_t>(l)] = static_cast<int64_t>(T::Get(a, l));
        driver.right[static_cast<size_t>(l)] = static_cast<int64_t>(T::Get(b, l));
      });
    }
  }
  uint32_t other = i.reads > 2 ? w.predicate(i, i.writes + 2) : 0;
  if ((i.detail & kNegatedThird) != 0) other = ~other;
  uint32_t& first = w.predicate(i, 0);
  const uint32_t opposite = Combine(i.detail, ~result, other);
  first = (first & ~w.active) | (Combine(i.detail, result, other) & w.active);
  if (i.writes > 1) {
    uint32_t& second = w.predicate(i, 1);
    second = (second & ~w.active) | (opposite & w.active);
  }
}

// "set" on integers: all ones or zero.
template <class T>
void SetValue(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<typename T::Lane>(i, 2);
  const auto is = static_cast<uint32_t>(i.immediate);
  ForLanes(w.active,
           [&](int l) { d[l] = Compares(i.code, false, T::Get(a, l), T::Get(b, l)) ? is : 0; });
}

template <class Lane>
void Select(Warp& w, const Instruction& i) {
  auto* d = w.lanes<Lane>(i, 0);
  const auto* a = w.lanes<Lane>(i, 1);
  const auto* b = w.lanes<Lane>(i, 2);
  uint32_t p = w.predicate(i, 3);
  if (i.detail != 0) p = ~p;
  ForLanes(w.active, [&](int l) { d[l] = (p >> l & 1) != 0 ? a[l] : b[l]; });
}

void PredicateLogic(Warp& w, const Instruction& i) {
  uint32_t a = w.predicate(i, 1);
  uint32_t b = i.reads > 1 ? w.predicate(i, 2) : 0;
  if ((i.detail & 1) != 0) a = ~a;
  if ((i.detail & 2) != 0) b = ~b;
  uint32_t result = a;
  switch (i.code) {
    case 1: result = a & b; break;
    case 2: result = a | b; break;
    case 3: result = a ^ b; break;
    case 4: result = ~a; break;
    default: break;
  }
  uint32_t& d = w.predicate(i, 0);
  d = (d & ~w.active) | (result & w.active);
}

void SetPredicateConstant(Warp& w, const Instruction& i) {
  uint32_t& d = w.predicate(i, 0);
  d = i.immediate != 0 ? d | w.active : d & ~w.active;
}

// --- Moves and conversions -----------------------------------------------------------------------

template <class Lane>
void Move(Warp& w, const Instruction& i) {
  auto* d = w.lanes<Lane>(i, 0);
  const auto* a = w.lanes<Lane>(i, 1);
  ForLanes(w.active, [&](int l) { d[l] = a[l]; });
}

void ReadActive(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  ForLanes(w.active, [&](int l) { d[l] = w.active; });
}

// Packs several equal parts into a register of i.bytes.
template <class Lane>
void Pack(Warp& w, const Instruction& i) {
  auto* d = w.lanes<Lane>(i, 0);
  const int bits = 8 * i.bytes / i.reads;
  ForLanes(w.active, [&](int l) {
    uint64_t value = 0;
    for (int part = 0; part < i.reads; ++part) {
      value |= uint64_t{w.lanes<LaneU32>(i, 1 + part)[l]} << (bits * part);
    }
    d[l] = static_cast<Lane>(value);
  });
}
template <class Lane>
void Unpack(Warp& w, const Instruction& i) {
  const auto* a = w.lanes<Lane>(i, i.writes);
  const int bits = 8 * i.bytes / i.writes;
  ForLanes(w.active, [&](int l) {
    const uint64_t value = a[l];
    for (int part = 0; part < i.writes; ++part) {
      w.lanes<LaneU32>(i, part)[l] =
          static_cast<uint32_t>(value >> (bits * part) & ((uint64_t{1} << bits) - 1));
    }
  });
}

template <uint64_t kChange>
void MoveWindow(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU64>(i, 0);
  const auto* a = w.lanes<LaneU64>(i, 1);
  ForLanes(w.active, [&](int l) { d[l] = a[l] + kChange; });
}

double DecodeNumber(NumberType type, uint64_t bits) {
  switch (type) {
    case NumberType::kF16: return FromHalf(static_cast<uint16_t>(bits));
    case NumberType::kBf16: return FromBfloat16(static_cast<uint16_t>(bits));
    case NumberType::kF32:
    case NumberType::kTf32: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default: return std::bit_cast<double>(bits);
  }
}
uint64_t EncodeNumber(NumberType type, double value) {
  switch (type) {
    case NumberType::kF16: return ToHalf(static_cast<float>(value));
    case NumberType::kBf16: return ToBfloat16(static_cast<float>(value));
    case NumberType::kF32:
    case NumberType::kTf32: return std::bit_cast<uint32_t>(static_cast<float>(value));
    default: return std::bit_cast<uint64_t>(value);
  }
}

enum Rounding : uint8_t { kNearest, kZero, kDown, kUp };
constexpr int kRoundingModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

double Round(uint8_t rounding, double value) {
  switch (rounding) {
    case kZero: return std::trunc(value);
    case kDown: return std::floor(value);
    case kUp: return std::ceil(value);
    default: return std::nearbyint(value);
  }
}

int64_t SignExtend(uint64_t bits, int bytes) {
  const int unused = 64 - 8 * bytes;
  return static_cast<int64_t>(bits << unused) >> unused;
}

// code: the result type; detail: the source type; bytes: rounding mode, with these flags.
constexpr uint8_t kSaturates = 16;
constexpr uint8_t kToIntegral = 32;
constexpr uint8_t kClampsNegative = 64;

// Returns the next half-precision number in magnitude, away from or towards zero.
uint16_t Neighbour(uint16_t bits, bool away) {
  const uint16_t sign = bits & 0x8000;
  const auto magnitude = static_cast<uint16_t>(bits & 0x7fff);
  if (!away && magnitude == 0) return static_cast<uint16_t>((sign ^ 0x8000) | 1);
  return static_cast<uint16_t>(sign | (away ? magnitude + 1 : magnitude - 1));
}

// Rounds in the given mode. To nearest it is EncodeNumber.
uint64_t EncodeRounded(NumberType type, uint8_t rounding, double value) {
  const uint64_t nearest = EncodeNumber(type, value);
  if (rounding == kNearest || !std::isfinite(value) || BytesOf(type) == 8) return nearest;
  const double made = DecodeNumber(type, nearest);
  const bool down = rounding == kDown || (rounding == kZero && value > 0);
  if (BytesOf(type) == 4) {
    auto result = static_cast<float>(made);
    if (down && made > value) result = std::nextafterf(result, -INFINITY);
    if (!down && made < value) result = std::nextafterf(result, INFINITY);
    return std::bit_cast<uint32_t>(result);
  }
  const auto bits = static_cast<uint16_t>(nearest);
  if (down && made > value) return Neighbour(bits, made <= 0);
  if (!down && made < value) return Neighbour(bits, made >= 0);
  return nearest;
}

// Avoids double rounding if the type has fewer digits than a double.
template <class V>
uint64_t EncodeInteger(NumberType type, uint8_t rounding, V value) {
  if (rounding == kNearest && type == NumberType::kF32) {
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  if (rounding == kNearest || type == NumberType::kF64) {
    if (rounding != kNearest) std::fesetround(kRoundingModes[rounding]);
    volatile V source = value;
    const auto made = static_cast<double>(source);
    std::fesetround(FE_TONEAREST);
    return EncodeNumber(type, made);
  }
  // Magnitudes beyond 2^53 are truncated with a sticky bit, which does not affect narrow types.
  constexpr auto kExact = V{1} << 53;
  auto exact = value;
  if (exact > kExact || (std::is_signed_v<V> && exact < V{0} - kExact)) {
    exact = static_cast<V>((exact & ~V{0xfff}) | ((exact & V{0xfff}) != 0 ? V{0x800} : V{0}));
  }
  return EncodeRounded(type, rounding, static_cast<double>(exact));
}
void Convert(Warp& w, const Instruction& i) {
  const auto to = static_cast<NumberType>(i.code);
  const auto from = static_cast<NumberType>(i.detail);
  const uint16_t* operands = w.operands(i);
  const bool saturates = (i.bytes & kSaturates) != 0;
  const uint8_t rounding = i.bytes & 15;
  const int to_bytes = BytesOf(to);
  const uint64_t keep = to_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * to_bytes)) - 1;
  ForLanes(w.active, [&](int l) {
    const uint64_t bits = ReadLane(w, operands[1], l);
    uint64_t result = 0;
    if (!IsReal(from)) {
      const int64_t whole =
          IsSigned(from) ? SignExtend(bits, BytesOf(from))
          : BytesOf(from) == 8
              ? static_cast<int64_t>(bits)
              : static_cast<int64_t>(bits & ((uint64_t{1} << (8 * BytesOf(from))) - 1));
      if (IsReal(to)) {
        result = from == NumberType::kU64 ? EncodeInteger(to, rounding, bits)
                                          : EncodeInteger(to, rounding, whole);
      } else {
        result = static_cast<uint64_t>(whole) & keep;
        // A wider register is sign-extended.
        if (IsSigned(to) && w.kernel->slots[operands[0]].kind == SlotClass::kLong) {
          result = static_cast<uint64_t>(SignExtend(result, to_bytes));
        } else if (IsSigned(to) && to_bytes < 4) {
          result = static_cast<uint32_t>(SignExtend(result, to_bytes));
        }
      }
    } else {
      double value = DecodeNumber(from, bits);
      if (!IsReal(to)) {
        value = Round(rounding, value);
        const double high =
            IsSigned(to) ? std::ldexp(1.0, 8 * to_bytes - 1) : std::ldexp(1.0, 8 * to_bytes);
        const double low = IsSigned(to) ? -high : 0;
        if (std::isnan(value)) {
          result = 0;
        } else if (value >= high) {
          result = IsSigned(to) ? keep >> 1 : keep;
        } else if (value <= low) {
          result = IsSigned(to) ? (keep >> 1) + 1 : 0;
        } else {
          result = value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) & keep
                             : static_cast<uint64_t>(value);
        }
      } else {
        if ((i.bytes & kToIntegral) != 0) value = Round(rounding, value);
        if (saturates) value = std::isnan(value) ? 0 : std::clamp(value, 0.0, 1.0);
        if ((i.bytes & kClampsNegative) != 0 && value < 0) value = 0;
        result = EncodeRounded(to, rounding, value);
      }
    }
    WriteLane(w, operands[0], l, result);
  });
}

// Conversions of pairs, stored in `code`.
enum PairConversion : uint8_t {
  kHalvesFromFloats,
  kBrainFromFloats,
  kE4m3FromFloats,
  kE5m2FromFloats,
  kHalvesFromE4m3,
  kHalvesFromE5m2,
  kE4m3FromHalves,
  kE5m2FromHalves,
};
void ConvertPair(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = i.reads > 1 ? w.lanes<LaneU32>(i, 2) : a;
  const auto& e4m3_halves = HalvesOfFloat8(false);
  const auto& e5m2_halves = HalvesOfFloat8(true);
  ForLanes(w.active, [&](int l) {
    const float high = std::bit_cast<float>(uint32_t{a[l]});
    const float low = std::bit_cast<float>(uint32_t{b[l]});
    const uint32_t bits = a[l];
    switch (i.code) {
      case kHalvesFromFloats: d[l] = uint32_t{ToHalf(high)} << 16 | ToHalf(low); break;
      case kBrainFromFloats: d[l] = uint32_t{ToBfloat16(high)} << 16 | ToBfloat16(low); break;
      case kE4m3FromFloats:
      case kE5m2FromFloats: {
        const bool wide = i.code == kE5m2FromFloats;
        d[l] = uint32_t{ToFloat8(high, wide)} << 8 | ToFloat8(low, wide);
        break;
      }
      case kHalvesFromE4m3:
      case kHalvesFromE5m2: {
        const auto& halves = i.code == kHalvesFromE5m2 ? e5m2_halves : e4m3_halves;
        d[l] = uint32_t{halves[bits >> 8 & 0xff]} << 16 | halves[bits & 0xff];
        break;
      }
      default: {
        const bool wide = i.code == kE5m2FromHalves;
        d[l] = uint32_t{ToFloat8(FromHalf(static_cast<uint16_t>(bits >> 16)), wide)} << 8 |
               ToFloat8(FromHalf(static_cast<uint16_t>(bits)), wide);
      }
    }
  });
}

// --- Within a warp -------------------------------------------------------------------------------

enum ShuffleMode : uint8_t { kUpLanes, kDownLanes, kButterfly, kIndexed };
void Shuffle(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const int reads = i.writes;
  const auto* a = w.lanes<LaneU32>(i, reads);
  const auto* b = w.lanes<LaneU32>(i, reads + 1);
  const auto* c = w.lanes<LaneU32>(i, reads + 2);
  uint32_t values[kWarpLanes];
  for (int l = 0; l < kWarpLanes; ++l) values[l] = a[l];
  uint32_t valid = 0;
  ForLanes(w.active, [&](int l) {
    const auto lane = static_cast<uint32_t>(l);
    const uint32_t by = b[l] & 31;
    const uint32_t clamp = c[l] & 31;
    const uint32_t segment = c[l] >> 8 & 31;
    const uint32_t most = (lane & segment) | (clamp & ~segment);
    const uint32_t least = lane & segment;
    int32_t from = 0;
    bool ok = true;
    switch (i.code) {
      case kUpLanes:
        from = l - static_cast<int32_t>(by);
        ok = from >= static_cast<int32_t>(most);
        break;
      case kDownLanes:
        from = l + static_cast<int32_t>(by);
        ok = from <= static_cast<int32_t>(most);
        break;
      case kButterfly:
        from = static_cast<int32_t>(lane ^ by);
        ok = from <= static_cast<int32_t>(most);
        break;
      default:
        from = static_cast<int32_t>(least | (by & ~segment));
        ok = from <= static_cast<int32_t>(most);
    }
    if (!ok || from < 0 || from >= kWarpLanes) from = l;
    d[l] = values[from];
    valid |= static_cast<uint32_t>(ok) << l;
  });
  if (reads > 1) {
    uint32_t& p = w.predicate(i, 1);
    p = (p & ~w.active) | (valid & w.active);
  }
}

enum VoteMode : uint8_t { kAll, kAny, kUniform, kBallot };
void Vote(Warp& w, const Instruction& i) {
  uint32_t p = w.predicate(i, 1);
  if (i.detail != 0) p = ~p;
  p &= w.active;
  if (i.code == kBallot) {
    auto* d = w.lanes<LaneU32>(i, 0);
    ForLanes(w.active, [&](int l) { d[l] = p; });
    return;
  }
  const bool result = i.code == kAll   ? p == w.active
                      : i.code == kAny ? p != 0
                                       : p == w.active || p == 0;
  uint32_t& d = w.predicate(i, 0);
  d = result ? d | w.active : d & ~w.active;
}

template <class Lane>
void Match(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<Lane>(i, i.writes);
  uint32_t equal[kWarpLanes] = {};
  bool all = true;
  ForLanes(w.active, [&](int l) {
    ForLanes(w.active, [&](int k) {
      if (a[l] == a[k]) equal[l] |= uint32_t{1} << k;
    });
    all = all && equal[l] == w.active;
  });
  ForLanes(w.active, [&](int l) { d[l] = i.code == kAll ? (all ? w.active : 0) : equal[l]; });
  if (i.writes > 1) {
    uint32_t& p = w.predicate(i, 1);
    p = all ? p | w.active : p & ~w.active;
  }
}

enum Reduction : uint8_t { kAddAll, kMinAll, kMaxAll, kAndAll, kOrAll, kXorAll };
void Reduce(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  bool first = true;
  uint32_t total = 0;
  ForLanes(w.active, [&](int l) {
    const uint32_t value = a[l];
    if (first) {
      total = value;
      first = false;
      return;
    }
    const auto left = static_cast<int32_t>(total);
    const auto right = static_cast<int32_t>(value);
    switch (i.code) {
      case kAddAll: total += value; break;
      case kMinAll:
        total =
            i.detail != 0 ? static_cast<uint32_t>(std::min(left, right)) : std::min(total, value);
        break;
      case kMaxAll:
        total =
            i.detail != 0 ? static_cast<uint32_t>(std::max(left, right)) : std::max(total, value);
        break;
      case kAndAll: total &= value; break;
      case kOrAll: total |= value; break;
      default: total ^= value;
    }
  });
  ForLanes(w.active, [&](int l) { d[l] = total; });
}

void Elect(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto leader = static_cast<uint32_t>(std::countr_zero(w.active));
  ForLanes(w.active, [&](int l) { d[l] = leader; });
  uint32_t& p = w.predicate(i, 1);
  p = (p & ~w.active) | (w.active != 0 ? uint32_t{1} << (leader & 31) : 0);
}

void Nothing(Warp&, const Instruction&) {}

void ClearResults(Warp& w, const Instruction& i) {
  for (int k = 0; k < i.writes; ++k) {
    const uint16_t slot = w.operands(i)[k];
    if (w.kernel->slots[slot].kind == SlotClass::kPredicate) {
      w.mask_of(slot) |= w.active;  // waits always succeed
    } else {
      ForLanes(w.active, [&](int l) { WriteLane(w, slot, l, 0); });
    }
  }
}

// Results of matrix products are 0: they decide no branch in practice.
void Multiply(Warp& w, const Instruction& i) {
  w.counters.matrix[static_cast<size_t>(i.matrix)] += 1;
  w.counters.matrix_flops[static_cast<size_t>(i.matrix)] += i.flops;
  if (i.code != 0) w.counters.matrix_group_flops += i.flops;
  ClearResults(w, i);
}

// --- Binding -------------------------------------------------------------------------------------

// Binds the first operand as written and the next `sources` operands as read.
bool Elementwise(Decoder& decoder, const Operands& operands, SlotClass kind, size_t sources) {
  if (operands.size() < sources + 1) return Refuse(decoder, "too few operands");
  decoder.Write(operands[0], kind);
  for (size_t k = 1; k <= sources; ++k) decoder.Read(operands[k], kind);
  return decoder.ok();
}

#define KC_BY_INTEGER(Template, Op)                                      \
  [](NumberType number) -> Handler {                                     \
    switch (number) {                                                    \
      case NumberType::kU16: return Template<IntegerType<uint16_t>, Op>; \
      case NumberType::kS16: return Template<IntegerType<int16_t>, Op>;  \
      case NumberType::kU32: return Template<IntegerType<uint32_t>, Op>; \
      case NumberType::kS32: return Template<IntegerType<int32_t>, Op>;  \
      case NumberType::kU64: return Template<IntegerType<uint64_t>, Op>; \
      case NumberType::kS64: return Template<IntegerType<int64_t>, Op>;  \
      default: return nullptr;                                           \
    }                                                                    \
  }(type)
#define KC_BY_UNSIGNED(Template, Op)                      \
  [](NumberType number) -> Handler {                      \
    switch (BytesOf(number)) {                            \
      case 2: return Template<IntegerType<uint16_t>, Op>; \
      case 4: return Template<IntegerType<uint32_t>, Op>; \
      case 8: return Template<IntegerType<uint64_t>, Op>; \
      default: return nullptr;                            \
    }                                                     \
  }(type)
#define KC_BY_REAL(Template, Op)                                   \
  [](NumberType number) -> Handler {                               \
    switch (number) {                                              \
      case NumberType::kF32: return Template<Float32Type, Op>;     \
      case NumberType::kF64: return Template<Float64Type, Op>;     \
      case NumberType::kF16: return Template<HalfType<false>, Op>; \
      case NumberType::kBf16: return Template<HalfType<true>, Op>; \
      default: return nullptr;                                     \
    }                                                              \
  }(type)

Cost RealCost(NumberType type) {
  switch (type) {
    case NumberType::kF64: return {Kind::kFloat64, Pipe::kFloat64, 1, 8};
    case NumberType::kF16:
    case NumberType::kBf16: return {Kind::kHalf, Pipe::kHalf, 1, 5};
    default: return {Kind::kFloat32, Pipe::kFloat32, 1, 4};
  }
}
Cost IntegerCost(NumberType type, float word, float wide) {
  return {Kind::kInteger, Pipe::kInteger, BytesOf(type) == 8 ? wide : word,
          BytesOf(type) == 8 ? 5.0F + wide : 4.5F};
}

// --- Modifiers -----------------------------------------------------------------------------------

constexpr uint8_t kClampsToOne = 4;
constexpr uint8_t kClampsBelow = 8;
constexpr uint8_t kModifiesPair = 16;

// Executes the handler stored in `immediate`, with the rounding mode in the low bits of `code`, and
// clamps.
void Modified(Warp& w, const Instruction& i) {
  const auto handler = reinterpret_cast<Handler>(i.immediate);
  const int mode = kRoundingModes[i.code & 3];
  if (mode != FE_TONEAREST) std::fesetround(mode);
  handler(w, i);
  if (mode != FE_TONEAREST) std::fesetround(FE_TONEAREST);
  if ((i.code & (kClampsToOne | kClampsBelow)) == 0) return;
  const auto type = static_cast<NumberType>(i.detail);
  const uint16_t slot = w.operands(i)[0];
  const auto clamp = [&](uint64_t bits) {
    const double value = DecodeNumber(type, bits);
    if ((i.code & kClampsToOne) != 0) {
      return EncodeNumber(type, std::isnan(value) ? 0 : std::clamp(value, 0.0, 1.0));
    }
    return value < 0 ? uint64_t{0} : bits;
  };
  ForLanes(w.active, [&](int l) {
    const uint64_t bits = ReadLane(w, slot, l);
    WriteLane(w, slot, l,
              (i.code & kModifiesPair) != 0
                  ? clamp(bits >> 16 & 0xffff) << 16 | clamp(bits & 0xffff)
                  : clamp(bits));
  });
}

uint8_t RoundingOf(const Opcode& opcode) {
  return opcode.Has("rz") || opcode.Has("rzi")   ? kZero
         : opcode.Has("rm") || opcode.Has("rmi") ? kDown
         : opcode.Has("rp") || opcode.Has("rpi") ? kUp
                                                 : kNearest;
}

// Handles rounding modes other than to nearest, ".sat" and ".relu" of floating-point arithmetic.
bool Modify(const Opcode& opcode, NumberType type, bool pair, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  const uint8_t code =
      static_cast<uint8_t>(RoundingOf(opcode) | (opcode.Has("sat") ? kClampsToOne : 0) |
                           (opcode.Has("relu") ? kClampsBelow : 0));
  if (code == 0) return true;
  i.code = code | (pair ? kModifiesPair : 0);
  i.detail = static_cast<uint8_t>(type);
  i.immediate = reinterpret_cast<int64_t>(i.execute);
  i.execute = Modified;
  return true;
}

enum class Arithmetic : uint8_t { kAdd, kSub, kMul, kMin, kMax, kFma, kNeg, kAbs, kNone };
Arithmetic ArithmeticOf(std::string_view name) {
  constexpr std::pair<std::string_view, Arithmetic> kNames[] = {
      {"add", Arithmetic::kAdd}, {"sub", Arithmetic::kSub}, {"mul", Arithmetic::kMul},
      {"min", Arithmetic::kMin}, {"max", Arithmetic::kMax}, {"fma", Arithmetic::kFma},
      {"mad", Arithmetic::kFma}, {"neg", Arithmetic::kNeg}, {"abs", Arithmetic::kAbs}};
  for (const auto& [text, arithmetic] : kNames) {
    if (text == name) return arithmetic;
  }
  return Arithmetic::kNone;
}

void CountFlops(Instruction& i, NumberType type, Arithmetic arithmetic, int pair) {
  if (arithmetic == Arithmetic::kNeg || arithmetic == Arithmetic::kAbs) return;
  i.flops = (arithmetic == Arithmetic::kFma ? 2 : 1) * pair;
  i.matrix = type == NumberType::kF64   ? MatrixType::kFloat64
             : type == NumberType::kF32 ? MatrixType::kTf32
                                        : MatrixType::kHalf;
}

bool BindPacked(const Opcode& opcode, const Operands& operands, Decoder& decoder,
                Arithmetic arithmetic, bool brain) {
  const bool strict = opcode.Has("NaN");
#define KC_PACKED(Op, N) (brain ? Handler(Packed<true, Op, N>) : Handler(Packed<false, Op, N>))
  Handler handler = nullptr;
  size_t sources = 2;
  switch (arithmetic) {
    case Arithmetic::kAdd: handler = KC_PACKED(Add, 2); break;
    case Arithmetic::kSub: handler = KC_PACKED(Sub, 2); break;
    case Arithmetic::kMul: handler = KC_PACKED(Mul, 2); break;
    case Arithmetic::kMin: handler = strict ? KC_PACKED(StrictMin, 2) : KC_PACKED(Min, 2); break;
    case Arithmetic::kMax: handler = strict ? KC_PACKED(StrictMax, 2) : KC_PACKED(Max, 2); break;
    case Arithmetic::kFma:
      handler = KC_PACKED(Mad, 3);
      sources = 3;
      break;
    case Arithmetic::kNeg:
      handler = KC_PACKED(Neg, 1);
      sources = 1;
      break;
    case Arithmetic::kAbs:
      handler = KC_PACKED(Abs, 1);
      sources = 1;
      break;
    case Arithmetic::kNone: return Refuse(decoder, "not known");
  }
#undef KC_PACKED
  Elementwise(decoder, operands, kWord, sources);
  CountFlops(decoder.instruction(), NumberType::kF16, arithmetic, 2);
  return Set(decoder, handler, {Kind::kHalf, Pipe::kHalf, 1, 5});
}

bool BindReal(const Opcode& opcode, const Operands& operands, Decoder& decoder,
              Arithmetic arithmetic, NumberType type) {
  const bool strict = opcode.Has("NaN");
  if (opcode.Has("xorsign")) return Refuse(decoder, "not known");
  Handler handler = nullptr;
  size_t sources = 2;
  switch (arithmetic) {
    case Arithmetic::kAdd: handler = KC_BY_REAL(Binary, Add); break;
    case Arithmetic::kSub: handler = KC_BY_REAL(Binary, Sub); break;
    case Arithmetic::kMul: handler = KC_BY_REAL(Binary, Mul); break;
    case Arithmetic::kMin:
      handler = strict ? KC_BY_REAL(Binary, StrictMin) : KC_BY_REAL(Binary, Min);
      break;
    case Arithmetic::kMax:
      handler = strict ? KC_BY_REAL(Binary, StrictMax) : KC_BY_REAL(Binary, Max);
      break;
    case Arithmetic::kFma:
      handler = KC_BY_REAL(Ternary, Mad);
      sources = 3;
      break;
    case Arithmetic::kNeg:
      handler = KC_BY_REAL(Unary, Neg);
      sources = 1;
      break;
    case Arithmetic::kAbs:
      handler = KC_BY_REAL(Unary, Abs);
      sources = 1;
      break;
    case Arithmetic::kNone: break;
  }
  if (handler == nullptr) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type), sources);
  CountFlops(decoder.instruction(), type, arithmetic, 1);
  Cost cost = RealCost(type);
  // Negation and absolute value are operand modifiers.
  if (sources == 1) cost.issue = 0.3F;
  return Set(decoder, handler, cost);
}

bool BindInteger(const Opcode& opcode, const Operands& operands, Decoder& decoder,
                 NumberType type) {
  const std::string_view name = opcode.name();
  Handler handler = nullptr;
  size_t sources = 2;
  Cost cost = IntegerCost(type, 1, 2);
  const bool high = opcode.Has("hi");
  if (opcode.Has("wide")) {
    const bool adds = name == "mad";
    switch (type) {
      case NumberType::kU16:
        handler = adds ? MultiplyWide<uint16_t, true> : MultiplyWide<uint16_t, false>;
        break;
      case NumberType::kS16:
        handler = adds ? MultiplyWide<int16_t, true> : MultiplyWide<int16_t, false>;
        break;
      case NumberType::kU32:
        handler = adds ? MultiplyWide<uint32_t, true> : MultiplyWide<uint32_t, false>;
        break;
      case NumberType::kS32:
        handler = adds ? MultiplyWide<int32_t, true> : MultiplyWide<int32_t, false>;
        break;
      default: return Refuse(decoder, "not known");
    }
    const SlotClass wide = BytesOf(type) == 2 ? kWord : kLong;
    if (operands.size() < (adds ? 4U : 3U)) return Refuse(decoder, "too few operands");
    decoder.Write(operands[0], wide);
    decoder.Read(operands[1], kWord);
    decoder.Read(operands[2], kWord);
    if (adds) decoder.Read(operands[3], wide);
    return Set(decoder, handler, {Kind::kInteger, Pipe::kInteger, 1, 5});
  }
  switch (ArithmeticOf(name)) {
    case Arithmetic::kAdd: handler = KC_BY_INTEGER(Binary, Add); break;
    case Arithmetic::kSub: handler = KC_BY_INTEGER(Binary, Sub); break;
    case Arithmetic::kMul:
      handler = high ? KC_BY_INTEGER(Binary, MulHigh) : KC_BY_INTEGER(Binary, Mul);
      cost = IntegerCost(type, high ? 2 : 1, 4);
      break;
    case Arithmetic::kMin:
      handler = KC_BY_INTEGER(Binary, Min);
      cost = IntegerCost(type, 1, 4);
      break;
    case Arithmetic::kMax:
      handler = KC_BY_INTEGER(Binary, Max);
      cost = IntegerCost(type, 1, 4);
      break;
    case Arithmetic::kFma:
      handler = high ? KC_BY_INTEGER(Ternary, MadHigh) : KC_BY_INTEGER(Ternary, Mad);
      sources = 3;
      cost = IntegerCost(type, high ? 2 : 1, 4);
      break;
    case Arithmetic::kNeg:
      handler = KC_BY_INTEGER(Unary, Neg);
      sources = 1;
      break;
    case Arithmetic::kAbs:
      handler = KC_BY_INTEGER(Unary, Abs);
      sources = 1;
      break;
    case Arithmetic::kNone: break;
  }
  if (name == "div" || name == "rem") {
    handler = name == "div" ? KC_BY_INTEGER(Binary, Div) : KC_BY_INTEGER(Binary, Rem);
    cost = IntegerCost(type, 22, 80);
    // Division by a constant becomes a multiplication and a shift.
    if (operands.size() > 2 && operands[2].type == Operand::Type::kImmediate) {
      cost = IntegerCost(type, std::has_single_bit(operands[2].bits) ? 2 : 4, 12);
    }
    cost.latency = cost.issue * 4;
  } else if (name == "sad") {
    handler = KC_BY_INTEGER(Ternary, Sad);
    sources = 3;
  }
  if (opcode.Has("relu")) {
    // Only for min and max.
    handler = type != NumberType::kS32 ? nullptr
              : name == "min"          ? Binary<IntegerType<int32_t>, ReluMin>
              : name == "max"          ? Binary<IntegerType<int32_t>, ReluMax>
                                       : nullptr;
  }
  if (opcode.Has("sat") && name != "mad") {
    handler = type != NumberType::kS32 ? nullptr
              : name == "add"          ? Binary<IntegerType<int32_t>, SaturatedAdd>
              : name == "sub"          ? Binary<IntegerType<int32_t>, SaturatedSub>
                                       : nullptr;
  }
  if (handler == nullptr) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type), sources);
  return Set(decoder, handler, cost);
}

bool BindArithmetic(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  // ".relu" of integers follows the type.
  const bool relu = opcode.type() == "relu" && opcode.parts.size() > 2;
  const std::string_view type_name = relu ? opcode.parts[opcode.parts.size() - 2] : opcode.type();
  const Arithmetic arithmetic = ArithmeticOf(opcode.name());
  if (type_name == "f16x2" || type_name == "bf16x2") {
    const bool brain = type_name == "bf16x2";
    return BindPacked(opcode, operands, decoder, arithmetic, brain) &&
           Modify(opcode, brain ? NumberType::kBf16 : NumberType::kF16, true, decoder);
  }
  const NumberType type = NumberTypeOf(type_name);
  if (type == NumberType::kNone || opcode.Has("cc") || opcode.Has("s16x2")) {
    return BindMath(opcode, operands, decoder);
  }
  if (IsReal(type)) {
    return BindReal(opcode, operands, decoder, arithmetic, type) &&
           Modify(opcode, type, false, decoder);
  }
  return BindInteger(opcode, operands, decoder, type);
}

bool BindSpecial(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  const NumberType type = NumberTypeOf(opcode.type());
  const bool approximate = opcode.Has("approx") || opcode.Has("full");
  const bool flushes = opcode.Has("ftz");
  // Without ".ftz" small numbers are scaled before and after.
  Cost cost{Kind::kSpecial, Pipe::kSpecial, flushes ? 1.0F : 2.0F, flushes ? 22.0F : 38.0F};
  if (name == "div") {
    if (!IsReal(type)) return BindArithmetic(opcode, operands, decoder);
    Handler handler = KC_BY_REAL(Binary, Div);
    if (handler == nullptr) return Refuse(decoder, "not known");
    Elementwise(decoder, operands, ClassFor(type), 2);
    decoder.instruction().flops = 1;
    if (type == NumberType::kF64) {
      cost = {Kind::kFloat64, Pipe::kFloat64, 12, 80};
    } else {
      cost.issue = approximate ? 4 : 11;
      cost.latency = approximate ? 28 : 60;
    }
    return Set(decoder, handler, cost) && Modify(opcode, type, false, decoder);
  }
  Handler handler = nullptr;
  if (name == "copysign") {
    if (type == NumberType::kF32) handler = Binary<Float32Type, CopySign>;
    if (type == NumberType::kF64) handler = Binary<Float64Type, CopySign>;
    if (handler == nullptr) return Refuse(decoder, "not known");
    Elementwise(decoder, operands, ClassFor(type), 2);
    // A bitwise selection in each word.
    return Set(decoder, handler,
               {Kind::kInteger, Pipe::kInteger, 1, type == NumberType::kF64 ? 6.0F : 5.0F});
  }
  if (name == "rcp") handler = KC_BY_REAL(Unary, Reciprocal);
  if (name == "sqrt") handler = KC_BY_REAL(Unary, SquareRoot);
  if (name == "rsqrt") handler = KC_BY_REAL(Unary, ReciprocalRoot);
  if (type == NumberType::kF32) {
    if (name == "ex2") handler = Unary<Float32Type, PowerOfTwo>;
    if (name == "lg2") handler = Unary<Float32Type, LogOfTwo>;
    if (name == "sin") handler = Unary<Float32Type, Sine>;
    if (name == "cos") handler = Unary<Float32Type, Cosine>;
    if (name == "tanh") handler = Unary<Float32Type, Tangent>;
  } else if (type == NumberType::kF16) {
    if (name == "ex2") handler = Unary<HalfType<false>, PowerOfTwo>;
    if (name == "tanh") handler = Unary<HalfType<false>, Tangent>;
  } else if (type == NumberType::kBf16) {
    if (name == "ex2") handler = Unary<HalfType<true>, PowerOfTwo>;
    if (name == "tanh") handler = Unary<HalfType<true>, Tangent>;
  } else if (opcode.type() == "f16x2") {
    if (name == "ex2") handler = Packed<false, PowerOfTwo, 1>;
    if (name == "tanh") handler = Packed<false, Tangent, 1>;
  } else if (opcode.type() == "bf16x2") {
    if (name == "ex2") handler = Packed<true, PowerOfTwo, 1>;
    if (name == "tanh") handler = Packed<true, Tangent, 1>;
  }
  if (handler == nullptr) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type == NumberType::kNone ? NumberType::kU32 : type), 1);
  decoder.instruction().flops = 1;
  if (!approximate && (name == "rcp" || name == "sqrt" || name == "rsqrt")) {
    cost.issue = 8;
    cost.latency = 58;
    if (type == NumberType::kF64) cost = {Kind::kFloat64, Pipe::kFloat64, 12, 80};
  }
  return Set(decoder, handler, cost) &&
         (type == NumberType::kNone || Modify(opcode, type, false, decoder));
}

bool BindLogic(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  Instruction& i = decoder.instruction();
  if (opcode.type() == "pred") {
    const size_t sources = name == "not" ? 1 : 2;
    if (operands.size() < sources + 1) return Refuse(decoder, "too few operands");
    decoder.Write(operands[0], kPredicate);
    for (size_t k = 1; k <= sources; ++k) {
      if (operands[k].type != Operand::Type::kRegister) return Refuse(decoder, "not known");
      decoder.Read(operands[k], kPredicate);
      if (operands[k].negated) i.detail |= static_cast<uint8_t>(k);
    }
    i.code = name == "and" ? 1 : name == "or" ? 2 : name == "xor" ? 3 : 4;
    return Set(decoder, PredicateLogic, {Kind::kPredicate, Pipe::kInteger, 0.5F, 5});
  }
  const NumberType type = NumberTypeOf(opcode.type());
  Handler handler = nullptr;
  size_t sources = 2;
  if (name == "and") handler = KC_BY_UNSIGNED(Binary, And);
  if (name == "or") handler = KC_BY_UNSIGNED(Binary, Or);
  if (name == "xor") handler = KC_BY_UNSIGNED(Binary, Xor);
  if (name == "not" || name == "cnot" || name == "brev") {
    sources = 1;
    handler = name == "not"    ? KC_BY_UNSIGNED(Unary, Not)
              : name == "cnot" ? KC_BY_UNSIGNED(Unary, LogicalNot)
                               : KC_BY_UNSIGNED(Unary, ReverseBits);
  }
  if (handler == nullptr || type == NumberType::kNone) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type), sources);
  return Set(decoder, handler, IntegerCost(type, 1, 2));
}

bool BindBits(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  const NumberType type = NumberTypeOf(opcode.type());
  Instruction& i = decoder.instruction();
  const SlotClass kind = ClassFor(type);
  if (type == NumberType::kNone || operands.size() < 2) return Refuse(decoder, "not known");
  if (name == "shl" || name == "shr") {
    if (operands.size() < 3) return Refuse(decoder, "too few operands");
    Handler handler =
        name == "shl" ? KC_BY_UNSIGNED(Shift, ShiftLeft) : KC_BY_INTEGER(Shift, ShiftRight);
    if (handler == nullptr) return Refuse(decoder, "not known");
    decoder.Write(operands[0], kind);
    decoder.Read(operands[1], kind);
    decoder.Read(operands[2], kWord);
    return Set(decoder, handler, IntegerCost(type, 1, 2));
  }
  if (name == "popc" || name == "clz" || name == "bfind") {
    i.code = name == "popc" ? 0 : name == "clz" ? 1 : opcode.Has("shiftamt") ? 3 : 2;
    Handler handler = nullptr;
    switch (type) {
      case NumberType::kU32: handler = CountBits<uint32_t>; break;
      case NumberType::kS32: handler = CountBits<int32_t>; break;
      case NumberType::kU64: handler = CountBits<uint64_t>; break;
      case NumberType::kS64: handler = CountBits<int64_t>; break;
      default: return Refuse(decoder, "not known");
    }
    decoder.Write(operands[0], kWord);
    decoder.Read(operands[1], kind);
    return Set(decoder, handler, {Kind::kInteger, Pipe::kConversion, 1, 12});
  }
  if (name == "bfe") {
    Handler handler = nullptr;
    switch (type) {
      case NumberType::kU32: handler = ExtractBits<uint32_t>; break;
      case NumberType::kS32: handler = ExtractBits<int32_t>; break;
      case NumberType::kU64: handler = ExtractBits<uint64_t>; break;
      case NumberType::kS64: handler = ExtractBits<int64_t>; break;
      default: return Refuse(decoder, "not known");
    }
    if (operands.size() < 4) return Refuse(decoder, "too few operands");
    decoder.Write(operands[0], kind);
    decoder.Read(operands[1], kind);
    decoder.Read(operands[2], kWord);
    decoder.Read(operands[3], kWord);
    return Set(decoder, handler, IntegerCost(type, 2, 6));
  }
  if (name == "bfi") {
    if (operands.size() < 5) return Refuse(decoder, "too few operands");
    decoder.Write(operands[0], kind);
    decoder.Read(operands[1], kind);
    decoder.Read(operands[2], kind);
    decoder.Read(operands[3], kWord);
    decoder.Read(operands[4], kWord);
    return Set(decoder, kind == kLong ? InsertBits<uint64_t> : InsertBits<uint32_t>,
               IntegerCost(type, 2, 4));
  }
  if (kind != kWord || operands.size() < 4) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, kWord, 3);
  if (name == "shf") {
    i.code = opcode.Has("l") ? 0 : 1;
    i.detail = opcode.Has("wrap") ? 1 : 0;
    return Set(decoder, FunnelShift, IntegerCost(type, 1, 1));
  }
  if (name == "prmt") {
    for (const std::string_view mode : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
      if (opcode.Has(mode)) return Refuse(decoder, "not known");
    }
    return Set(decoder, Permute, IntegerCost(type, 1, 1));
  }
  if (name == "lop3" && operands.size() >= 5 && operands[4].type == Operand::Type::kImmediate) {
    i.immediate = static_cast<int64_t>(operands[4].bits);
    return Set(decoder, Lookup, IntegerCost(type, 1, 1));
  }
  return Refuse(decoder, "not known");
}

std::optional<uint8_t> ComparisonOf(const Opcode& opcode, uint8_t& detail) {
  constexpr std::pair<std::string_view, uint8_t> kNames[] = {
      {"eq", kEq}, {"ne", kNe}, {"lt", kLt}, {"le", kLe}, {"gt", kGt},      {"ge", kGe},
      {"lo", kLt}, {"ls", kLe}, {"hi", kGt}, {"hs", kGe}, {"num", kNumber}, {"nan", kNaN}};
  constexpr std::pair<std::string_view, uint8_t> kUnorderedNames[] = {
      {"equ", kEq}, {"neu", kNe}, {"ltu", kLt}, {"leu", kLe}, {"gtu", kGt}, {"geu", kGe}};
  if (opcode.parts.size() < 3) return std::nullopt;
  for (const auto& [text, code] : kNames) {
    if (opcode.parts[1] == text) return code;
  }
  for (const auto& [text, code] : kUnorderedNames) {
    if (opcode.parts[1] == text) {
      detail |= kUnordered;
      return code;
    }
  }
  return std::nullopt;
}

bool BindComparison(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  const NumberType type = NumberTypeOf(opcode.type());
  if (type == NumberType::kNone || (opcode.name() == "set" && IsReal(type))) {
    return BindMath(opcode, operands, decoder);
  }
  const auto comparison = ComparisonOf(opcode, i.detail);
  if (!comparison || type == NumberType::kNone || operands.size() < 3) {
    return Refuse(decoder, "not known");
  }
  i.code = *comparison;
  const bool sets = opcode.name() == "set";
  Handler handler = nullptr;
#define KC_COMPARE(Template)                                         \
  [](NumberType t) -> Handler {                                      \
    switch (t) {                                                     \
      case NumberType::kU16: return Template(IntegerType<uint16_t>); \
      case NumberType::kS16: return Template(IntegerType<int16_t>);  \
      case NumberType::kU32: return Template(IntegerType<uint32_t>); \
      case NumberType::kS32: return Template(IntegerType<int32_t>);  \
      case NumberType::kU64: return Template(IntegerType<uint64_t>); \
      case NumberType::kS64: return Template(IntegerType<int64_t>);  \
      case NumberType::kF32: return Template(Float32Type);           \
      case NumberType::kF64: return Template(Float64Type);           \
      case NumberType::kF16: return Template(HalfType<false>);       \
      case NumberType::kBf16: return Template(HalfType<true>);       \
      default: return nullptr;                                       \
    }                                                                \
  }(type)
#define KC_SETP(T) SetPredicate<T>
#define KC_SET_INTEGER(T) (SetValue<T>)
  if (sets) {
    if (opcode.Has("and") || opcode.Has("or") || opcode.Has("xor"))
      return Refuse(decoder, "not known");
    handler = KC_COMPARE(KC_SET_INTEGER);
    i.immediate = opcode.parts[opcode.parts.size() - 2] == "f32" ? 0x3f800000 : 0xffffffff;
    if (handler == nullptr) return Refuse(decoder, "not known");
    decoder.Write(operands[0], kWord);
    decoder.Read(operands[1], ClassFor(type));
    decoder.Read(operands[2], ClassFor(type));
    return Set(decoder, handler, {Kind::kPredicate, Pipe::kInteger, 2, 8});
  }
  handler = KC_COMPARE(KC_SETP);
#undef KC_COMPARE
#undef KC_SETP
#undef KC_SET_INTEGER
  if (handler == nullptr) return Refuse(decoder, "not known");
  decoder.Write(operands[0], kPredicate);
  if (operands[0].has_second) decoder.WriteSlot(operands[0].second, kPredicate);
  decoder.Read(operands[1], ClassFor(type));
  decoder.Read(operands[2], ClassFor(type));
  if (operands.size() > 3) {
    decoder.Read(operands[3], kPredicate);
    if (operands[3].negated) i.detail |= kNegatedThird;
    i.detail |= opcode.Has("and") ? 1 : opcode.Has("or") ? 2 : opcode.Has("xor") ? 3 : 0;
  }
  if (!IsReal(type)) i.driver = kComparesIntegers;
  return Set(decoder, handler,
             {Kind::kPredicate, IsReal(type) ? Pipe::kFloat32 : Pipe::kInteger,
              BytesOf(type) == 8 ? 2.0F : 1.0F, 6});
}

bool BindSelection(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const NumberType type = NumberTypeOf(opcode.type());
  if (type == NumberType::kNone || operands.size() < 4) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type), 2);
  decoder.Read(operands[3], kPredicate);
  decoder.instruction().detail = operands[3].negated ? 1 : 0;
  return Set(decoder, ClassFor(type) == kLong ? Select<LaneU64> : Select<LaneU32>,
             {Kind::kPredicate, Pipe::kInteger, BytesOf(type) == 8 ? 2.0F : 1.0F, 5});
}

bool BindMove(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  Instruction& i = decoder.instruction();
  // ptxas removes most copies between registers.
  const Cost cost{Kind::kMove, Pipe::kInteger, 0.25F, 1};
  if (opcode.type() == "pred") {
    decoder.Write(operands[0], kPredicate);
    if (operands[1].type == Operand::Type::kImmediate) {
      i.immediate = static_cast<int64_t>(operands[1].bits);
      return Set(decoder, SetPredicateConstant, cost);
    }
    decoder.Read(operands[1], kPredicate);
    i.detail = operands[1].negated ? 1 : 0;
    return Set(decoder, PredicateLogic, cost);
  }
  const NumberType type = NumberTypeOf(opcode.type());
  if (type == NumberType::kNone) return Refuse(decoder, "not known");
  const SlotClass kind = ClassFor(type);
  i.bytes = static_cast<uint8_t>(BytesOf(type));
  if (operands[1].type == Operand::Type::kVector) {
    const auto& parts = operands[1].elements;
    if (parts.empty() || parts.size() > 4 || i.bytes % parts.size() != 0)
      return Refuse(decoder, "not known");
    decoder.Write(operands[0], kind);
    for (const Operand& part : parts) decoder.Read(part, kWord);
    return Set(decoder, kind == kLong ? Pack<LaneU64> : Pack<LaneU32>,
               {Kind::kMove, Pipe::kInteger, kind == kLong ? 0.25F : 0.5F, 4});
  }
  if (operands[0].type == Operand::Type::kVector) {
    const auto& parts = operands[0].elements;
    if (parts.empty() || parts.size() > 4 || i.bytes % parts.size() != 0)
      return Refuse(decoder, "not known");
    for (const Operand& part : parts) decoder.Write(part, kWord);
    decoder.Read(operands[1], kind);
    return Set(decoder, kind == kLong ? Unpack<LaneU64> : Unpack<LaneU32>,
               {Kind::kMove, Pipe::kInteger, kind == kLong ? 0.25F : 0.5F, 4});
  }
  decoder.Write(operands[0], kind);
  // Half registers are read completely.
  decoder.Read(operands[1], kind);
  return Set(decoder, kind == kLong ? Move<LaneU64> : Move<LaneU32>, cost);
}

bool BindWindow(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 2 || opcode.type() != "u64") return Refuse(decoder, "not known");
  decoder.Write(operands[0], kLong);
  decoder.Read(operands[1], kLong);
  const Cost cost{Kind::kMove, Pipe::kInteger, 0, 1};
  const bool to = opcode.Has("to");
  if (opcode.Has("shared")) {
    return Set(decoder, to ? MoveWindow<0 - kSharedWindow> : MoveWindow<kSharedWindow>, cost);
  }
  if (opcode.Has("local")) {
    return Set(decoder, to ? MoveWindow<0 - kLocalWindow> : MoveWindow<kLocalWindow>, cost);
  }
  if (opcode.Has("global") || opcode.Has("const")) return Set(decoder, Move<LaneU64>, cost);
  return Refuse(decoder, "not known");
}

bool BindPairConversion(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view to = opcode.parts[opcode.parts.size() - 2];
  const std::string_view from = opcode.type();
  Instruction& i = decoder.instruction();
  size_t sources = 2;
  if (from == "f32") {
    if (to == "f16x2") {
      i.code = kHalvesFromFloats;
    } else if (to == "bf16x2") {
      i.code = kBrainFromFloats;
    } else if (to == "e4m3x2") {
      i.code = kE4m3FromFloats;
    } else if (to == "e5m2x2") {
      i.code = kE5m2FromFloats;
    } else {
      return Refuse(decoder, "not known");
    }
  } else {
    sources = 1;
    if (to == "f16x2" && from == "e4m3x2") {
      i.code = kHalvesFromE4m3;
    } else if (to == "f16x2" && from == "e5m2x2") {
      i.code = kHalvesFromE5m2;
    } else if (to == "e4m3x2" && from == "f16x2") {
      i.code = kE4m3FromHalves;
    } else if (to == "e5m2x2" && from == "f16x2") {
      i.code = kE5m2FromHalves;
    } else {
      return Refuse(decoder, "not known");
    }
  }
  Elementwise(decoder, operands, kWord, sources);
  return Set(decoder, ConvertPair, {Kind::kConversion, Pipe::kConversion, 1, 8});
}

bool BindConversion(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (opcode.parts.size() < 3 || operands.size() < 2) return Refuse(decoder, "not known");
  const std::string_view to_name = opcode.parts[opcode.parts.size() - 2];
  if (to_name.size() > 2 && to_name.substr(to_name.size() - 2) == "x2") {
    return BindPairConversion(opcode, operands, decoder);
  }
  const NumberType to = NumberTypeOf(to_name);
  const NumberType from = NumberTypeOf(opcode.type());
  if (to == NumberType::kNone || from == NumberType::kNone) return Refuse(decoder, "not known");
  Instruction& i = decoder.instruction();
  i.code = static_cast<uint8_t>(to);
  i.detail = static_cast<uint8_t>(from);
  i.bytes = RoundingOf(opcode);
  if (opcode.Has("relu")) i.bytes |= kClampsNegative;
  if (opcode.Has("sat")) i.bytes |= kSaturates;
  if (opcode.Has("rzi") || opcode.Has("rmi") || opcode.Has("rpi") || opcode.Has("rni")) {
    i.bytes |= kToIntegral;
  }
  // Registers may be wider than the converted value.
  const auto kind_of = [&](const Operand& operand, NumberType type) {
    return BytesOf(type) == 8                         ? kLong
           : operand.type == Operand::Type::kRegister ? decoder.KindOf(operand)
                                                      : kWord;
  };
  decoder.Write(operands[0], kind_of(operands[0], to));
  decoder.Read(operands[1], kind_of(operands[1], from));
  if (decoder.ok() && (decoder.ClassOf(decoder.Sink(kWord)) != kWord)) return false;
  Cost cost{Kind::kConversion, Pipe::kConversion, 1, 10};
  if (!IsReal(to) && !IsReal(from)) {
    // Truncation is free, zero-extension almost free, sign-extension a shift.
    const float issue = BytesOf(to) <= BytesOf(from) ? 0.1F : IsSigned(from) ? 1.0F : 0.25F;
    cost = {Kind::kInteger, Pipe::kInteger, issue, 4};
  } else if (to == NumberType::kF32 && (from == NumberType::kBf16 || from == NumberType::kF16)) {
    cost = {Kind::kConversion, Pipe::kHalf, 1, 5};
  } else if (to == NumberType::kF32 && from == NumberType::kF32) {
    cost = {Kind::kFloat32, Pipe::kFloat32, 1, 5};
  } else if (to == NumberType::kF16 || to == NumberType::kBf16) {
    cost = {Kind::kConversion, Pipe::kHalf, 1, 6};
  }
  return Set(decoder, Convert, cost);
}

// Reads the lane mask of a warp-level operation, which follows its other sources.
void ReadMask(const Operands& operands, size_t at, Decoder& decoder) {
  if (operands.size() <= at) return;
  decoder.Read(operands[at], kWord);
  Instruction& i = decoder.instruction();
  i.mask_operand = static_cast<uint8_t>(i.writes + i.reads);
}

bool BindShuffle(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 4) return Refuse(decoder, "too few operands");
  Instruction& i = decoder.instruction();
  i.code = opcode.Has("up")     ? kUpLanes
           : opcode.Has("down") ? kDownLanes
           : opcode.Has("bfly") ? kButterfly
                                : kIndexed;
  decoder.Write(operands[0], kWord);
  if (operands[0].has_second) decoder.WriteSlot(operands[0].second, kPredicate);
  for (size_t k = 1; k <= 3; ++k) decoder.Read(operands[k], kWord);
  ReadMask(operands, 4, decoder);
  return Set(decoder, Shuffle, {Kind::kShuffle, Pipe::kShuffle, 1, 23});
}

bool BindVote(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  Instruction& i = decoder.instruction();
  const Cost cost{Kind::kVote, Pipe::kInteger, 1, 12};
  if (name == "activemask") {
    if (operands.empty()) return Refuse(decoder, "too few operands");
    decoder.Write(operands[0], kWord);
    return Set(decoder, ReadActive, cost);
  }
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  if (name == "vote") {
    i.code = opcode.Has("ballot") ? kBallot
             : opcode.Has("all")  ? kAll
             : opcode.Has("any")  ? kAny
                                  : kUniform;
    decoder.Write(operands[0], i.code == kBallot ? kWord : kPredicate);
    if (operands[1].type != Operand::Type::kRegister) {
      decoder.Read(operands[1], kPredicate);
      return Refuse(decoder, "a constant");
    }
    decoder.Read(operands[1], kPredicate);
    i.detail = operands[1].negated ? 1 : 0;
    ReadMask(operands, 2, decoder);
    return Set(decoder, Vote, cost);
  }
  if (name == "match") {
    const NumberType type = NumberTypeOf(opcode.type());
    if (type == NumberType::kNone) return Refuse(decoder, "not known");
    i.code = opcode.Has("all") ? kAll : kAny;
    decoder.Write(operands[0], kWord);
    if (operands[0].has_second) decoder.WriteSlot(operands[0].second, kPredicate);
    decoder.Read(operands[1], ClassFor(type));
    ReadMask(operands, 2, decoder);
    // One step per distinct value.
    return Set(decoder, ClassFor(type) == kLong ? Match<LaneU64> : Match<LaneU32>,
               {Kind::kVote, Pipe::kShuffle, i.code == kAny ? 16.0F : 2.0F, 60});
  }
  if (name == "redux") {
    const NumberType type = NumberTypeOf(opcode.type());
    if (BytesOf(type) != 4 || IsReal(type)) return Refuse(decoder, "not known");
    i.code = opcode.Has("add")   ? kAddAll
             : opcode.Has("min") ? kMinAll
             : opcode.Has("max") ? kMaxAll
             : opcode.Has("and") ? kAndAll
             : opcode.Has("or")  ? kOrAll
                                 : kXorAll;
    i.detail = IsSigned(type) ? 1 : 0;
    decoder.Write(operands[0], kWord);
    decoder.Read(operands[1], kWord);
    ReadMask(operands, 2, decoder);
    return Set(decoder, Reduce, {Kind::kVote, Pipe::kShuffle, 2, 30});
  }
  if (name == "elect") {
    decoder.Write(operands[0], kWord);
    if (!operands[0].has_second) return Refuse(decoder, "not known");
    decoder.WriteSlot(operands[0].second, kPredicate);
    decoder.Read(operands[1], kWord);
    return Set(decoder, Elect, cost);
  }
  return Refuse(decoder, "not known");
}

bool BindBarrierReduction(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const BarrierReduction reduction = opcode.Has("popc")  ? BarrierReduction::kCount
                                     : opcode.Has("and") ? BarrierReduction::kAll
                                     : opcode.Has("or")  ? BarrierReduction::kAny
                                                         : BarrierReduction::kNone;
  if (reduction == BarrierReduction::kNone || operands.size() < 3 || operands.size() > 4 ||
      operands.back().type != Operand::Type::kRegister) {
    return Refuse(decoder, "not known");
  }
  Instruction& i = decoder.instruction();
  Set(decoder, Nothing, {Kind::kBarrier, Pipe::kControl, 2, 4});
  i.code = static_cast<uint8_t>(reduction);
  i.detail = operands.back().negated ? 1 : 0;
  i.flow = Flow::kBarrier;
  // A named barrier, or one for part of the block.
  i.hidden_synchronisation = operands.size() != 3 ||
                             operands[1].type != Operand::Type::kImmediate || operands[1].bits != 0;
  decoder.Write(operands[0], reduction == BarrierReduction::kCount ? kWord : kPredicate);
  decoder.Read(operands.back(), kPredicate);
  return decoder.ok();
}

bool BindSynchronisation(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  Instruction& i = decoder.instruction();
  if (name == "bar" || name == "barrier") {
    if (opcode.Has("warp")) {
      ReadMask(operands, 0, decoder);
      return Set(decoder, Nothing, {Kind::kBarrier, Pipe::kControl, 1, 4});
    }
    if (opcode.Has("red")) return BindBarrierReduction(opcode, operands, decoder);
    Set(decoder, Nothing, {Kind::kBarrier, Pipe::kControl, 1, 4});
    const bool arrives = opcode.Has("arrive");
    // A named barrier, or one for part of the block or several blocks.
    const bool plain = operands.empty() ||
                       (operands.size() == 1 && operands[0].type == Operand::Type::kImmediate &&
                        operands[0].bits == 0);
    i.hidden_synchronisation = arrives || !plain || opcode.Has("cluster");
    if (!arrives && !opcode.Has("cluster")) i.flow = Flow::kBarrier;
    return true;
  }
  if (name == "membar" || name == "fence") {
    const bool wide = opcode.Has("gl") || opcode.Has("gpu") || opcode.Has("sys");
    return Set(decoder, Nothing,
               {Kind::kFence, Pipe::kControl, wide ? 4.0F : 1.0F, wide ? 500.0F : 20.0F});
  }
  if (name == "mbarrier") {
    // Arrivals are not tracked: every wait succeeds.
    i.hidden_synchronisation = true;
    if (!operands.empty() && (operands[0].type == Operand::Type::kRegister ||
                              operands[0].type == Operand::Type::kSink)) {
      decoder.Write(operands[0],
                    operands[0].type == Operand::Type::kSink ? kLong : decoder.KindOf(operands[0]));
    }
    return Set(decoder, ClearResults, {Kind::kBarrier, Pipe::kMemory, 2, 30});
  }
  return Set(decoder, Nothing, {Kind::kOther, Pipe::kControl, 1, 4});
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

}  // namespace

bool Bind(const Opcode& opcode, const std::vector<Operand>& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  using Binder = bool (*)(const Opcode&, const Operands&, Decoder&);
  static constexpr std::pair<std::string_view, Binder> kBinders[] = {
      {"add", BindArithmetic},
      {"sub", BindArithmetic},
      {"mul", BindArithmetic},
      {"mad", BindArithmetic},
      {"fma", BindArithmetic},
      {"min", BindArithmetic},
      {"max", BindArithmetic},
      {"neg", BindArithmetic},
      {"abs", BindArithmetic},
      {"rem", BindArithmetic},
      {"addc", BindMath},
      {"subc", BindMath},
      {"madc", BindMath},
      {"dp2a", BindMath},
      {"dp4a", BindMath},
      {"vadd2", BindMath},
      {"vadd4", BindMath},
      {"vsub2", BindMath},
      {"vsub4", BindMath},
      {"vabsdiff2", BindMath},
      {"vabsdiff4", BindMath},
      {"vavrg2", BindMath},
      {"vavrg4", BindMath},
      {"vmin2", BindMath},
      {"vmin4", BindMath},
      {"vmax2", BindMath},
      {"vmax4", BindMath},
      {"fns", BindMath},
      {"bmsk", BindMath},
      {"szext", BindMath},
      {"testp", BindMath},
      {"isspacep", BindMath},
      {"createpolicy", BindMath},
      {"copysign", BindSpecial},
      {"sad", BindArithmetic},
      {"div", BindSpecial},
      {"rcp", BindSpecial},
      {"sqrt", BindSpecial},
      {"rsqrt", BindSpecial},
      {"ex2", BindSpecial},
      {"lg2", BindSpecial},
      {"sin", BindSpecial},
      {"cos", BindSpecial},
      {"tanh", BindSpecial},
      {"and", BindLogic},
      {"or", BindLogic},
      {"xor", BindLogic},
      {"not", BindLogic},
      {"cnot", BindLogic},
      {"brev", BindLogic},
      {"shl", BindBits},
      {"shr", BindBits},
      {"popc", BindBits},
      {"clz", BindBits},
      {"bfind", BindBits},
      {"bfe", BindBits},
      {"bfi", BindBits},
      {"shf", BindBits},
      {"prmt", BindBits},
      {"lop3", BindBits},
      {"setp", BindComparison},
      {"set", BindComparison},
      {"selp", BindSelection},
      {"mov", BindMove},
      {"cvta", BindWindow},
      {"cvt", BindConversion},
      {"shfl", BindShuffle},
      {"vote", BindVote},
      {"match", BindVote},
      {"redux", BindVote},
      {"activemask", BindVote},
      {"elect", BindVote},
      {"bar", BindSynchronisation},
      {"barrier", BindSynchronisation},
      {"membar", BindSynchronisation},
      {"fence", BindSynchronisation},
      {"mbarrier", BindSynchronisation},
      {"nanosleep", BindSynchronisation},
      {"setmaxnreg", BindSynchronisation},
      {"griddepcontrol", BindSynchronisation},
      {"mma", BindMatrix},
      {"wgmma", BindMatrix},
      {"ld", BindAccess},
      {"ldu", BindAccess},
      {"st", BindAccess},
      {"atom", BindAccess},
      {"red", BindAccess},
      {"cp", BindAccess},
      {"ldmatrix", BindAccess},
      {"stmatrix", BindAccess},
      {"prefetch", BindAccess},
      {"prefetchu", BindAccess},
      {"discard", BindAccess},
      {"applypriority", BindAccess},
      {"wmma", BindAccess},
  };
  for (const auto& [text, binder] : kBinders) {
    if (text == name) {
      if (name == "wmma" && opcode.Has("mma")) return BindMatrix(opcode, operands, decoder);
      return binder(opcode, operands, decoder);
    }
  }
  decoder.Fail("not known");
  return false;
}

}  // namespace kernelcast::worker::ptx
