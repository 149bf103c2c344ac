#ifndef KERNELCAST_SERVICES_CLI_REPORT_SVG_H_
#define KERNELCAST_SERVICES_CLI_REPORT_SVG_H_

#include <string>
#include <vector>

// Parts of charts as inline SVG. Arguments `style` are classes of the page's style sheet.
namespace kernelcast::cli {

// The size of a chart, and the margins of its plot.
struct SvgFrame {
  double width = 0;
  double height = 0;
  double left = 52;
  double right = 16;
  double top = 14;
  double bottom = 40;
  double x0() const { return left; }
  double x1() const { return width - right; }
  double y0() const { return height - bottom; }  // the lower edge
  double y1() const { return top; }
};

// Maps values to coordinates, linearly or logarithmically. Clamps values outside the range.
class SvgScale {
 public:
  SvgScale(double low, double high, double from, double to, bool logarithmic);
  double operator()(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  double low_;
  double high_;
  double from_;
  double to_;
  bool logarithmic_;
};

// A coordinate with at most one decimal.
std::string SvgNumber(double value);

// Begins a chart. `label` is for screen readers.
std::string SvgOpen(const SvgFrame& frame, const std::string& label);
std::string SvgLine(double x1, double y1, double x2, double y2, const char* style);
std::string SvgText(double x, double y, const char* style, const std::string& text);
// Text that is read from below.
std::string SvgTextUpwards(double x, double y, const char* style, const std::string& text);
// A round dot as part of a path with round caps: a tenth of the bytes of a circle.
std::string SvgDot(double x, double y);

// About `most` round values from `low` to `high`.
std::vector<double> LinearTicks(double low, double high, int most);
// Ticks of a logarithmic axis, four to eight if the range allows it.
std::vector<double> LogTicks(double low, double high);
std::string TickLabel(double value);  // "0.5×"

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_SVG_H_
