#include "services/worker/cuda/ptx/text.h"

#include <algorithm>
#include <cctype>

namespace kernelcast::worker::ptx {

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

bool IsName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

std::string WithoutComments(std::string_view ptx) {
  std::string stripped;
  stripped.reserve(ptx.size());
  for (size_t i = 0; i < ptx.size(); ++i) {
    if (ptx.substr(i, 2) == "//") {
      i = std::min(ptx.find('\n', i), ptx.size());
      stripped += '\n';
    } else if (ptx.substr(i, 2) == "/*") {
      const size_t end = ptx.find("*/", i + 2);
      i = end == std::string_view::npos ? ptx.size() : end + 1;
      stripped += ' ';
    } else {
      stripped += ptx[i];
    }
  }
  return stripped;
}

}  // namespace kernelcast::worker::ptx
