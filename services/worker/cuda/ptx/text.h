#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PTX_TEXT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PTX_TEXT_H_

#include <string>
#include <string_view>

namespace kernelcast::worker::ptx {

// In the C locale.
bool IsSpace(char c);
// Of an identifier, and of a register's name.
bool IsName(char c);
// Without the space around it.
std::string_view Trim(std::string_view text);

// PTX with a line break for each comment to the end of a line and a space for each that is closed,
// or is not but should be.
std::string WithoutComments(std::string_view ptx);

}  // namespace kernelcast::worker::ptx

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PTX_TEXT_H_
