#include "services/forecaster/embedded/cholesky.h"

#include <cmath>

namespace kernelcast::forecaster {

bool Cholesky(std::vector<double>& matrix, size_t n, double& half_log_determinant) {
  half_log_determinant = 0;
  for (size_t i = 0; i < n; ++i) {
    double* row = &matrix[i * n];
    for (size_t j = 0; j < i; ++j) {
      const double* other = &matrix[j * n];
      double sum = row[j];
      for (size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      row[j] = sum / other[j];
    }
    double sum = row[i];
    for (size_t k = 0; k < i; ++k) sum -= row[k] * row[k];
    if (!(sum > 1e-12)) return false;
    row[i] = std::sqrt(sum);
    half_log_determinant += std::log(row[i]);
  }
  return true;
}

void ForwardSubstitute(const std::vector<double>& lower, size_t n, std::vector<double>& b) {
  for (size_t i = 0; i < n; ++i) {
    double sum = b[i];
    for (size_t k = 0; k < i; ++k) sum -= lower[i * n + k] * b[k];
    b[i] = sum / lower[i * n + i];
  }
}

void BackwardSubstitute(const std::vector<double>& lower, size_t n, std::vector<double>& b) {
  for (size_t i = n; i-- > 0;) {
    double sum = b[i];
    for (size_t k = i + 1; k < n; ++k) sum -= lower[k * n + i] * b[k];
    b[i] = sum / lower[i * n + i];
  }
}

}  // namespace kernelcast::forecaster
