#ifndef KERNELCAST_COMMON_PROCESS_AVAILABLE_MEMORY_H_
#define KERNELCAST_COMMON_PROCESS_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace kernelcast {

// Returns the memory that this process can still allocate without being refused or killed: the
// minimum of the machine's available memory, the limits of its control groups (version 2), and its
// address space limit. Ignores limits that the system does not report; returns the largest int64 if
// it reports none. `root` is prepended to paths in /proc and /sys, for tests.
int64_t AvailableMemoryBytes(const std::string& root = "");

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROCESS_AVAILABLE_MEMORY_H_
