#ifndef KERNELCAST_SERVICES_WORKER_SANDBOX_PRIVILEGES_H_
#define KERNELCAST_SERVICES_WORKER_SANDBOX_PRIVILEGES_H_

#include <sys/resource.h>

#include <cstdint>

namespace kernelcast::worker::sandbox {

// Root becomes `uid`, with the group of the same number and no other, for good; 0, or another user,
// stays who he is. True when the process is not root after that.
bool LeaveRoot(uint32_t uid);

// This thread's capabilities. For good once there are no new privileges.
bool DropCapabilities();

// No program gives this process, or what it starts, more than it has.
bool GiveUpNewPrivileges();

// Both limits, soft and hard.
bool Limit(__rlimit_resource resource, rlim_t value);

}  // namespace kernelcast::worker::sandbox

#endif  // KERNELCAST_SERVICES_WORKER_SANDBOX_PRIVILEGES_H_
