#include "services/worker/virtual_gpu/text.h"

#include <algorithm>

namespace kernelcast::worker::virtual_gpu {

std::string WithoutComments(std::string_view ptx) {
  std::string stripped;
  stripped.reserve(ptx.size());
  for (size_t i = 0; i < ptx.size();) {
    const size_t slash = std::min(ptx.find('/', i), ptx.size());
    stripped.append(ptx.substr(i, slash - i));
    i = slash;
    if (ptx.substr(i, 2) == "//") {
      i = std::min(ptx.find('\n', i), ptx.size() - 1) + 1;
      stripped += '\n';
    } else if (ptx.substr(i, 2) == "/*") {
      const size_t end = ptx.find("*/", i + 2);
      i = end == std::string_view::npos ? ptx.size() : end + 2;
      stripped += ' ';
    } else if (i < ptx.size()) {
      stripped += ptx[i++];
    }
  }
  return stripped;
}

}  // namespace kernelcast::worker::virtual_gpu
