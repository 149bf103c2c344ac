#ifndef KERNELCAST_COMMON_BASE_VERSION_H_
#define KERNELCAST_COMMON_BASE_VERSION_H_

#include <string_view>

namespace kernelcast {

// "0.1.0", as in CMakeLists.txt.
std::string_view Version();
// Git revision of the checkout when the build was configured, "unknown" outside a checkout.
std::string_view Revision();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_VERSION_H_
