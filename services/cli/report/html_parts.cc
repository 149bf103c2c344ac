#include "services/cli/report/html_parts.h"

#include <openssl/evp.h>

#include <array>
#include <cstdio>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/utf8.h"
#include "common/domain/route_palette.h"
#include "services/cli/core/text.h"
#include "services/cli/report/assets.h"

namespace kernelcast::cli {
namespace {

constexpr std::string_view kLogo =
    "<svg class=logo viewBox=\"0 0 24 24\" aria-hidden=true><path d=\"M3 20V4m0 16h18\"/><path "
    "class=a "
    "d=\"M3 15c4 0 5-9 9-9s4 6 9 4\"/><circle cx=12 cy=6 r=2 /></svg>";

}  // namespace

std::string Html(std::string_view untrusted) {
  // Most text needs no escaping, so this is one pass.
  const std::string text = SanitizeUtf8(untrusted);
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    switch (c) {
      case '&': out += "&amp;"; continue;
      case '<': out += "&lt;"; continue;
      case '>': out += "&gt;"; continue;
      case '"': out += "&quot;"; continue;
      case '\'': out += "&#39;"; continue;
      default: break;
    }
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) {
      // Replace by U+2400 + c: control pictures.
      const unsigned picture = c == 0x7F ? 0x2421u : 0x2400u + c;
      out += static_cast<char>(0xE0 | (picture >> 12));
      out += static_cast<char>(0x80 | ((picture >> 6) & 0x3F));
      out += static_cast<char>(0x80 | (picture & 0x3F));
      continue;
    }
    // U+202A..U+202E and U+2066..U+2069 reorder the text that follows.
    if (c == 0xE2 && i + 2 < text.size()) {
      const auto second = static_cast<unsigned char>(text[i + 1]);
      const auto third = static_cast<unsigned char>(text[i + 2]);
      const bool override_mark = (second == 0x80 && third >= 0xAA && third <= 0xAE) ||
                                 (second == 0x81 && third >= 0xA6 && third <= 0xA9);
      if (override_mark) {
        std::array<char, 16> code;
        const unsigned point = 0x2000u | ((second & 0x3Fu) << 6) | (third & 0x3Fu);
        std::snprintf(code.data(), code.size(), "[U+%04X]", point);
        out += code.data();
        i += 2;
        continue;
      }
    }
    out += static_cast<char>(c);
  }
  return out;
}

std::string ScriptSource(std::string_view script) {
  std::array<unsigned char, 32> digest;
  unsigned length = 0;
  EVP_Digest(script.data(), script.size(), digest.data(), &length, EVP_sha256(), nullptr);
  std::array<unsigned char, 64> text;
  const int size = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(length));
  return absl::StrCat(
      "'sha256-",
      std::string(reinterpret_cast<const char*>(text.data()), static_cast<size_t>(size)), "'");
}

std::string PageStart(std::string_view title, std::string_view kind, const std::string& links,
                      std::string_view script) {
  return absl::StrCat(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>", Html(title),
      "</title><meta name=viewport content=\"width=device-width,initial-scale=1\"><meta "
      "name=color-scheme content=\"light dark\"><meta http-equiv=Content-Security-Policy "
      "content=\"default-src 'none'; style-src 'unsafe-inline'",
      script.empty() ? "" : absl::StrCat("; script-src ", ScriptSource(script)), "\"><style>",
      RoutePaletteCss(), std::string(ReportStyleSheet()), "</style></head><body><header class=top>",
      std::string(kLogo), "<b>Kernelcast</b><span>", Html(kind), "</span>",
      links.empty() ? "" : absl::StrCat("<nav>", links, "</nav>"), "</header><main>");
}

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
  if (source.ends_with('\n')) source.remove_suffix(1);
  std::string html = "<pre class=src><code>";
  for (std::string line : std::vector<std::string>(absl::StrSplit(std::string(source), '\n'))) {
    if (line.ends_with('\r')) line.pop_back();
    absl::StrAppend(&html, "<span class=l>", Html(line), "\n</span>");
  }
  return html + "</code></pre>";
}

}  // namespace kernelcast::cli
