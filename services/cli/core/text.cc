#include "services/cli/core/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "absl/time/time.h"
#include "common/base/utf8.h"

namespace kernelcast::cli {
namespace {

template <class... Args>
std::string Print(const char* format, Args... args) {
  std::array<char, 160> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), format, args...);
  return std::string(buffer.data(), static_cast<size_t>(length));
}

// Decodes one character of valid UTF-8 and advances.
char32_t NextCharacter(std::string_view text, size_t& position) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(position);
  int extra = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t value = lead < 0x80   ? lead
                   : lead < 0xE0 ? lead & 0x1Fu
                   : lead < 0xF0 ? lead & 0x0Fu
                                 : lead & 0x07u;
  ++position;
  while (extra-- > 0 && position < text.size()) {
    value = (value << 6) | (byte(position) & 0x3Fu);
    ++position;
  }
  return value;
}

int CharacterWidth(char32_t c) {
  if (c == 0 || (c >= 0x300 && c <= 0x36F) || (c >= 0x200B && c <= 0x200F) || c == 0xFEFF) {
    return 0;
  }
  // East Asian wide and emoji blocks.
  if ((c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
      (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
      (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
      (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD)) {
    return 2;
  }
  return 1;
}

// Length of the colour sequence at `position`, or 0 if there is none.
size_t EscapeLength(std::string_view text, size_t position) {
  if (text[position] != '\x1b' || position + 1 >= text.size() || text[position + 1] != '[') {
    return 0;
  }
  size_t end = position + 2;
  while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
  return end < text.size() ? end + 1 - position : 0;
}

}  // namespace

std::string FormatCount(uint64_t value) {
  std::string digits = std::to_string(value);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<size_t>(i), ",");
  }
  return digits;
}

std::string FormatFixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  return Print("%.*f", decimals, value);
}

std::string FormatSignificant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::fabs(value))));
  if (magnitude < -4 || magnitude > 8) return Print("%.*g", digits, value);
  const int decimals = digits - 1 - magnitude;
  return Print("%.*f", decimals < 0 ? 0 : decimals, value);
}

std::string FormatSpeedup(double speedup) {
  if (!std::isfinite(speedup)) return "-";
  return FormatSignificant(speedup, speedup < 0.1 ? 2 : 3) + "x";
}

std::string FormatInterval(const Ratio& ratio) {
  const double width = std::fabs(ratio.high - ratio.low);
  const double scale = std::max(std::fabs(ratio.low), std::fabs(ratio.high));
  // Enough digits to make the two ends differ.
  int digits = 3;
  if (scale > 0 && width > 0 && width < scale * 0.01) digits = width < scale * 0.001 ? 5 : 4;
  return "[" + FormatSignificant(ratio.low, digits) + ", " + FormatSignificant(ratio.high, digits) +
         "]";
}

std::string FormatSpeedup(const Ratio& speedup) {
  return FormatSpeedup(speedup.value) + " " + FormatInterval(speedup);
}

std::string FormatShare(double share) {
  if (!std::isfinite(share)) return "-";
  const double percent = share * 100;
  if (percent != 0 && std::fabs(percent) < 1) return Print("%.1f%%", percent);
  if (percent > 99 && percent < 100) return Print("%.1f%%", std::floor(percent * 10) / 10);
  return Print("%.0f%%", percent);
}

std::string FormatTimeNs(double ns) {
  if (!std::isfinite(ns)) return "-";
  if (std::fabs(ns) < 1e3) return FormatSignificant(ns, 3) + " ns";
  if (std::fabs(ns) < 1e6) return FormatSignificant(ns / 1e3, 3) + " us";
  if (std::fabs(ns) < 1e9) return FormatSignificant(ns / 1e6, 3) + " ms";
  return FormatSignificant(ns / 1e9, 3) + " s";
}

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 99.95) return Print("%.1f s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) {
    return Print("%dm %02ds", static_cast<int>(whole / 60), static_cast<int>(whole % 60));
  }
  return Print("%lldh %02dm", static_cast<long long>(whole / 3600),
               static_cast<int>(whole % 3600 / 60));
}

std::string FormatClock(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "--:--";
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) {
    return Print("%02d:%02d", static_cast<int>(whole / 60), static_cast<int>(whole % 60));
  }
  return Print("%lld:%02d:%02d", static_cast<long long>(whole / 3600),
               static_cast<int>(whole % 3600 / 60), static_cast<int>(whole % 60));
}

std::string FormatBytes(double bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (!std::isfinite(bytes)) return "-";
  size_t unit = 0;
  while (std::fabs(bytes) >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return (unit == 0 ? FormatFixed(bytes, 0) : FormatSignificant(bytes, 3)) + " " + kUnits[unit];
}

std::string FormatUtc(int64_t wall_ns) {
  if (wall_ns == 0) return "";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixNanos(wall_ns),
                          absl::UTCTimeZone());
}

std::string FormatAxes(const AxisValues& axes) {
  std::string text;
  for (const auto& [name, value] : axes) {
    if (!text.empty()) text += ' ';
    text += name + "=" + std::to_string(value);
  }
  return text;
}

