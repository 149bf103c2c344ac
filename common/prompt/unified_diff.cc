#include "common/prompt/unified_diff.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/prompt/text_lines.h"

namespace kernelcast {
namespace {

constexpr size_t kContext = 3;
constexpr int kMaxEdits = 400;

struct Edit {
  char mark = ' ';  // ' ', '-' or '+'
  size_t before = 0;
  size_t after = 0;
};

// The edits that turn lines [first, before_end) into [first, after_end), without those in common at
// both ends.
class Comparer {
 public:
  Comparer(const std::vector<int>& before, const std::vector<int>& after)
      : before_(before), after_(after) {}

  std::vector<Edit> Run() {
    const size_t shorter = std::min(before_.size(), after_.size());
    while (first_ < shorter && before_[first_] == after_[first_]) ++first_;
    size_t last = 0;
    while (last < shorter - first_ &&
           before_[before_.size() - 1 - last] == after_[after_.size() - 1 - last]) {
      ++last;
    }
    n_ = static_cast<int>(before_.size() - last - first_);
    m_ = static_cast<int>(after_.size() - last - first_);
    for (size_t i = 0; i < first_; ++i) edits_.push_back({' ', i, i});
    std::vector<Edit> middle;
    if (!Search(middle)) {
      middle.clear();
      for (int x = 0; x < n_; ++x) middle.push_back(At('-', x, 0));
      for (int y = 0; y < m_; ++y) middle.push_back(At('+', n_, y));
    }
    edits_.insert(edits_.end(), middle.begin(), middle.end());
    for (size_t i = last; i > 0; --i) {
      edits_.push_back({' ', before_.size() - i, after_.size() - i});
    }
    return std::move(edits_);
  }

 private:
  Edit At(char mark, int x, int y) const {
    return {mark, first_ + static_cast<size_t>(x), first_ + static_cast<size_t>(y)};
  }
  bool Same(int x, int y) const {
    return before_[first_ + static_cast<size_t>(x)] == after_[first_ + static_cast<size_t>(y)];
  }

  // False: more than kMaxEdits.
  bool Search(std::vector<Edit>& middle) const {
    const int most = std::min(n_ + m_, kMaxEdits);
    const auto at = [most](int k) { return static_cast<size_t>(k + most + 1); };
    // The furthest x on diagonal k = x - y after d edits.
    std::vector<int> furthest(2 * static_cast<size_t>(most) + 3, 0);
    std::vector<std::vector<int>> trace;
    for (int d = 0; d <= most; ++d) {
      trace.push_back(furthest);
      for (int k = -d; k <= d; k += 2) {
        const bool down = k == -d || (k != d && furthest[at(k - 1)] < furthest[at(k + 1)]);
        int x = down ? furthest[at(k + 1)] : furthest[at(k - 1)] + 1;
        int y = x - k;
        while (x < n_ && y < m_ && y >= 0 && Same(x, y)) ++x, ++y;
        furthest[at(k)] = x;
        if (x >= n_ && y >= m_) {
          Backtrack(trace, d, middle);
          return true;
        }
      }
    }
    return false;
  }

  void Backtrack(const std::vector<std::vector<int>>& trace, int d,
                 std::vector<Edit>& middle) const {
    const int most = std::min(n_ + m_, kMaxEdits);
    const auto at = [most](int k) { return static_cast<size_t>(k + most + 1); };
    int x = n_;
    int y = m_;
    for (; d >= 0; --d) {
      const std::vector<int>& furthest = trace[static_cast<size_t>(d)];
      const int k = x - y;
      const bool down = k == -d || (k != d && furthest[at(k - 1)] < furthest[at(k + 1)]);
      const int from_k = down ? k + 1 : k - 1;
      const int from_x = d == 0 ? 0 : furthest[at(from_k)];
      const int from_y = d == 0 ? 0 : from_x - from_k;
      while (x > from_x && y > from_y) middle.push_back(At(' ', --x, --y));
      if (d > 0) {
        middle.push_back(down ? At('+', from_x, from_y) : At('-', from_x, from_y));
        x = from_x;
        y = from_y;
      }
    }
    std::ranges::reverse(middle);
  }

  const std::vector<int>& before_;
  const std::vector<int>& after_;
  size_t first_ = 0;
  int n_ = 0;  // lines in between
  int m_ = 0;
  std::vector<Edit> edits_;
};

// Line numbers count from 1. An empty side names the line before it.
std::string Range(size_t begin, size_t count) {
  const size_t line = count == 0 ? begin : begin + 1;
  return count == 1 ? absl::StrCat(line) : absl::StrCat(line, ",", count);
}

}  // namespace

UnifiedDiff MakeUnifiedDiff(std::string_view before, std::string_view after, size_t max_bytes) {
  const std::vector<std::string_view> old_lines = TextLines(before);
  const std::vector<std::string_view> new_lines = TextLines(after);
  LineNumbers numbers;
  const std::vector<int> old_numbers = numbers.Of(old_lines);
  const std::vector<int> new_numbers = numbers.Of(new_lines);
  const std::vector<Edit> edits = Comparer(old_numbers, new_numbers).Run();
  UnifiedDiff diff;
  bool full = false;
  const auto add = [&](const std::string& line) {
    full = full || diff.text.size() + line.size() > max_bytes;
    if (full) {
      ++diff.cut_lines;
    } else {
      diff.text += line;
    }
  };
  for (size_t i = 0; i < edits.size(); ++i) {
    if (edits[i].mark == ' ') continue;
    // A hunk ends where more than twice the context is unchanged.
    size_t end = i + 1;
    for (size_t j = i + 1; j < edits.size() && j <= end + 2 * kContext; ++j) {
      if (edits[j].mark != ' ') end = j + 1;
    }
    const size_t begin = i - std::min(i, kContext);
    const size_t stop = std::min(end + kContext, edits.size());
    size_t removed = 0;
    size_t added = 0;
    for (size_t j = begin; j < stop; ++j) {
      removed += edits[j].mark == '-' ? 1 : 0;
      added += edits[j].mark == '+' ? 1 : 0;
    }
    const size_t kept = stop - begin - removed - added;
    add(absl::StrCat("@@ -", Range(edits[begin].before, kept + removed), " +",
                     Range(edits[begin].after, kept + added), " @@\n"));
    for (size_t j = begin; j < stop; ++j) {
      const std::string_view line =
          edits[j].mark == '+' ? new_lines[edits[j].after] : old_lines[edits[j].before];
      add(absl::StrCat(std::string(1, edits[j].mark), std::string(line), "\n"));
    }
    diff.removed += removed;
    diff.added += added;
    i = stop - 1;
  }
  return diff;
}

}  // namespace kernelcast
