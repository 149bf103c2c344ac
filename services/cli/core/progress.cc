#include "services/cli/core/progress.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace kernelcast::cli {
namespace {

const char* PhaseName(SearchProgress::Phase phase) {
  switch (phase) {
    case SearchProgress::Phase::kStarting: return "starting";
    case SearchProgress::Phase::kRunning: return "searching";
    case SearchProgress::Phase::kFinishing: return "confirming the best";
    case SearchProgress::Phase::kDone: return "done";
    case SearchProgress::Phase::kFailed: return "failed";
  }
  return "";
}

// A pace is not estimated from less than this.
constexpr double kLeastUse = 0.02;
constexpr double kLeastSeconds = 1;
constexpr int kCurveWidth = 24;

struct Limit {
  double used = 0;
  std::string text;
};

// Returns the limit with the largest used share.
std::optional<Limit> TightestLimit(const SearchProgress& progress, bool with_time = true) {
  std::optional<Limit> tightest;
  const auto consider = [&](double used, double most, const std::string& text) {
    if (most <= 0) return;
    const double share = std::clamp(used / most, 0.0, 1.0);
    if (!tightest.has_value() || share > tightest->used) tightest = Limit{share, text};
  };
  consider(static_cast<double>(progress.measured), static_cast<double>(progress.max_measurements),
           absl::StrCat(FormatCount(progress.measured), " / ",
                        FormatCount(progress.max_measurements), " measurements"));
  consider(static_cast<double>(progress.considered), static_cast<double>(progress.max_candidates),
           absl::StrCat(FormatCount(progress.considered), " / ",
                        FormatCount(progress.max_candidates), " candidates"));
  consider(progress.elapsed_seconds, with_time ? progress.max_wall_seconds : 0,
           absl::StrCat(FormatClock(progress.elapsed_seconds), " / ",
                        FormatClock(progress.max_wall_seconds)));
  consider(progress.device_seconds_spent, progress.max_device_seconds,
           absl::StrCat(FormatSeconds(progress.device_seconds_spent), " / ",
                        FormatSeconds(progress.max_device_seconds), " of device time"));
  consider(static_cast<double>(progress.requested), static_cast<double>(progress.max_requests),
           absl::StrCat(FormatCount(progress.requested), " / ", FormatCount(progress.max_requests),
                        " kernels asked for"));
  return tightest;
}

std::string Bar(double share, int width, const Style& style) {
  static constexpr std::array kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double cells = std::clamp(share, 0.0, 1.0) * width;
  const int full = static_cast<int>(cells);
  const size_t part = static_cast<size_t>((cells - full) * 8);
  std::string filled;
  for (int i = 0; i < full; ++i) filled += "█";
  filled += kParts[part];
  std::string rest;
  for (int i = full + (part > 0 ? 1 : 0); i < width; ++i) rest += "·";
  return style.Cyan(filled) + style.Dim(rest);
}

// The best so far from 0 to `total` device seconds or tokens, in equal steps. Empty before there is
// an improvement of the first best.
template <class Spent>
std::string BestCurve(const std::vector<Improvement>& improvements, double total, int width,
                      const Spent& spent) {
  static constexpr std::array kLevels = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (improvements.size() < 2 || total <= 0) return "";
  const double low = std::log2(improvements.front().speedup);
  const double high = std::log2(improvements.back().speedup);
  std::string line;
  size_t next = 0;
  for (int i = 1; i <= width; ++i) {
    const double until = total * i / width;
    while (next < improvements.size() &&
           (i == width || static_cast<double>(spent(improvements[next])) <= until)) {
      ++next;
    }
    if (next == 0) {
      line += " ";
      continue;
    }
    const double value = std::log2(improvements[next - 1].speedup);
    const double share = high > low ? (value - low) / (high - low) : 1;
    line += kLevels[static_cast<size_t>(std::clamp(share * 7 + 0.5, 0.0, 7.0))];
  }
  return line;
}

std::string Figure(const Style& style, const char* name, uint64_t value) {
  return absl::StrCat(style.Dim(name), " ", style.Bold(FormatCount(value)));
}

// Text at both ends of a line. If there is no room, only the left one.
std::string Spread(const std::string& left, const std::string& right, int width) {
  const int gap = width - DisplayWidth(left) - DisplayWidth(right);
  if (gap < 2 || right.empty()) return left;
  return left + std::string(static_cast<size_t>(gap), ' ') + right;
}

SearchUsage UsageOf(const SearchProgress& progress) {
  return {progress.device_seconds_spent, progress.device_seconds_avoided, progress.token_cost,
          progress.unpriced_tokens};
}

double AvoidedShare(const SearchProgress& progress) {
  const double total = progress.device_seconds_spent + progress.device_seconds_avoided;
  return total > 0 ? progress.device_seconds_avoided / total : 0;
}

}  // namespace

