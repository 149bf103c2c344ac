#include "services/worker/core/verification.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "services/worker/core/narrow_float.h"
#include "services/worker/core/random.h"

namespace kernelcast::worker {
namespace {

double AbsoluteTolerance(const Tolerance& tolerance, double rms) {
  return tolerance.atol * (tolerance.scaled ? std::max(1.0, rms) : 1.0);
}

// Keeps relative errors finite, as the rule that takes the larger bound does.
constexpr double kRelativeFloor = 1e-8;

// The largest error of an element that agrees. `absolute`: of AbsoluteTolerance.
double Bound(const Tolerance& tolerance, double absolute, double expected) {
  const double magnitude = std::abs(expected);
  return tolerance.larger_of_both
             ? std::max(absolute, tolerance.rtol * (magnitude + kRelativeFloor))
             : absolute + tolerance.rtol * magnitude;
}

constexpr int64_t kFewestToAverage = 64;

constexpr int kReportedDigits = 4;
constexpr int kMostReportedDigits = 9;

double RoundTo(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) {
    return value;
  }
  const double magnitude = std::pow(10, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(magnitude) && magnitude > 0 ? std::round(value * magnitude) / magnitude
                                                   : value;
}

template <class T>
T Load(std::span<const std::byte> data, int64_t i) {
  T value;
  std::memcpy(&value, data.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void Store(std::span<std::byte> data, int64_t i, T value) {
  std::memcpy(data.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
}

// A value of a type that C++ lacks.
template <DataType kType>
struct Narrow {
  using Bits = std::conditional_t<kType == DataType::kFloat16 || kType == DataType::kBfloat16,
                                  uint16_t, uint8_t>;
  Narrow() = default;
  explicit Narrow(double value) : bits(static_cast<Bits>(EncodeNarrow(kType, value))) {}
  explicit operator double() const {
    if constexpr (kType == DataType::kBfloat16) {
      return std::bit_cast<float>(uint32_t{bits} << 16);
    } else {
      return DecodeNarrow(kType, bits);
    }
  }
  Bits bits = 0;
};

template <class T>
inline constexpr bool kIsReal = std::is_floating_point_v<T>;
template <DataType kType>
inline constexpr bool kIsReal<Narrow<kType>> = true;

// Calls f with a value of the C++ type of `dtype`.
template <class F>
decltype(auto) WithType(DataType dtype, F&& f) {
  switch (dtype) {
    case DataType::kFloat64: return f(double{});
    case DataType::kInt64: return f(int64_t{});
    case DataType::kInt32: return f(int32_t{});
    case DataType::kInt8: return f(int8_t{});
    case DataType::kUint8: return f(uint8_t{});
    case DataType::kFloat16: return f(Narrow<DataType::kFloat16>{});
    case DataType::kBfloat16: return f(Narrow<DataType::kBfloat16>{});
    case DataType::kFloat8E4m3: return f(Narrow<DataType::kFloat8E4m3>{});
    case DataType::kFloat8E5m2: return f(Narrow<DataType::kFloat8E5m2>{});
    default: return f(float{});
  }
}

double LargestFinite(DataType dtype) {
  return dtype == DataType::kFloat32 ? static_cast<double>(std::numeric_limits<float>::max())
                                     : std::numeric_limits<double>::max();
}

template <class T>
T PoisonValue(PoisonKind kind, double scale, Random& random) {
  if constexpr (kIsReal<T>) {
    if (kind == PoisonKind::kPlausible) {
      return static_cast<T>(scale * (0.25 + random.Uniform()) * (random.Next() & 1 ? 1 : -1));
    }
    if constexpr (sizeof(T) < 4) {
      return T(std::copysign(std::numeric_limits<double>::quiet_NaN(), random.Next() & 1 ? 1 : -1));
    } else if constexpr (sizeof(T) == 8) {
      return std::bit_cast<T>((random.Next() & 0x800fffffffffffffu) | 0x7ff8000000000000u);
    } else {
      return std::bit_cast<T>(static_cast<uint32_t>(random.Next() & 0x803fffffu) | 0x7fc00000u);
    }
  } else {
    const uint64_t bits = random.Next();
    if (kind == PoisonKind::kPlausible) {
      return static_cast<T>(bits % (static_cast<uint64_t>(std::max(1.0, scale)) + 1));
    }
    return static_cast<T>(bits);
  }
}

double PoisonScale(const ExpectedTensor& expected) {
  return std::isfinite(expected.rms()) && expected.rms() > 0 ? expected.rms() : 1;
}

template <class T>
uint64_t Bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

// Number of positions that disagree, and the errors of those that agree.
struct Pass {
  uint64_t bad = 0;
  double largest_error = 0;
  VariationSums variation;  // over the elements that agree
};

template <class T>
Pass CountReal(const ExpectedTensor& expected, double absolute, const T* got) {
  const double* want = expected.real().data();
  const Tolerance tolerance = expected.tolerance();
  const size_t n = expected.real().size();
  Pass pass;
  for (size_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(got[i]);
    const double error = std::abs(value - want[i]);
    const bool good = error <= Bound(tolerance, absolute, want[i]) && error < HUGE_VAL;
    pass.bad += good ? 0 : 1;
    if (good) pass.variation.Add(want[i], value);
    pass.largest_error = good ? std::max(pass.largest_error, error) : pass.largest_error;
  }
  return pass;
}

// Whether an output agrees by Tolerance::own_error. If it does, `variation` is that of all
// elements.
bool WithinOwnError(const ExpectedTensor& expected, std::span<const std::byte> output,
                    VariationSums& variation) {
  const std::optional<Tolerance::OwnError>& own = expected.tolerance().own_error;
  if (!own || !expected.is_float()) return false;
  const double most = (1 + kOwnErrors) * own->largest * expected.rms();
  VariationSums sums;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double want = expected.value(i);
    const double got = ElementAt(expected.layout().dtype, output, i);
    if (!std::isfinite(want)) {
      if (!expected.Agrees(i, got)) return false;
      continue;
    }
    if (!(std::abs(got - want) <= most)) return false;
    sums.Add(want, got);
  }
  if (std::sqrt(sums.error_squares) > (1 + kOwnErrors) * own->normwise * expected.norm()) {
    return false;
  }
  variation = sums;
  return true;
}

bool AllZero(DataType dtype, std::span<const std::byte> output, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    if (ElementAt(dtype, output, i) != 0) return false;
  }
  return true;
}

}  // namespace

ExpectedTensor::ExpectedTensor(const TensorLayout& layout, const Tolerance& tolerance,
                               std::span<const std::byte> oracle, std::optional<double> noise)
    : layout_(layout), tolerance_(tolerance), noise_(noise) {
  const int64_t n = layout.elements();
  double squares = 0;
  int64_t finite = 0;
  if (IsFloat(layout.dtype)) {
    const double largest = LargestFinite(layout.dtype);
    real_.resize(static_cast<size_t>(n));
    std::memcpy(real_.data(), oracle.data(), real_.size() * sizeof(double));
    for (double& value : real_) {
      if (std::isnan(value)) {
        has_nan_ = true;
      } else if (std::abs(value) > largest) {
        value = value > 0 ? HUGE_VAL : -HUGE_VAL;
      } else {
        squares += value * value;
        ++finite;
      }
    }
  } else {
    integer_.resize(static_cast<size_t>(n));
    WithType(layout.dtype, [&]<class T>(T) {
      if constexpr (!kIsReal<T>) {
        for (int64_t i = 0; i < n; ++i) {
          integer_[static_cast<size_t>(i)] = Load<T>(oracle, i);
        }
      }
    });
    for (const int64_t value : integer_) {
      squares += static_cast<double>(value) * static_cast<double>(value);
      ++finite;
    }
  }
  norm_ = std::sqrt(squares);
  rms_ = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  absolute_ = AbsoluteTolerance(tolerance, rms_);
}

bool ExpectedTensor::Agrees(int64_t i, double got) const {
  const double want = real_[static_cast<size_t>(i)];
  if (std::isnan(want)) return tolerance_.nan_agrees && std::isnan(got);
  if (std::isinf(want)) {
    const bool allowed = tolerance_.infinities == Tolerance::Infinities::kBoth ||
                         (tolerance_.infinities == Tolerance::Infinities::kNegative && want < 0);
    return got == want && allowed;
  }
  return std::abs(got - want) <= Bound(tolerance_, absolute_, want);
}

bool ExpectedTensor::AgreesAt(int64_t i, std::span<const std::byte> output) const {
  if (is_float()) {
    return Agrees(i, ElementAt(layout_.dtype, output, i));
  }
  const int64_t want = integer_[static_cast<size_t>(i)];
  const int64_t got = WithType(layout_.dtype, [&]<class T>(T) -> int64_t {
    if constexpr (kIsReal<T>) {
      return 0;
    } else {
      return static_cast<int64_t>(Load<T>(output, i));
    }
  });
  // Exact even where a double is not.
  const uint64_t error = got > want ? static_cast<uint64_t>(got) - static_cast<uint64_t>(want)
                                    : static_cast<uint64_t>(want) - static_cast<uint64_t>(got);
  return static_cast<double>(error) <=
         Bound(tolerance_, tolerance_.atol, static_cast<double>(want));
}

void FillPoison(PoisonKind kind, uint64_t seed, const ExpectedTensor& expected,
                std::span<std::byte> output) {
  Random random(seed);
  const double scale = PoisonScale(expected);
  const int64_t n = expected.elements();
  WithType(expected.layout().dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i) {
      Store<T>(output, i, PoisonValue<T>(kind, scale, random));
    }
  });
}

