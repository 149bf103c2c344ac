#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_YIELD_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_YIELD_H_

#include <thread>

namespace kernelcast::forecaster {

// Yields the CPU between training steps. A low priority is not enough: Linux lets such a thread run
// for milliseconds before a thread that has just become ready, and a candidate's threads become
// ready a dozen times.
inline void Yield() { std::this_thread::yield(); }

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_YIELD_H_