double Pace::Update(const SearchProgress& progress) {
  if (progress.phase != SearchProgress::Phase::kRunning) return -1;
  const double elapsed = progress.elapsed_seconds;
  const std::optional<Limit> limit = TightestLimit(progress, /*with_time=*/false);
  if (limit.has_value() && limit->used > used_) {
    used_ = limit->used;
    seconds_ = elapsed;
    if (first_used_ < 0) {
      first_used_ = used_;
      first_seconds_ = elapsed;
    }
  }
  double left = -1;
  if (used_ - first_used_ >= kLeastUse && seconds_ - first_seconds_ >= kLeastSeconds) {
    const double seconds_of_all = (seconds_ - first_seconds_) / (used_ - first_used_);
    left = (1 - used_) * seconds_of_all - (elapsed - seconds_);
  }
  if (progress.max_wall_seconds > 0) {
    const double wall_left = std::max(0.0, progress.max_wall_seconds - elapsed);
    left = left < 0 ? wall_left : std::min(left, wall_left);
  }
  return left;
}

std::vector<std::string> RenderProgressBlock(const SearchProgress& progress, const Style& style,
                                             int width, int64_t tick) {
  static constexpr std::array kSpinner = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
  width = std::max(width, 20);
  std::vector<std::string> lines;
  const bool live = progress.phase != SearchProgress::Phase::kDone &&
                    progress.phase != SearchProgress::Phase::kFailed;

  std::string head = style.Bold(progress.problem);
  for (const std::string& part : {progress.target, progress.device}) {
    if (!part.empty()) head += style.Dim(" · ") + part;
  }
  lines.push_back(head);

  std::string state = absl::StrCat(
      live ? style.Cyan(kSpinner[static_cast<size_t>(tick) % kSpinner.size()]) + " " : "",
      PhaseName(progress.phase), " ", FormatClock(progress.elapsed_seconds));
  if (const double left = progress.seconds_left; left >= 0) {
    absl::StrAppend(&state, style.Dim(", about "), FormatClock(left), style.Dim(" left"));
  }
  if (const std::optional<Limit> limit = TightestLimit(progress); limit.has_value()) {
    const std::string right = absl::StrCat(limit->text, "  ", state);
    const int bar = std::min(40, width - DisplayWidth(right) - 2);
    lines.push_back(bar >= 8 ? Bar(limit->used, bar, style) + "  " + right : right);
  } else {
    lines.push_back(state);
  }

  lines.push_back(absl::StrCat(Figure(style, "considered", progress.considered), "   ",
                               Figure(style, "measured", progress.measured), "   ",
                               Figure(style, "pruned", progress.pruned), "   ",
                               Figure(style, "rejected", progress.rejected)));
  lines.push_back(absl::StrCat(Figure(style, "selected", progress.selected), "   ",
                               Figure(style, "deferred", progress.deferred), "   ",
                               Figure(style, "promoted", progress.promoted), "   ",
                               Figure(style, "audited", progress.audited), "   ",
                               Figure(style, "failed", progress.failures)));
  if (progress.writes) {
    lines.push_back(absl::StrCat(Figure(style, "written", progress.written), "   ",
                                 Figure(style, "repeated", progress.repeated), "   ",
                                 Figure(style, "unusable", progress.unusable), "   ",
                                 Figure(style, "unanswered", progress.unanswered), "   ",
                                 Figure(style, "tokens", progress.tokens)));
  }
  if (progress.best.has_value()) {
    const std::string speedup = FormatSpeedup(progress.best->value);
    const bool faster = progress.best->low > 1;
    lines.push_back(absl::StrCat(style.Dim("best "),
                                 faster ? style.Green(style.Bold(speedup)) : style.Bold(speedup),
                                 " ", FormatInterval(*progress.best), "  ", progress.best_name));
  } else {
    lines.push_back(style.Dim("best ") + "none measured yet");
  }
  if (!progress.lineage.empty()) {
    lines.push_back(style.Dim(Truncate("from " + progress.lineage, width)));
  }
  const std::string device_time = absl::StrCat(
      style.Dim("device time "), FormatSeconds(progress.device_seconds_spent),
      style.Dim(" spent, "), FormatSeconds(progress.device_seconds_avoided), style.Dim(" avoided"),
      progress.device_seconds_avoided > 0
          ? absl::StrCat(" (", FormatShare(AvoidedShare(progress)), ")")
          : "");
  const std::string by_device_time =
      BestCurve(progress.improvements, progress.device_seconds_spent, kCurveWidth,
                [](const Improvement& one) { return one.device_seconds; });
  lines.push_back(Spread(device_time, style.Green(by_device_time), width));
  if (progress.all_tokens > 0) {
    const std::string by_tokens =
        BestCurve(progress.improvements, static_cast<double>(progress.all_tokens), kCurveWidth,
                  [](const Improvement& one) { return one.tokens; });
    lines.push_back(Spread(style.Dim("tokens ") + FormatCount(progress.all_tokens),
                           style.Green(by_tokens), width));
  }
  if (const std::optional<SearchCost> cost = CostOf(progress.prices, UsageOf(progress))) {
    lines.push_back(style.Dim("cost ") + CostText(*cost));
  }
  if (!progress.learnt.empty()) lines.push_back(style.Dim(progress.learnt));
  if (!progress.connection.empty()) {
    lines.push_back(style.Yellow(progress.connection));
  } else if (!progress.latest.empty()) {
    lines.push_back(style.Dim(Truncate(progress.latest, width)));
  }
  for (std::string& line : lines) {
    if (DisplayWidth(line) <= width) continue;
    // Drop colours rather than cut within an escape sequence.
    std::string plain;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\x1b') {
        while (i < line.size() && line[i] != 'm') ++i;
        continue;
      }
      plain += line[i];
    }
    line = Truncate(plain, width);
  }
  return lines;
}

