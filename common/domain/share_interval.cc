#include "common/domain/share_interval.h"

#include <algorithm>
#include <cmath>

namespace kernelcast {

ShareInterval WilsonInterval(double share, double count) {
  constexpr double kZ = 1.96;
  const double z2 = kZ * kZ;
  const double middle = (share + z2 / (2 * count)) / (1 + z2 / count);
  const double half =
      kZ / (1 + z2 / count) * std::sqrt(share * (1 - share) / count + z2 / (4 * count * count));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

}  // namespace kernelcast
