#ifndef KERNELCAST_SERVICES_WORKER_RUNNER_ALLOCATION_WATCH_H_
#define KERNELCAST_SERVICES_WORKER_RUNNER_ALLOCATION_WATCH_H_

#include <atomic>
#include <cstdint>

namespace kernelcast::worker::runner {

// From now on, sets `*refused` to 1 when malloc, calloc, realloc, aligned_alloc, posix_memalign,
// operator new or mmap fail for lack of memory. A candidate's calls resolve to the runner's
// definitions because the executable comes first in the search order.
void WatchAllocations(std::atomic<uint32_t>* refused);

}  // namespace kernelcast::worker::runner

#endif  // KERNELCAST_SERVICES_WORKER_RUNNER_ALLOCATION_WATCH_H_
