#ifndef KERNELCAST_TESTS_SUPPORT_DEEP_JSON_H_
#define KERNELCAST_TESTS_SUPPORT_DEEP_JSON_H_

#include <string>
#include <string_view>

namespace kernelcast::testing {

// Nests `innermost` in this many copies of `opening`, such as "[" or "{\"a\":", and closes them.
inline std::string DeepJson(std::string_view opening, int times, std::string_view innermost = "1") {
  std::string closing;
  for (const char c : opening) {
    if (c == '[') closing.insert(0, "]");
    if (c == '{') closing.insert(0, "}");
  }
  std::string text;
  for (int i = 0; i < times; ++i) text += opening;
  text += innermost;
  for (int i = 0; i < times; ++i) text += closing;
  return text;
}

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_DEEP_JSON_H_
