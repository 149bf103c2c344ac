#include "services/cli/report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "services/cli/report/html_parts.h"

namespace kernelcast::cli {

SvgScale::SvgScale(double low, double high, double from, double to, bool logarithmic)
    : low_(low), high_(high), from_(from), to_(to), logarithmic_(logarithmic) {
  if (!(high_ > low_)) high_ = logarithmic_ ? low_ * 2 : low_ + 1;
}

double SvgScale::operator()(double value) const {
  const double share = logarithmic_
                           ? std::log(std::max(value, 1e-12) / low_) / std::log(high_ / low_)
                           : (value - low_) / (high_ - low_);
  return from_ + std::clamp(share, 0.0, 1.0) * (to_ - from_);
}

std::string SvgNumber(double value) {
  std::array<char, 32> buffer;
  if (std::fabs(value) < 0.05) value = 0;
  std::snprintf(buffer.data(), buffer.size(), "%.1f", value);
  std::string text = buffer.data();
  if (text.size() > 2 && text.substr(text.size() - 2) == ".0") text.resize(text.size() - 2);
  return text;
}

std::string SvgOpen(const SvgFrame& frame, const std::string& label) {
  return absl::StrCat("<svg class=chart viewBox=\"0 0 ", SvgNumber(frame.width), " ",
                      SvgNumber(frame.height), "\" role=img aria-label=\"", Html(label), "\">");
}

std::string SvgLine(double x1, double y1, double x2, double y2, const char* style) {
  return absl::StrCat("<line class=", style, " x1=", SvgNumber(x1), " y1=", SvgNumber(y1),
                      " x2=", SvgNumber(x2), " y2=", SvgNumber(y2), " />");
}

std::string SvgText(double x, double y, const char* style, const std::string& text) {
  return absl::StrCat("<text class=\"", style, "\" x=", SvgNumber(x), " y=", SvgNumber(y), ">",
                      Html(text), "</text>");
}

std::string SvgTextUpwards(double x, double y, const char* style, const std::string& text) {
  return absl::StrCat("<text class=\"", style, "\" transform=\"translate(", SvgNumber(x), " ",
                      SvgNumber(y), ") rotate(-90)\">", Html(text), "</text>");
}

std::string SvgDot(double x, double y) {
  return absl::StrCat("M", SvgNumber(x), " ", SvgNumber(y), "h0");
}

std::vector<double> LinearTicks(double low, double high, int most) {
  std::vector<double> ticks;
  if (!(high > low)) return {low};
  const double rough = (high - low) / most;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double multiple : {1.0, 2.0, 5.0, 10.0}) {
    step = power * multiple;
    if (step >= rough) break;
  }
  for (double tick = std::ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) {
    ticks.push_back(std::fabs(tick) < step * 1e-9 ? 0 : tick);
  }
  return ticks;
}

std::string TickLabel(double value) {
  std::array<char, 32> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.3g", value);
  return std::string(buffer.data()) + "×";
}

std::vector<double> LogTicks(double low, double high) {
  const auto powers = [&](std::initializer_list<double> mantissas, int step) {
    std::vector<double> ticks;
    const int first = static_cast<int>(std::floor(std::log2(low))) - 1;
    const int last = static_cast<int>(std::ceil(std::log2(high))) + 1;
    for (int power = first; power <= last; ++power) {
      if (power % step != 0) continue;
      for (const double mantissa : mantissas) {
        const double tick = std::ldexp(mantissa, power);
        if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push_back(tick);
      }
    }
    return ticks;
  };
  std::vector<double> ticks = powers({1}, 4);
  for (const auto& next : {powers({1}, 2), powers({1}, 1), powers({1, 1.5}, 1)}) {
    if (ticks.size() >= 4 || next.size() > 9) return ticks;
    ticks = next;
  }
  if (ticks.size() >= 4) return ticks;
  return LinearTicks(low, high, 6);
}

}  // namespace kernelcast::cli
