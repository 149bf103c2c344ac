#include "services/cli/report/html_parts.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "services/cli/core/text.h"
#include "services/cli/report/highlight.h"

namespace kernelcast::cli {

std::string Times(double speedup) {
  std::string text = FormatSpeedup(speedup);
  if (!text.empty() && text.back() == 'x') text.replace(text.size() - 1, 1, "×");
  return text;
}

std::string Chip(std::string_view style, std::string_view text) {
  return absl::StrCat("<span class=\"chip ", std::string(style), "\">", Html(text), "</span>");
}

std::string Term(std::string_view term, const std::string& definition) {
  return absl::StrCat("<dt>", Html(term), "</dt><dd>", definition, "</dd>");
}

std::string KeyValue(std::string_view key, const std::string& html) {
  if (html.empty()) return "";
  return absl::StrCat("<div><dt>", Html(key), "</dt><dd>", html, "</dd></div>");
}

std::string Section(std::string_view id, std::string_view title, const std::string& note,
                    const std::string& body) {
  return absl::StrCat("<section id=", std::string(id), " class=panel><h2>", Html(title), "</h2>",
                      note.empty() ? "" : absl::StrCat("<p class=note>", note, "</p>"), body,
                      "</section>");
}

std::string Empty(std::string_view text) {
  return absl::StrCat("<p class=empty>", Html(text), "</p>");
}

std::string TunableChips(const Candidate& candidate) {
  std::string html;
  for (const Tunable& tunable : candidate.tunables) {
    if (tunable.name == "TEMPLATE" || tunable.name == "FLAGS") continue;
    absl::StrAppend(&html, "<span class=tun><b>", Html(tunable.name), "</b>", Html(tunable.value),
                    "</span>");
  }
  for (const std::string& flag : candidate.flags) {
    absl::StrAppend(&html, "<span class=tun>", Html(flag), "</span>");
  }
  return html;
}

const MeasuredOk* OkOf(const Measurement& measurement) {
  return std::get_if<MeasuredOk>(&measurement.outcome);
}

std::string SpeedupHtml(const Ratio& speedup) {
  const char* style = speedup.low > 1 ? "up" : speedup.high < 1 ? "down" : "same";
  return absl::StrCat("<b class=", style, ">", Times(speedup.value), "</b> <small>",
                      Html(FormatInterval(speedup)), "</small>");
}

std::string SourceListing(std::string_view source) {
  std::string html = "<pre class=src><code>";
  for (const std::string& line : HighlightSource(source)) {
    absl::StrAppend(&html, "<span class=l>", line, "\n</span>");
  }
  return html + "</code></pre>";
}

}  // namespace kernelcast::cli
