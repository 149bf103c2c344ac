#ifndef KERNELCAST_COMMON_DOMAIN_BINS_H_
#define KERNELCAST_COMMON_DOMAIN_BINS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast {

// How speedups S = baseline time / candidate time are cut into bins. Labels, midpoints, prompt text
// and answer schema are all generated from this table and from nowhere else.
class BinScheme {
 public:
  // The default: edges at 1/4, 1/2, 1/sqrt 2, 1, sqrt 2, 2, 4; a bin holds its upper edge.
  static constexpr std::string_view kDefaultId = "sqrt2/1";
  // The labelling formula of the published data (arXiv 2605.31464): clamp(floor(2 log2 S) + 4, 1,
  // 8), whose bins hold their lower edge.
  static constexpr std::string_view kPaperFormulaId = "paper-floor/1";

  // NOT_FOUND, listing the known ids. The scheme lives as long as the program.
  [[nodiscard]] static absl::StatusOr<const BinScheme*> Find(std::string_view id);
  static const BinScheme& Default();
  static std::span<const BinScheme* const> All();

  const std::string& id() const { return id_; }
  int size() const { return static_cast<int>(names_.size()); }
  // Inner edges, ascending, size() - 1 of them.
  std::span<const double> edges() const { return edges_; }
  // Snake-case names such as "severe_slowdown".
  const std::string& name(int bin) const { return names_[bin - 1]; }

  // Bin of a positive finite speedup, 1-based. INVALID_ARGUMENT otherwise.
  [[nodiscard]] absl::StatusOr<int> Label(double speedup) const;

  // Representative log2 speedup of a bin: the middle in log space; the open bins reach as far
  // beyond their edge as half of their neighbour's width, at least half an octave.
  double Log2Midpoint(int bin) const;

  // The bin as an interval, e.g. "(0.7071, 1]".
  std::string IntervalText(int bin) const;

  // The whole table as lines of text for a prompt.
  std::string PromptTable() const;

  // Whether a bin holds its upper edge (else the lower one).
  bool upper_closed() const { return upper_closed_; }

 private:
  BinScheme(std::string id, std::vector<double> edges, bool upper_closed);

  std::string id_;
  std::vector<double> edges_;
  std::vector<std::string> names_;
  bool upper_closed_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_BINS_H_
