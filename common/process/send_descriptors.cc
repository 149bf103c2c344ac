#include "common/process/send_descriptors.h"

#include <errno.h>
#include <sys/socket.h>

#include <cassert>
#include <cstring>

namespace kernelcast {

bool SendDescriptors(int socket, std::span<const iovec> parts, std::span<const int> descriptors) {
  assert(descriptors.size() <= kMaxSentDescriptors);
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxSentDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace kernelcast
