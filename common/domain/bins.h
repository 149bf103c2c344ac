#ifndef KERNELCAST_COMMON_DOMAIN_BINS_H_
#define KERNELCAST_COMMON_DOMAIN_BINS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast {

// Divides speedups S = baseline time / candidate time into bins. Labels, midpoints, prompt text and
// answer schema are all generated from this table only.
class BinScheme {
 public:
  // The default. Edges at 1/4, 1/2, 1/sqrt 2, 1, sqrt 2, 2, 4. A bin contains its upper edge.
  static constexpr std::string_view kDefaultId = "sqrt2/1";
  // The labelling formula of the published data (arXiv 2605.31464): clamp(floor(2 log2 S) + 4, 1,
  // 8). A bin contains its lower edge.
  static constexpr std::string_view kPaperFormulaId = "paper-floor/1";

  // NOT_FOUND: unknown id; the message lists the known ids. The scheme is never destroyed.
  [[nodiscard]] static absl::StatusOr<const BinScheme*> Find(std::string_view id);
  static const BinScheme& Default();
  static std::span<const BinScheme* const> All();

  const std::string& id() const { return id_; }
  int size() const { return static_cast<int>(names_.size()); }
  // Inner edges, ascending. There are size() - 1.
  std::span<const double> edges() const { return edges_; }
  // Snake-case names such as "severe_slowdown".
  const std::string& name(int bin) const { return names_[bin - 1]; }

  // Bin of a speedup, 1-based. INVALID_ARGUMENT: not positive and finite.
  [[nodiscard]] absl::StatusOr<int> Label(double speedup) const;

  // Representative log2 speedup of a bin: its middle in log space. An open bin's midpoint lies
  // beyond its edge by half of its neighbour's width, but at least by half an octave.
  double Log2Midpoint(int bin) const;

  // The bin as an interval, e.g. "(0.7071, 1]".
  std::string IntervalText(int bin) const;

  // The whole table as lines of text for a prompt.
  std::string PromptTable() const;

  // Whether a bin contains its upper edge. Otherwise it contains its lower edge.
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
