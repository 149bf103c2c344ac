#ifndef KERNELCAST_COMMON_PROMPT_TEXT_LINES_H_
#define KERNELCAST_COMMON_PROMPT_TEXT_LINES_H_

#include <string_view>
#include <unordered_map>
#include <vector>

namespace kernelcast {

// The lines of a text, without line ends and trailing white space. A last line needs no line end.
std::vector<std::string_view> TextLines(std::string_view text);

// Numbers lines so that equal lines have equal numbers. The lines must outlive this object.
class LineNumbers {
 public:
  std::vector<int> Of(const std::vector<std::string_view>& lines);

 private:
  std::unordered_map<std::string_view, int> numbers_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROMPT_TEXT_LINES_H_
