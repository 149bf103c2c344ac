#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_OPERATIONS_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_OPERATIONS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

// Operations that integers and floating-point numbers have in common. Integers wrap.

namespace kernelcast::worker::virtual_gpu {

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

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_OPERATIONS_H_
