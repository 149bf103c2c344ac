#ifndef KERNELCAST_COMMON_PROCESS_SEND_DESCRIPTORS_H_
#define KERNELCAST_COMMON_PROCESS_SEND_DESCRIPTORS_H_

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace kernelcast {

// Most descriptors of one message.
inline constexpr size_t kMaxSentDescriptors = 8;

// Sends the parts as one message over a Unix socket, with copies of the descriptors, if any. Goes
// on when a signal interrupts it, and raises none if the other end is closed. False: errno says
// why.
[[nodiscard]] bool SendDescriptors(int socket, std::span<const iovec> parts,
                                   std::span<const int> descriptors);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROCESS_SEND_DESCRIPTORS_H_