std::string FormatShape(const MeasuredOk& ok, const ShapeTiming& shape) {
  const bool weighted = std::ranges::any_of(
      ok.shapes, [&](const ShapeTiming& other) { return other.weight != shape.weight; });
  return FormatAxes(shape.shape) +
         (weighted ? ", weight " + FormatSignificant(shape.weight, 3) : std::string());
}

std::string_view DeterminismPhrase(Determinism determinism) {
  switch (determinism) {
    case Determinism::kUnknown: return "";
    case Determinism::kBitwise: return "outputs are the same bytes in every process";
    case Determinism::kVaries: return "outputs vary between processes, within the tolerance";
  }
  return "";
}

std::string CompiledPhrase(const CompiledBaseline& compiled) {
  return compiled.unavailable_reason.empty()
             ? absl::StrCat(FormatSpeedup(compiled.speedup), " over torch.compile",
                            compiled.eager ? ", launched from the host" : "")
             : absl::StrCat("torch.compile: ", OneLine(compiled.unavailable_reason));
}

std::string FormatNumber(double value) { return Print("%.6g", value); }

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) text += separator;
    text += part;
  }
  return text;
}

std::string ForTerminal(std::string_view untrusted) {
  const std::string valid = SanitizeUtf8(untrusted);
  std::string text;
  text.reserve(valid.size());
  for (size_t i = 0; i < valid.size();) {
    const size_t start = i;
    const char32_t c = NextCharacter(valid, i);
    const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
    if (control) {
      text += Print("\\x%02x", static_cast<unsigned>(c));
    } else if (c >= 0x202A && c <= 0x202E) {
      text += "\xEF\xBF\xBD";  // direction overrides reorder the text after them
    } else {
      text.append(valid, start, i - start);
    }
  }
  return text;
}

std::string OneLine(std::string_view untrusted) {
  std::string text = ForTerminal(untrusted);
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

int DisplayWidth(std::string_view text) {
  int width = 0;
  for (size_t i = 0; i < text.size();) {
    if (const size_t escape = EscapeLength(text, i); escape > 0) {
      i += escape;
      continue;
    }
    width += CharacterWidth(NextCharacter(text, i));
  }
  return width;
}

std::string Truncate(std::string_view text, int width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width <= 0) return "";
  int used = 0;
  size_t i = 0;
  while (i < text.size()) {
    size_t next = i;
    const int character = CharacterWidth(NextCharacter(text, next));
    if (used + character > width - 1) break;
    used += character;
    i = next;
  }
  return std::string(text.substr(0, i)) + "…";
}

std::string TruncateMiddle(std::string_view text, int width) {
  const int columns = DisplayWidth(text);
  if (columns <= width || width <= 2) return Truncate(text, width);
  const int end = (width - 1) / 2;
  const std::string begin = Truncate(text, width - end);
  // Skips characters until the rest fits.
  size_t i = 0;
  for (int left = columns; left > end;) left -= CharacterWidth(NextCharacter(text, i));
  return absl::StrCat(begin, std::string(text.substr(i)));
}

std::string WrapText(std::string_view text, int width, int indent) {
  if (width <= 0) return std::string(text);
  std::string wrapped;
  size_t start = 0;
  for (;;) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string_view rest = text.substr(start, end - start);
    int used = 0;
    bool first = true;
    while (!rest.empty()) {
      // A word with the preceding blanks, which a line break replaces.
      const size_t word = std::min(rest.find_first_not_of(' '), rest.size());
      const size_t word_end = std::min(rest.find(' ', word), rest.size());
      const int columns = DisplayWidth(rest.substr(0, word_end));
      if (!first && word < rest.size() && used + columns > width) {
        wrapped += '\n' + std::string(static_cast<size_t>(indent), ' ');
        wrapped += rest.substr(word, word_end - word);
        used = indent + DisplayWidth(rest.substr(word, word_end - word));
      } else {
        wrapped += rest.substr(0, word_end);
        used += columns;
      }
      first = false;
      rest.remove_prefix(word_end);
    }
    if (end == text.size()) return wrapped;
    wrapped += '\n';
    start = end + 1;
  }
}

std::string WrapHelp(std::string_view help, size_t column, int width) {
  std::string wrapped;
  for (size_t start = 0; start < help.size();) {
    const size_t end = std::min(help.find('\n', start), help.size());
    const std::string_view line = help.substr(start, end - start);
    start = end + 1;
    const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    const bool option = blanks > 0 && line.size() > column && line[column - 1] == ' ';
    wrapped += WrapText(line, width, static_cast<int>(option ? column : blanks));
    if (end < help.size()) wrapped += '\n';
  }
  return wrapped;
}

std::string PadRight(std::string_view text, int width) {
  const int missing = width - DisplayWidth(text);
  return std::string(text) + std::string(static_cast<size_t>(std::max(0, missing)), ' ');
}

std::string PadLeft(std::string_view text, int width) {
  const int missing = width - DisplayWidth(text);
  return std::string(static_cast<size_t>(std::max(0, missing)), ' ') + std::string(text);
}

std::string Style::Wrap(std::string_view code, std::string_view text) const {
  if (!colour_) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace kernelcast::cli