double UnitRoundoff(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat64: return 0x1p-53;
    case DataType::kFloat32: return 0x1p-24;
    case DataType::kFloat16: return 0x1p-11;
    case DataType::kBfloat16: return 0x1p-8;
    case DataType::kFloat8E4m3: return 0x1p-4;
    case DataType::kFloat8E5m2: return 0x1p-3;
    default: return 0;
  }
}

double NormwiseLimit(const Tolerance& tolerance, DataType dtype, int64_t elements) {
  const bool averages = elements >= kFewestToAverage;
  return tolerance.normwise > 0 && !averages ? tolerance.normwise + UnitRoundoff(dtype)
                                             : tolerance.normwise;
}

namespace {

// By all rules but Tolerance::own_error.
TensorVerdict CompareByBounds(const ExpectedTensor& expected, std::span<const std::byte> output,
                              std::optional<Poison> poison) {
  const DataType dtype = expected.layout().dtype;
  const Tolerance& tolerance = expected.tolerance();
  const int64_t n = expected.elements();
  TensorVerdict verdict;
  bool over_budget = false;
  const bool zeros = tolerance.not_all_zero && expected.norm() > 0 && AllZero(dtype, output, n);
  const auto over_limit = [&](int64_t i) {
    return tolerance.max_error > 0 &&
           std::abs(ElementAt(dtype, output, i) - expected.value(i)) > tolerance.max_error;
  };

  if (expected.is_float()) {
    const double absolute = AbsoluteTolerance(tolerance, expected.rms());
    const Pass pass = WithType(dtype, [&]<class T>(T) {
      return CountReal(expected, absolute, reinterpret_cast<const T*>(output.data()));
    });
    const double error_norm = std::sqrt(pass.variation.error_squares);
    verdict.normwise_error = expected.norm() > 0 ? error_norm / expected.norm() : error_norm;
    verdict.variation = pass.variation;
    const double limit = NormwiseLimit(tolerance, dtype, n);
    over_budget = limit > 0 && expected.rms() > tolerance.atol && verdict.normwise_error > limit;
    const bool within = tolerance.max_error <= 0 || pass.largest_error <= tolerance.max_error;
    if (pass.bad == 0 && within && !zeros) {
      verdict.ok = !over_budget;
      verdict.cause = WrongResult::Cause::kNormwise;
      return verdict;
    }
  } else {
    bool equal = true;
    for (int64_t i = 0; i < n && equal; ++i) {
      equal = expected.AgreesAt(i, output) && !over_limit(i);
    }
    if (equal && !zeros) {
      return verdict;
    }
  }

  // Something disagrees or is an expected infinity: check each element.
  bool all_unwritten = poison.has_value();
  bool any_unwritten = false;
  uint64_t first_unwritten = 0;
  uint64_t non_finite = 0;
  // Whether an element is wrong whatever share of the elements may be.
  bool intolerable = zeros;
  Random random(poison ? poison->seed : 0);
  const double scale = PoisonScale(expected);
  WithType(dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i) {
      const T got = Load<T>(output, i);
      const T left = poison ? PoisonValue<T>(poison->kind, scale, random) : T{};
      const bool beyond = over_limit(i);
      intolerable = intolerable || beyond;
      if (expected.AgreesAt(i, output) && !beyond && !(zeros && expected.value(i) != 0)) {
        continue;
      }
      if (verdict.mismatches == 0) {
        verdict.index = static_cast<uint64_t>(i);
      }
      ++verdict.mismatches;
      if constexpr (kIsReal<T>) {
        const bool finite = std::isfinite(static_cast<double>(got));
        non_finite += finite ? 0 : 1;
        intolerable = intolerable || !finite;
      }
      if (poison && Bits(got) == Bits(left)) {
        if (!any_unwritten) {
          any_unwritten = true;
          first_unwritten = static_cast<uint64_t>(i);
        }
      } else {
        all_unwritten = false;
      }
    }
  });
  if (verdict.mismatches == 0) {
    verdict.ok = !over_budget;
    verdict.cause = WrongResult::Cause::kNormwise;
    return verdict;
  }
  const double matched = 1 - static_cast<double>(verdict.mismatches) / static_cast<double>(n);
  const bool enough = tolerance.matched_ratio < 1 && matched >= tolerance.matched_ratio;
  verdict.ok = enough && !intolerable && !any_unwritten && !over_budget;
  if (verdict.ok) return verdict;
  if (all_unwritten || (enough && any_unwritten)) {
    verdict.cause = WrongResult::Cause::kNotWritten;
    verdict.index = first_unwritten;
  } else if (non_finite == verdict.mismatches) {
    verdict.cause = WrongResult::Cause::kNonFinite;
  } else {
    verdict.cause = WrongResult::Cause::kValue;
  }
  verdict.got = ElementAt(dtype, output, static_cast<int64_t>(verdict.index));
  verdict.expected = expected.value(static_cast<int64_t>(verdict.index));
  return verdict;
}

}  // namespace

