#include "services/cli/report/html_parts.h"

#include <catch2/catch.hpp>

namespace kernelcast::cli {
namespace {

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

TEST_CASE("A listing has one numbered line for each line of any source") {
  CHECK(SourceListing("a < b\r\n\nc\n") ==
        "<pre class=src><code><span class=l>a &lt; b\n</span><span class=l>\n</span>"
        "<span class=l>c\n</span></code></pre>");
  CHECK(SourceListing("\xff\"") ==
        "<pre class=src><code><span class=l>\xEF\xBF\xBD&quot;\n</span></code></pre>");
}

}  // namespace
}  // namespace kernelcast::cli
