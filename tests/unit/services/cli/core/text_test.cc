#include "services/cli/core/text.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace kernelcast::cli {
namespace {

TEST_CASE("Figures are written in a readable form") {
  CHECK(FormatCount(0) == "0");
  CHECK(FormatCount(999) == "999");
  CHECK(FormatCount(1234567) == "1,234,567");
  CHECK(FormatSpeedup(3.4159) == "3.42x");
  CHECK(FormatSpeedup(0.0674) == "0.067x");
  CHECK(FormatSpeedup(125.4) == "125x");
  CHECK(FormatSpeedup(std::nan("")) == "-");
  CHECK(FormatShare(0.324) == "32%");
  CHECK(FormatShare(0.004) == "0.4%");
  CHECK(FormatShare(0.9996) == "99.9%");
  CHECK(FormatShare(1) == "100%");
  CHECK(FormatTimeNs(812) == "812 ns");
  CHECK(FormatTimeNs(45'120) == "45.1 us");
  CHECK(FormatTimeNs(3.2e6) == "3.20 ms");
  CHECK(FormatTimeNs(12.4e9) == "12.4 s");
  CHECK(FormatSeconds(12.41) == "12.4 s");
  CHECK(FormatSeconds(245) == "4m 05s");
  CHECK(FormatSeconds(7800) == "2h 10m");
  CHECK(FormatClock(42) == "00:42");
  CHECK(FormatClock(3723) == "1:02:03");
  CHECK(FormatClock(-1) == "--:--");
  CHECK(FormatBytes(512) == "512 B");
  CHECK(FormatBytes(23.4 * 1024 * 1024 * 1024) == "23.4 GiB");
  CHECK(FormatUtc(1'800'000'000'000'000'000) == "2027-01-15 08:00:00 UTC");
  CHECK(FormatUtc(0).empty());
  CHECK(FormatAxes({{"rows", 7}, {"cols", 129}}) == "cols=129 rows=7");
}

TEST_CASE("A shape shows its weight where weights differ, and determinism where it is known") {
  MeasuredOk ok;
  ok.shapes.resize(2);
  ok.shapes[0].shape = {{"n", 7}};
  ok.shapes[0].weight = ok.shapes[1].weight = 0.5;
  CHECK(FormatShape(ok, ok.shapes[0]) == "n=7");
  ok.shapes[0].weight = 0.25;
  CHECK(FormatShape(ok, ok.shapes[0]) == "n=7, weight 0.250");
  CHECK(DeterminismPhrase(Determinism::kUnknown).empty());
  CHECK(DeterminismPhrase(Determinism::kVaries) ==
        "outputs vary between processes, within the tolerance");
}

TEST_CASE("A figure against torch.compile names it, or says why there is none") {
  CompiledBaseline compiled;
  compiled.speedup = {3.42, 3.38, 3.46, 0.95};
  CHECK(CompiledPhrase(compiled) == "3.42x [3.38, 3.46] over torch.compile");
  compiled.eager = true;
  CHECK(CompiledPhrase(compiled) ==
        "3.42x [3.38, 3.46] over torch.compile, launched from the host");
  compiled.unavailable_reason = "no\ncompiler";
  CHECK(CompiledPhrase(compiled).starts_with("torch.compile: no"));
  CHECK(CompiledPhrase(compiled).find('\n') == std::string::npos);
}

TEST_CASE("An interval has enough digits to distinguish its ends") {
  CHECK(FormatInterval({3.42, 3.38, 3.46, 0.95}) == "[3.38, 3.46]");
  CHECK(FormatInterval({1.3301, 1.3291, 1.3311, 0.95}) == "[1.329, 1.331]");
  CHECK(FormatInterval({2.0001, 2.0000, 2.0004, 0.95}) == "[2.0000, 2.0004]");
}

TEST_CASE("External text cannot control the terminal") {
  CHECK(ForTerminal("red \x1b[31m and \x07 bell") == "red \\x1b[31m and \\x07 bell");
  CHECK(ForTerminal("a\tb\nc") == "a\tb\nc");
  CHECK(OneLine("a\tb\nc") == "a b c");
  CHECK(ForTerminal("\xff\xfe") == "\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(ForTerminal("\xC2\x9B") == "\\x9b");  // an 8-bit control sequence introducer
  CHECK(ForTerminal("x\xE2\x80\xAEy") == "x\xEF\xBF\xBDy");
}

TEST_CASE("Widths count columns, not bytes or colours") {
  CHECK(DisplayWidth("abc") == 3);
  CHECK(DisplayWidth("×é") == 2);
  CHECK(DisplayWidth("日本") == 4);
  CHECK(DisplayWidth("e\xCC\x81") == 1);  // a combining accent
  CHECK(DisplayWidth(Style(true).Green("abc")) == 3);
  CHECK(Style(false).Green("abc") == "abc");
  CHECK(Truncate("abcdef", 4) == "abc…");
  CHECK(Truncate("日本語", 5) == "日本…");
  CHECK(Truncate("abc", 3) == "abc");
  CHECK(Truncate("abc", 0).empty());
  CHECK(PadRight("×", 3) == "×  ");
  CHECK(PadLeft("×", 3) == "  ×");
}

TEST_CASE("A text cut in the middle keeps both ends, by columns") {
  CHECK(TruncateMiddle("abcdefghij", 10) == "abcdefghij");
  CHECK(TruncateMiddle("abcdefghij", 7) == "abc…hij");
  CHECK(TruncateMiddle("abcdefghij", 6) == "abc…ij");
  CHECK(TruncateMiddle("abcdefghij", 2) == "a…");
  CHECK(TruncateMiddle("äöüÄÖÜßéèê", 7) == "äöü…éèê");
}

TEST_CASE("Text is wrapped between words only") {
  CHECK(WrapText("one two three", 0) == "one two three");
  CHECK(WrapText("one two three", 13) == "one two three");
  CHECK(WrapText("one two three", 8) == "one two\nthree");
  CHECK(WrapText("one two three", 8, 2) == "one two\n  three");
  CHECK(WrapText("unbreakable-word x", 5) == "unbreakable-word\nx");
  CHECK(WrapText("first line\n\nsecond line\n", 6) == "first\nline\n\nsecond\nline\n");
  CHECK(WrapText("  indented text", 10) == "  indented\ntext");
  CHECK(WrapText("\x1b[1mbold\x1b[0m word", 9) == "\x1b[1mbold\x1b[0m word");
}

TEST_CASE("Help is wrapped below the descriptions") {
  CHECK(WrapHelp("Usage: x\n\n  --flag N  what it is for\n            and more of it\n", 12, 24) ==
        "Usage: x\n\n"
        "  --flag N  what it is\n"
        "            for\n"
        "            and more of\n"
        "            it\n");
}

}  // namespace
}  // namespace kernelcast::cli
