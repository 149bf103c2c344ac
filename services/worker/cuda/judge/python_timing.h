#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PYTHON_TIMING_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PYTHON_TIMING_H_

#include "services/worker/core/options.h"

namespace kernelcast::worker {

// How precise the two ways of timing calls of Python programs are: as CUDA graphs, or launched by
// the host one by one (eager).

// Widens the spread of the device to that of graphs of a reference that takes this long.
void SpreadGraphs(double reference_ns, SpreadOptions& spread);
// The same for eager calls.
void SpreadEager(double reference_ns, SpreadOptions& spread);

// Precision of eager calls whose graphs are timed precisely.
PrecisionOptions EagerPrecision(PrecisionOptions precision);

// Whether something else must have slowed a graph: it took at least a tenth longer than the calls
// that it was captured from.
bool IsSlowed(double graph_ns, double eager_ns);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PYTHON_TIMING_H_
