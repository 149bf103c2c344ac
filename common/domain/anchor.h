#ifndef KERNELCAST_COMMON_DOMAIN_ANCHOR_H_
#define KERNELCAST_COMMON_DOMAIN_ANCHOR_H_

#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "common/domain/measurement.h"

namespace kernelcast {

// A measured kernel with which language models compare a candidate. forecaster.proto defines the
// fields.
struct AnchorKernel {
  struct ShapeTime {
    AxisValues shape;
    double median_ns = 0;
  };

  Candidate candidate;
  CompileFacts facts;  // empty schema: unknown
  Ratio speedup;
  std::vector<ShapeTime> times;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_ANCHOR_H_
