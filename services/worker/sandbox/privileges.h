#ifndef KERNELCAST_SERVICES_WORKER_SANDBOX_PRIVILEGES_H_
#define KERNELCAST_SERVICES_WORKER_SANDBOX_PRIVILEGES_H_

#include <sys/resource.h>

#include <cstdint>

namespace kernelcast::worker::sandbox {

// Changes root to user `uid`, with the group of the same number and no other groups, permanently.
// With 0, or when not root, the user stays the same. Returns whether the process is not root
// afterwards.
bool LeaveRoot(uint32_t uid);

// Drops this thread's capabilities. Permanent once GiveUpNewPrivileges was called.
bool DropCapabilities();

// Sets no_new_privs: programs run by this process or its children gain no privileges.
bool GiveUpNewPrivileges();

// Sets both the soft and the hard limit.
bool Limit(__rlimit_resource resource, rlim_t value);

}  // namespace kernelcast::worker::sandbox

#endif  // KERNELCAST_SERVICES_WORKER_SANDBOX_PRIVILEGES_H_
