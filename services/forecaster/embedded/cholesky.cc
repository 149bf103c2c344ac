#include "services/forecaster/embedded/cholesky.h"

#include <cmath>

namespace kernelcast::forecaster {

// Column by column, so that the innermost loops run over independent, adjacent elements.

bool Cholesky(std::vector<double>& matrix, size_t n, double& half_log_determinant) {
  half_log_determinant = 0;
  for (size_t j = 0; j < n; ++j) {
    double* const column = &matrix[j * n];
    for (size_t k = 0; k < j; ++k) {
      const double* const earlier = &matrix[k * n];
      const double factor = earlier[j];
      for (size_t i = j; i < n; ++i) column[i] -= factor * earlier[i];
    }
    if (!(column[j] > 1e-12)) return false;
    column[j] = std::sqrt(column[j]);
    half_log_determinant += std::log(column[j]);
    for (size_t i = j + 1; i < n; ++i) column[i] /= column[j];
  }
  return true;
}

void ForwardSubstitute(const std::vector<double>& lower, size_t n, std::span<double> b) {
  // Leading zeros stay zero.
  size_t first = 0;
  while (first < n && b[first] == 0) ++first;
  for (size_t k = first; k < n; ++k) {
    const double* const column = &lower[k * n];
    b[k] /= column[k];
    const double known = b[k];
    for (size_t i = k + 1; i < n; ++i) b[i] -= column[i] * known;
  }
}

void BackwardSubstitute(const std::vector<double>& lower, size_t n, std::span<double> b) {
  for (size_t i = n; i-- > 0;) {
    const double* const column = &lower[i * n];
    double sum = b[i];
    for (size_t k = i + 1; k < n; ++k) sum -= column[k] * b[k];
    b[i] = sum / column[i];
  }
}

}  // namespace kernelcast::forecaster
