#ifndef KERNELCAST_SERVICES_CLI_CORE_TEXT_H_
#define KERNELCAST_SERVICES_CLI_CORE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/measurement.h"

namespace kernelcast::cli {

// Human-readable numbers, for the terminal and the report.

std::string FormatCount(uint64_t value);                  // "12,345"
std::string FormatFixed(double value, int decimals);      // "3.14"; "-" where not finite
std::string FormatSignificant(double value, int digits);  // "0.00123", "1234"; "-" if not finite
std::string FormatSpeedup(double speedup);                // "3.42x", "0.067x", "125x"
std::string FormatSpeedup(const Ratio& speedup);          // "3.42x [3.38, 3.46]"
std::string FormatInterval(const Ratio& ratio);           // "[3.38, 3.46]"
std::string FormatShare(double share);                    // "32%", "0.4%"; "-" where not finite
std::string FormatTimeNs(double ns);             // "812 ns", "45.1 us", "3.20 ms", "12.4 s"
std::string FormatSeconds(double seconds);       // "0.4 s", "12.4 s", "4m 05s", "2h 10m"
std::string FormatClock(double seconds);         // "00:42", "1:02:03"
std::string FormatBytes(double bytes);           // "512 B", "23.4 GiB"
std::string FormatUtc(int64_t wall_ns);          // "2031-05-07 14:02:11 UTC"; "" for 0
std::string FormatAxes(const AxisValues& axes);  // "rows=7 cols=129"
// A measured shape, with its weight where weights differ: "rows=7 cols=129, weight 0.25".
std::string FormatShape(const MeasuredOk& ok, const ShapeTiming& shape);
// "outputs are the same bytes in every process"; "" if they were not compared.
std::string_view DeterminismPhrase(Determinism determinism);
// "1.20x [1.18, 1.22] over torch.compile", or why there is no such figure.
std::string CompiledPhrase(const CompiledBaseline& compiled);
std::string FormatNumber(double value);  // shortest of %g with 6 digits

std::string Join(const std::vector<std::string>& parts, std::string_view separator);

// Makes untrusted text safe to print on a terminal: valid UTF-8 without control characters except
// newline and tab; others are shown as U+FFFD or \xNN.
std::string ForTerminal(std::string_view untrusted);
// ForTerminal on one line.
std::string OneLine(std::string_view untrusted);

// Columns that valid UTF-8 takes on a terminal; colour sequences count as zero.
int DisplayWidth(std::string_view text);
// Cuts to at most `width` columns, the last of which is then an ellipsis. For text without colours.
std::string Truncate(std::string_view text, int width);
// The same, but cuts the middle, so that the beginning and the end stay.
std::string TruncateMiddle(std::string_view text, int width);
// Wraps at blanks to at most `width` columns; a longer word gets a line of its own. Lines after the
// first of each paragraph are indented by `indent` blanks. `width` 0: unchanged.
std::string WrapText(std::string_view text, int width, int indent = 0);
// Wraps help of options to `width`. Continued descriptions are indented to `column`, where
// descriptions start.
std::string WrapHelp(std::string_view help, size_t column, int width);
// Pads with spaces to at least `width` columns.
std::string PadRight(std::string_view text, int width);
std::string PadLeft(std::string_view text, int width);

// Colours, or none.
class Style {
 public:
  explicit Style(bool colour) : colour_(colour) {}
  bool colour() const { return colour_; }
  std::string Bold(std::string_view text) const { return Wrap("1", text); }
  std::string Dim(std::string_view text) const { return Wrap("2", text); }
  std::string Red(std::string_view text) const { return Wrap("31", text); }
  std::string Green(std::string_view text) const { return Wrap("32", text); }
  std::string Yellow(std::string_view text) const { return Wrap("33", text); }
  std::string Cyan(std::string_view text) const { return Wrap("36", text); }

 private:
  std::string Wrap(std::string_view code, std::string_view text) const;
  bool colour_;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_TEXT_H_
