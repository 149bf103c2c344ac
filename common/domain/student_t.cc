#include "common/domain/student_t.h"

#include <boost/math/distributions/students_t.hpp>
#include <limits>

namespace kernelcast {
namespace {

// Never throws, and stays in double, which is precise enough and several times as fast.
using Policy = boost::math::policies::policy<
    boost::math::policies::domain_error<boost::math::policies::ignore_error>,
    boost::math::policies::overflow_error<boost::math::policies::ignore_error>,
    boost::math::policies::evaluation_error<boost::math::policies::ignore_error>,
    boost::math::policies::promote_double<false>>;
using Distribution = boost::math::students_t_distribution<double, Policy>;

constexpr double kNormalFromDegrees = 200;

Distribution With(double degrees_of_freedom) {
  return Distribution(degrees_of_freedom > kNormalFromDegrees
                          ? std::numeric_limits<double>::infinity()
                          : degrees_of_freedom);
}

}  // namespace

double StudentTUpperTail(double t, double degrees_of_freedom) {
  return boost::math::cdf(boost::math::complement(With(degrees_of_freedom), t));
}

double StudentTQuantile(double p, double degrees_of_freedom) {
  return boost::math::quantile(With(degrees_of_freedom), p);
}

}  // namespace kernelcast