TensorVerdict CompareTensor(const ExpectedTensor& expected, std::span<const std::byte> output,
                            std::optional<Poison> poison) {
  TensorVerdict verdict = CompareByBounds(expected, output, poison);
  const bool written = verdict.cause != WrongResult::Cause::kNotWritten;
  if (!verdict.ok && written && WithinOwnError(expected, output, verdict.variation)) {
    verdict.ok = true;
    verdict.by_own_error = true;
  }
  return verdict;
}

bool ExceedsOnlyNormwise(const TensorVerdict& verdict) {
  return !verdict.ok && verdict.mismatches == 0 && verdict.cause == WrongResult::Cause::kNormwise;
}

std::string OwnErrorText(uint64_t mismatches, uint64_t elements, const std::string& output) {
  return absl::StrCat(
      "; decided by the latter: the former refuses ",
      mismatches > 0 ? absl::StrCat(mismatches, " of ", elements, " values of ") : "", "output ",
      output);
}

void Sentinels::Plant(const ExpectedTensor& expected, int count, SecretRandom& random,
                      std::span<std::byte> output) {
  planted_.clear();
  const auto n = static_cast<uint64_t>(expected.elements());
  const double scale = PoisonScale(expected);
  const Tolerance& tolerance = expected.tolerance();
  WithType(expected.layout().dtype, [&]<class T>(T) {
    for (int k = 0; k < count; ++k) {
      const auto i = static_cast<int64_t>(random.Below(n));
      if (std::any_of(planted_.begin(), planted_.end(),
                      [&](const Planted& planted) { return planted.index == i; })) {
        continue;
      }
      const double right = expected.value(i);
      if (std::isnan(right)) continue;
      double other = expected.value(static_cast<int64_t>(random.Below(n)));
      T wrong{};
      if constexpr (kIsReal<T>) {
        if (!std::isfinite(other)) {
          other = scale;
        }
        const double slack = 4 * (AbsoluteTolerance(tolerance, expected.rms()) +
                                  tolerance.rtol * (std::isfinite(right) ? std::abs(right) : 0));
        double value = other + scale * 0.05 * (random.Uniform() - 0.5);
        if (std::isfinite(right) && std::abs(value - right) <= slack) {
          value = right + (slack + 0.1 * scale) * (random.Next() & 1 ? 1 : -1);
        }
        wrong = static_cast<T>(value);
      } else {
        wrong = static_cast<T>(static_cast<int64_t>(other));
      }
      Store<T>(output, i, wrong);
      // Rounding to the dtype may have moved it back within the tolerance.
      for (int attempt = 1; expected.AgreesAt(i, output) && attempt < 64; ++attempt) {
        if constexpr (kIsReal<T>) {
          wrong = static_cast<T>(right + std::ldexp(scale, attempt - 4) * (1 + random.Uniform()));
        } else {
          wrong = static_cast<T>(static_cast<uint64_t>(right) +
                                 random.Below(uint64_t{2} << attempt) + 1);
        }
        Store<T>(output, i, wrong);
      }
      planted_.push_back({i, Bits(wrong)});
    }
  });
}

