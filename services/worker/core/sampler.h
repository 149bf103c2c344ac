#ifndef KERNELCAST_SERVICES_WORKER_CORE_SAMPLER_H_
#define KERNELCAST_SERVICES_WORKER_CORE_SAMPLER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/random.h"

namespace kernelcast::worker {

// Draws values of any declared distribution except a file. Immutable.
class Sampler {
 public:
  // INVALID_ARGUMENT: an expression of the distribution has no value.
  [[nodiscard]] static absl::StatusOr<Sampler> Make(const InitDistribution& init,
                                                    const AxisValues& axes);

  double Real(Random& random) const;
  int64_t Whole(Random& random) const;

 private:
  enum class Kind { kNormal, kUniform, kIntegers, kConstant, kLogNormal, kPowerLaw, kZipf };

  // Draws from Zipf's distribution over 1, 2, ..., high_ - low_ + 1.
  int64_t Rank(Random& random) const;
  double Hat(double x) const;         // integral of x^-exponent
  double InverseHat(double x) const;  // inverse of Hat

  Kind kind_ = Kind::kConstant;
  double a_ = 0;
  double b_ = 0;
  double exponent_ = 0;
  int64_t low_ = 0;
  int64_t high_ = 0;
  // Rejection inversion: bounds of the hat's integral, and the threshold for accepting at once.
  double hat_first_ = 0;
  double hat_last_ = 0;
  double accept_ = 0;
};

// Rounds values to a declared quantisation.
class Quantiser {
 public:
  explicit Quantiser(const Quantisation& quantisation) : quantisation_(quantisation) {}
  bool active() const { return quantisation_.step > 0 || quantisation_.precision.has_value(); }
  // To a multiple of the step, then to the nearest value of the narrower type.
  double operator()(double value) const;

 private:
  Quantisation quantisation_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_SAMPLER_H_
