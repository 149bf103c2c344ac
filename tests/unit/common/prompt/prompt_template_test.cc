#include "common/prompt/prompt_template.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

namespace kernelcast {
namespace {

constexpr std::string_view kKnown[] = {"task", "candidate"};

TEST_CASE("Only placeholders are replaced", "[prompt]") {
  const auto parsed = PromptTemplate::Parse("{a} {{task}}, {{task}}: {{candidate}}\n", kKnown);
  REQUIRE(parsed.ok());
  CHECK(parsed->names() == std::vector<std::string>{"task", "task", "candidate"});
  CHECK(parsed->tail() == "\n");
  // Values are not expanded.
  CHECK(parsed->Render({{"task", "{{candidate}}"}, {"candidate", "}} {{task}}"}}) ==
        "{a} {{candidate}}, {{candidate}}: }} {{task}}\n");
}

TEST_CASE("A template without placeholders renders as its text", "[prompt]") {
  const auto parsed = PromptTemplate::Parse("as it is", kKnown);
  REQUIRE(parsed.ok());
  CHECK(parsed->names().empty());
  CHECK(parsed->Render({}) == "as it is");
}

TEST_CASE("A template error is reported with its line", "[prompt]") {
  const auto error = [](std::string_view text) {
    const auto parsed = PromptTemplate::Parse(text, kKnown);
    CHECK(absl::IsInvalidArgument(parsed.status()));
    return std::string(parsed.status().message());
  };
  CHECK(error("a\nb {{tusk}}") == "line 2: 'tusk' is not one of task, candidate");
  CHECK(error("{{ task }}") == "line 1: ' task ' is not one of task, candidate");
  CHECK(error("a\n\n{{task") == "line 3: '{{' is not closed on its line");
  CHECK(error("{{task\n}}") == "line 1: '{{' is not closed on its line");
  CHECK(error("{{task}}\n}}") == "line 2: '}}' closes nothing");
  CHECK(error("\xff") == "line 1: the text is not UTF-8, or holds a NUL");
}

}  // namespace
}  // namespace kernelcast