std::string RenderProgressLine(const SearchProgress& progress) {
  std::string line = absl::StrCat(
      FormatClock(progress.elapsed_seconds), " considered ", progress.considered, ", measured ",
      progress.measured, ", pruned ", progress.pruned, ", selected ", progress.selected,
      ", deferred ", progress.deferred, ", promoted ", progress.promoted, ", audited ",
      progress.audited, ", rejected ", progress.rejected);
  if (progress.writes) {
    absl::StrAppend(&line, ", written ", progress.written, ", repeated ", progress.repeated,
                    ", unusable ", progress.unusable, ", unanswered ", progress.unanswered,
                    ", tokens ", progress.tokens);
  }
  if (progress.best.has_value()) {
    absl::StrAppend(&line, ", best ", FormatSpeedup(*progress.best), " ", progress.best_name);
  }
  absl::StrAppend(&line, ", device time ", FormatSeconds(progress.device_seconds_spent), " spent ",
                  FormatSeconds(progress.device_seconds_avoided), " avoided");
  if (const std::optional<SearchCost> cost = CostOf(progress.prices, UsageOf(progress))) {
    absl::StrAppend(&line, ", cost ", FormatMoney(cost->total()));
  }
  if (const double left = progress.seconds_left; left >= 0) {
    absl::StrAppend(&line, ", about ", FormatClock(left), " left");
  }
  return line;
}

}  // namespace kernelcast::cli