Sentinels::Check Sentinels::Look(const ExpectedTensor& expected,
                                 std::span<const std::byte> output) const {
  Check check;
  WithType(expected.layout().dtype, [&]<class T>(T) {
    for (const Planted& planted : planted_) {
      if (expected.AgreesAt(planted.index, output)) {
        continue;
      }
      ++check.wrong;
      check.untouched += Bits(Load<T>(output, planted.index)) == planted.bits ? 1 : 0;
    }
  });
  return check;
}

double ElementAt(DataType dtype, std::span<const std::byte> output, int64_t i) {
  if (IsNarrowFloat(dtype)) {
    const auto size = static_cast<size_t>(SizeBytes(dtype));
    uint32_t bits = 0;
    std::memcpy(&bits, output.data() + static_cast<size_t>(i) * size, size);
    return DecodeNarrow(dtype, bits);
  }
  return WithType(dtype, [&]<class T>(T) { return static_cast<double>(Load<T>(output, i)); });
}

std::vector<double> Elements(DataType dtype, std::span<const std::byte> output) {
  std::vector<double> values(output.size() / static_cast<size_t>(SizeBytes(dtype)));
  if (IsNarrowFloat(dtype)) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = ElementAt(dtype, output, static_cast<int64_t>(i));
    }
    return values;
  }
  WithType(dtype, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(Load<T>(output, static_cast<int64_t>(i)));
    }
  });
  return values;
}

double RoundForReport(double value) { return RoundTo(value, kReportedDigits); }

void RoundForReport(double& got, double& expected) {
  for (int digits = kReportedDigits; digits <= kMostReportedDigits; ++digits) {
    const double rounded_got = RoundTo(got, digits);
    const double rounded_expected = RoundTo(expected, digits);
    if (rounded_got != rounded_expected || digits == kMostReportedDigits) {
      got = rounded_got;
      expected = rounded_expected;
      return;
    }
  }
}

}  // namespace kernelcast::worker
