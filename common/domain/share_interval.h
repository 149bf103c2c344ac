#ifndef KERNELCAST_COMMON_DOMAIN_SHARE_INTERVAL_H_
#define KERNELCAST_COMMON_DOMAIN_SHARE_INTERVAL_H_

namespace kernelcast {

struct ShareInterval {
  double low = 0;
  double high = 1;
};

// The 95% interval of a share that was observed in `count` items (Wilson, "Probable Inference, the
// Law of Succession, and Statistical Inference", 1927). `share` must be in [0, 1] and `count` > 0;
// with unequal weights `count` is the effective number of items.
ShareInterval WilsonInterval(double share, double count);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_SHARE_INTERVAL_H_
