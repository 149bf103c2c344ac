#include "services/cli/report/highlight.h"

#include <catch2/catch.hpp>
#include <random>

namespace kernelcast::cli {
namespace {

std::string One(const std::string& source) {
  const auto lines = HighlightSource(source);
  REQUIRE(lines.size() == 1);
  return lines[0];
}

// The text that a reader of the page sees.
std::string Shown(const std::string& html) {
  std::string text;
  bool tag = false;
  for (const char c : html) {
    if (c == '<') tag = true;
    if (!tag) text += c;
    if (c == '>') tag = false;
  }
  return text;
}

TEST_CASE("Markup in text never becomes markup in the page") {
  CHECK(Html("</script><b a=\"1\" c='2'>&") ==
        "&lt;/script&gt;&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
}

TEST_CASE("Invalid UTF-8, control characters and direction overrides become visible") {
  CHECK(Html("a\xff"
             "b") ==
        "a\xEF\xBF\xBD"
        "b");
  CHECK(Html(std::string_view("\0\x1b\x7f", 3)) == "␀␛␡");
  CHECK(Html("if (x\xE2\x80\xAE) {") == "if (x[U+202E]) {");
  CHECK(Html("\xE2\x81\xA6") == "[U+2066]");
  CHECK(Html("a\tb\nc × é") == "a\tb\nc × é");
}

TEST_CASE("C++ tokens are distinguished") {
  CHECK(One("int x = 42; // answer") ==
        "<i class=t>int</i> x = <i class=n>42</i>; <i class=c>// answer</i>");
  CHECK(One("return f(\"a\\\"b\");") ==
        "<i class=k>return</i> <i class=f>f</i>(<i class=s>&quot;a\\&quot;b&quot;</i>);");
  CHECK(One("#include <math.h>  // m") ==
        "<i class=p>#include</i><i class=s> &lt;math.h&gt;  </i><i class=c>// m</i>");
  CHECK(One("#define N 4") == "<i class=p>#define</i> N <i class=n>4</i>");
  CHECK(One("0x1.8p-3f + 1'000 + .5e+3") ==
        "<i class=n>0x1.8p-3f</i> + <i class=n>1&#39;000</i> + <i class=n>.5e+3</i>");
  CHECK(One("R\"x(a \" b)x\" c") == "<i class=s>R&quot;x(a &quot; b)x&quot;</i> c");
  CHECK(One("a / b") == "a / b");
}

TEST_CASE("A multi-line token is styled on each line") {
  const auto lines = HighlightSource("/* one\ntwo */ int x;\n\nlast");
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "<i class=c>/* one</i>");
  CHECK(lines[1] == "<i class=c>two */</i> <i class=t>int</i> x;");
  CHECK(lines[2].empty());
  CHECK(lines[3] == "last");
}

TEST_CASE("Unterminated tokens, lone quotes and foreign line ends are handled") {
  CHECK(HighlightSource("").empty());
  CHECK(HighlightSource("/* open").size() == 1);
  CHECK(HighlightSource("\"open\nint x;").size() == 2);
  CHECK(HighlightSource("'").size() == 1);
  CHECK(HighlightSource("R\"(open").size() == 1);
  CHECK(HighlightSource("a\r\nb\r\n") == std::vector<std::string>{"a", "b"});
  CHECK(HighlightSource("// a \\\nstill\nint").size() == 3);
}

TEST_CASE("Any bytes are rendered as the same text in balanced tags") {
  std::mt19937 random(3);
  static constexpr std::string_view kBits[] = {"\"", "'",    "/*",   "*/",  "//", "\n",
                                               "\\", "#",    "R\"(", ")\"", "<",  "&",
                                               "0x", "int ", "f(",   " ",   "é",  "9e+"};
  for (int round = 0; round < 300; ++round) {
    std::string source;
    for (int i = 0; i < 40; ++i) source += kBits[random() % std::size(kBits)];
    std::string expected;
    std::string shown;
    for (const std::string& line : HighlightSource(source)) {
      shown += Shown(line) + "\n";
      size_t open = 0;
      size_t closed = 0;
      for (size_t at = 0; (at = line.find("<i ", at)) != std::string::npos; ++at) ++open;
      for (size_t at = 0; (at = line.find("</i>", at)) != std::string::npos; ++at) ++closed;
      REQUIRE(open == closed);
    }
    expected = Html(source);
    if (!expected.empty() && expected.back() != '\n') expected += "\n";
    REQUIRE(shown == expected);
  }
}

}  // namespace
}  // namespace kernelcast::cli
