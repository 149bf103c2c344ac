#include "services/cli/core/table.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"

namespace kernelcast::cli {
namespace {

constexpr int kGap = 2;
constexpr int kNarrowest = 8;

}  // namespace

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::Render(const Style& style, int width) const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int widest = DisplayWidth(columns_[c].header);
    for (const auto& row : rows_) widest = std::max(widest, DisplayWidth(row[c]));
    widths.push_back(widest);
  }
  if (width > 0) {
    int total = static_cast<int>(widths.size() - 1) * kGap;
    for (int w : widths) total += w;
    while (total > width) {
      int widest = -1;
      for (size_t c = 0; c < columns_.size(); ++c) {
        const bool gives = columns_[c].shrinks || columns_[c].wraps;
        if (gives && widths[c] > kNarrowest &&
            (widest < 0 || widths[c] > widths[static_cast<size_t>(widest)])) {
          widest = static_cast<int>(c);
        }
      }
      if (widest < 0) break;
      --widths[static_cast<size_t>(widest)];
      --total;
    }
  }
  // Columns in which ends distinguish cells that begin alike.
  std::vector<bool> keeps_ends;
  for (size_t c = 0; c < columns_.size(); ++c) {
    std::set<std::string> whole;
    std::set<std::string> cut;
    for (const auto& row : rows_) {
      if (!columns_[c].shrinks || !whole.insert(row[c]).second) continue;
      cut.insert(Truncate(row[c], widths[c]));
    }
    keeps_ends.push_back(cut.size() < whole.size());
  }
  std::string text;
  const auto line = [&](const auto& cell_of) {
    std::string out;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) out += std::string(kGap, ' ');
      out += cell_of(c);
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    text += out + "\n";
  };
  const auto fit = [&](size_t c, const std::string& cell) {
    const std::string cut =
        keeps_ends[c] ? TruncateMiddle(cell, widths[c]) : Truncate(cell, widths[c]);
    return columns_[c].align == Align::kRight ? PadLeft(cut, widths[c]) : PadRight(cut, widths[c]);
  };
  line([&](size_t c) { return style.Bold(fit(c, columns_[c].header)); });
  for (const auto& row : rows_) {
    std::vector<std::vector<std::string>> cells;
    size_t lines = 1;
    for (size_t c = 0; c < columns_.size(); ++c) {
      std::vector<std::string>& parts = cells.emplace_back();
      if (columns_[c].wraps) {
        parts = absl::StrSplit(WrapText(row[c], widths[c]), '\n');
      } else {
        parts = {row[c]};
      }
      lines = std::max(lines, parts.size());
    }
    for (size_t l = 0; l < lines; ++l) {
      line([&](size_t c) { return fit(c, l < cells[c].size() ? cells[c][l] : std::string()); });
    }
  }
  return text;
}

}  // namespace kernelcast::cli
