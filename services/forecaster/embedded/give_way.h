#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GIVE_WAY_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GIVE_WAY_H_

#include <thread>

namespace kernelcast::forecaster {

// Lets a thread that waits for this processor have it, between steps of a training. A low priority
// alone does not: Linux lets even such a thread go on for milliseconds before one that has just
// become ready, and a candidate becomes ready a dozen times on its way.
inline void GiveWay() { std::this_thread::yield(); }

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GIVE_WAY_H_
