#include "common/llm/reasoning_marks.h"

#include <string>
#include <string_view>

#include "common/base/strings.h"

namespace kernelcast::llm {
namespace {

struct Marks {
  std::string_view begin;
  std::string_view end;
};
// The last are those of gpt-oss, where a server does not parse them.
constexpr Marks kMarks[] = {
    {"<think>", "</think>"},
    {"<thinking>", "</thinking>"},
    {"[THINK]", "[/THINK]"},
    {"<|channel|>analysis<|message|>", "<|channel|>final<|message|>"},
};

}  // namespace

void SeparateReasoning(ChatAnswer& answer) {
  for (const Marks& marks : kMarks) {
    std::string_view content = answer.content;
    const size_t end = content.rfind(marks.end);
    const std::string_view trimmed = Trim(content);
    const bool begins = trimmed.starts_with(marks.begin);
    if (end == std::string_view::npos && !begins) continue;
    std::string_view thought = Trim(content.substr(0, end));
    if (begins) thought = Trim(thought.substr(marks.begin.size()));
    const std::string rest(
        end == std::string_view::npos ? "" : Trim(content.substr(end + marks.end.size())));
    if (!answer.reasoning.empty() && !thought.empty()) answer.reasoning += '\n';
    answer.reasoning += thought;
    answer.content = rest;
    return;
  }
}

}  // namespace kernelcast::llm
