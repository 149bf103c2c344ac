#ifndef KERNELCAST_COMMON_DOMAIN_STUDENT_T_H_
#define KERNELCAST_COMMON_DOMAIN_STUDENT_T_H_

namespace kernelcast {

// The Student-t distribution with location 0 and scale 1. `degrees_of_freedom` must be > 0. Above
// 200 the normal distribution is used.

// P(T > t).
double StudentTUpperTail(double t, double degrees_of_freedom);

// The t with P(T <= t) = p, for p in (0, 1).
double StudentTQuantile(double p, double degrees_of_freedom);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_STUDENT_T_H_
