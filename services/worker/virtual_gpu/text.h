#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_TEXT_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_TEXT_H_

#include <string>
#include <string_view>

namespace kernelcast::worker::virtual_gpu {

// As in the C locale.
inline bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
// Whether the character may be part of an identifier or a register name.
inline bool IsName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%';
}

// Replaces each line comment by a line break, and each block comment, closed or not, by a space.
std::string WithoutComments(std::string_view ptx);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_TEXT_H_
