#include "common/domain/bins.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr std::array<const char*, 8> kNames = {
    "severe_slowdown", "significant_slowdown", "moderate_slowdown", "minor_slowdown",
    "minor_speedup",   "significant_speedup",  "high_speedup",      "extreme_speedup"};

// Up to four decimals, so that 1/sqrt 2 reads 0.7071 and 2 reads 2.
std::string EdgeText(double edge) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.4f", edge);
  std::string text = buffer;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

BinScheme::BinScheme(std::string id, std::vector<double> edges, bool upper_closed)
    : id_(std::move(id)),
      edges_(std::move(edges)),
      names_(kNames.begin(), kNames.end()),
      upper_closed_(upper_closed) {}

std::span<const BinScheme* const> BinScheme::All() {
  using std::numbers::sqrt2;
  // Never destroyed, because threads may still read them while the program exits.
  static const BinScheme& sqrt2_scheme = *new BinScheme(
      std::string(kDefaultId), {0.25, 0.5, sqrt2 / 2, 1, sqrt2, 2, 4}, /*upper_closed=*/true);
  static const BinScheme& paper_scheme =
      *new BinScheme(std::string(kPaperFormulaId), {0.5, sqrt2 / 2, 1, sqrt2, 2, 2 * sqrt2, 4},
                     /*upper_closed=*/false);
  static const std::array<const BinScheme*, 2> all = {&sqrt2_scheme, &paper_scheme};
  return all;
}

absl::StatusOr<const BinScheme*> BinScheme::Find(std::string_view id) {
  std::vector<std::string> known;
  for (const BinScheme* scheme : All()) {
    if (scheme->id() == id) return scheme;
    known.push_back(scheme->id());
  }
  return absl::NotFoundError(
      absl::StrCat("bin scheme ", Quoted(id), " is not one of ", CommaList(known)));
}

const BinScheme& BinScheme::Default() { return *All()[0]; }

absl::StatusOr<int> BinScheme::Label(double speedup) const {
  if (!(speedup > 0) || !std::isfinite(speedup)) {
    return absl::InvalidArgumentError(
        absl::StrCat("speedup ", NumberText(speedup), " is not a positive finite number"));
  }
  const auto edge = upper_closed_ ? std::ranges::lower_bound(edges_, speedup)
                                  : std::ranges::upper_bound(edges_, speedup);
  return static_cast<int>(edge - edges_.begin()) + 1;
}

double BinScheme::Log2Midpoint(int bin) const {
  const int last = size();
  const auto log2_edge = [&](int i) { return std::log2(edges_[i]); };
  if (bin == 1) {
    const double width = log2_edge(1) - log2_edge(0);
    return log2_edge(0) - std::max(0.5, width / 2);
  }
  if (bin == last) {
    const double width = log2_edge(last - 2) - log2_edge(last - 3);
    return log2_edge(last - 2) + std::max(0.5, width / 2);
  }
  return (log2_edge(bin - 2) + log2_edge(bin - 1)) / 2;
}

std::string BinScheme::IntervalText(int bin) const {
  const std::string low = bin == 1 ? "0" : EdgeText(edges_[bin - 2]);
  const std::string high = bin == size() ? "inf" : EdgeText(edges_[bin - 1]);
  const bool low_closed = !upper_closed_ && bin != 1;
  const bool high_closed = upper_closed_ && bin != size();
  return absl::StrCat(low_closed ? "[" : "(", low, ", ", high, high_closed ? "]" : ")");
}

std::string BinScheme::PromptTable() const {
  std::string table;
  for (int bin = 1; bin <= size(); ++bin) {
    absl::StrAppend(&table, bin, ". ", name(bin), ": S in ", IntervalText(bin), "\n");
  }
  return table;
}

}  // namespace kernelcast
