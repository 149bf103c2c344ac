#ifndef KERNELCAST_SERVICES_WORKER_CORE_VERIFICATION_H_
#define KERNELCAST_SERVICES_WORKER_CORE_VERIFICATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/secret_random.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/tensor.h"
#include "services/worker/core/variation.h"

namespace kernelcast::worker {

// Expected value of an output, computed by the oracle.
class ExpectedTensor {
 public:
  // `oracle` holds float64 for float outputs and the declared type for integer ones. Values beyond
  // the range of the declared dtype become infinite, as they do in a correct candidate.
  // `noise`: see Unexplained.
  ExpectedTensor(const TensorLayout& layout, const Tolerance& tolerance,
                 std::span<const std::byte> oracle, std::optional<double> noise = std::nullopt);

  const TensorLayout& layout() const { return layout_; }
  bool is_float() const { return IsFloat(layout_.dtype); }
  int64_t elements() const { return layout_.elements(); }
  double value(int64_t i) const {
    return is_float() ? real_[static_cast<size_t>(i)]
                      : static_cast<double>(integer_[static_cast<size_t>(i)]);
  }
  std::span<const double> real() const { return real_; }
  std::span<const int64_t> integer() const { return integer_; }
  const Tolerance& tolerance() const { return tolerance_; }
  double rms() const { return rms_; }
  double norm() const { return norm_; }
  bool has_nan() const { return has_nan_; }

  // For outputs in which the reference itself does not follow the expected values.
  void ForgetNoise() { noise_.reset(); }
  // For outputs in which the reference itself exceeds Tolerance::normwise; see ExceedsOnlyNormwise.
  void ForgetNormwise() { tolerance_.normwise = 0; }
  std::optional<double> noise() const { return noise_; }

  // Whether the float value `got` agrees at position i, by the element rule.
  bool Agrees(int64_t i, double got) const;
  // Whether the element at position i of `output` agrees.
  bool AgreesAt(int64_t i, std::span<const std::byte> output) const;

 private:
  TensorLayout layout_;
  Tolerance tolerance_;
  std::vector<double> real_;
  std::vector<int64_t> integer_;
  std::optional<double> noise_;
  double absolute_ = 0;  // atol, scaled
  double rms_ = 0;
  double norm_ = 0;
  bool has_nan_ = false;
};

// Content of outputs before a call.
enum class PoisonKind {
  // NaN with random payloads; random bits in integers.
  kNonFinite,
  // Finite values of the same magnitude as the expected ones, so that a kernel cannot tell poison
  // from data.
  kPlausible,
};

// Deterministic in the seed, so that unwritten elements can be recognised.
void FillPoison(PoisonKind kind, uint64_t seed, const ExpectedTensor& expected,
                std::span<std::byte> output);

struct TensorVerdict {
  bool ok = true;
  WrongResult::Cause cause = WrongResult::Cause::kValue;
  uint64_t mismatches = 0;
  uint64_t index = 0;
  double got = 0;
  double expected = 0;
  double normwise_error = 0;
  // Whether the output agrees by Tolerance::own_error only. The mismatches are those of the other
  // rules.
  bool by_own_error = false;
  VariationSums variation;  // floating point only
};

struct Poison {
  PoisonKind kind = PoisonKind::kNonFinite;
  uint64_t seed = 0;
};

// The relative error of rounding to the nearest value is at most this. 0 for integers.
double UnitRoundoff(DataType dtype);

// Largest allowed error of an output, relative to its norm; 0: unlimited. Errors of rounding
// average out over many elements only, so fewer than 64 may also be off by the unit roundoff of
// their type.
double NormwiseLimit(const Tolerance& tolerance, DataType dtype, int64_t elements);

// Compares a whole output. An element agrees when |got - expected| <= atol * max(1, rms(expected))
// + rtol * |expected|; without the factor max(1, rms) if the tolerance is not scaled. NaN agrees
// with nothing, or with NaN if the tolerance says so; an infinity only with the same infinity. The
// tensor agrees when all elements do and ||got - expected|| <= NormwiseLimit * ||expected|| over
// the finite elements; it is not checked if the expected values are within atol of zero. Integers
// are compared exactly if no tolerance is given. Tolerance has further rules, among them a share of
// elements that may disagree: a verdict that is ok may then have mismatches. `poison` is what the
// output held before the call; it distinguishes "not written" from "wrong".
TensorVerdict CompareTensor(const ExpectedTensor& expected, std::span<const std::byte> output,
                            std::optional<Poison> poison);

// Whether the output misses Tolerance::normwise and nothing else. In an adversarial draw, all
// elements may be the same sum, which nearly cancels. Then the reference exceeds it too, and it
// decides nothing about candidates.
bool ExceedsOnlyNormwise(const TensorVerdict& verdict);

// For the rule of a result: an output agreed by Tolerance::own_error only. `mismatches`: elements
// that the other rules refuse; 0 where they refuse the output as a whole.
std::string OwnErrorText(uint64_t mismatches, uint64_t elements, const std::string& output);

// Wrong values planted in an output before a call and checked after it.
class Sentinels {
 public:
  // Plants at most `count` values at random positions, none where NaN is expected. Each differs
  // from the right value by more than the tolerance and looks like data.
  void Plant(const ExpectedTensor& expected, int count, SecretRandom& random,
             std::span<std::byte> output);

  struct Check {
    int wrong = 0;
    // Wrong elements that still hold the planted value.
    int untouched = 0;
  };
  Check Look(const ExpectedTensor& expected, std::span<const std::byte> output) const;

  int planted() const { return static_cast<int>(planted_.size()); }

 private:
  struct Planted {
    int64_t index;
    uint64_t bits;
  };
  std::vector<Planted> planted_;
};

// Returns element i of an output as a double.
double ElementAt(DataType dtype, std::span<const std::byte> output, int64_t i);
// The values of all elements of an output.
std::vector<double> Elements(DataType dtype, std::span<const std::byte> output);

// Rounds to four significant digits: enough to understand a failure, too few to copy the answer.
double RoundForReport(double value);
// Rounds both values of a mismatch, with as many extra digits as needed to make them differ.
void RoundForReport(double& got, double& expected);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_VERIFICATION_H_
