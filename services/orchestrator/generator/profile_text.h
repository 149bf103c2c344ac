#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_PROFILE_TEXT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_PROFILE_TEXT_H_

#include <cstddef>
#include <string>

#include "services/orchestrator/core/attempt.h"

namespace kernelcast::orchestrator {

// Describes what bounds a kernel, as Markdown: at each of up to four bench shapes, furthest from
// the roofline first, the share of the device's roofline that it reaches, the resource that bounds
// it, stall reasons, counters and the times of its kernels, as far as they were measured. Where a
// shape has no counters, the virtual GPU's simulation follows.
//
// By counters, the busiest of memory, multiprocessors and tensor cores bounds the kernel if it is
// used to at least 60%, otherwise latency does. Without them, the peak of its roofline bounds a
// kernel that reaches at least 60% of it.
//
// `kernel` is null for the reference.
std::string ProfileText(const Attempt* kernel, const CompileFacts& reference_facts);

// The change that made the kernel from its parent, as a unified diff of at most `max_bytes`, with
// both speedups. Empty if the kernel is not faster than its parent, or has the same source.
std::string ChangeText(const Attempt& kernel, const Attempt& parent, size_t max_bytes);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_PROFILE_TEXT_H_
