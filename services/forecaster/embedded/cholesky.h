#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_CHOLESKY_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_CHOLESKY_H_

#include <cstddef>
#include <span>
#include <vector>

namespace kernelcast::forecaster {

// Matrices are n x n, column-major. Only the lower triangle of a symmetric or lower triangular
// matrix is read.

// Overwrites the lower triangle with its Cholesky factor L, with L L^T equal to the input. Returns
// false and leaves the matrix unspecified if it is not positive definite.
[[nodiscard]] bool Cholesky(std::vector<double>& matrix, size_t n, double& half_log_determinant);

// Solves L x = b in place.
void ForwardSubstitute(const std::vector<double>& lower, size_t n, std::span<double> b);

// Solves L^T x = b in place.
void BackwardSubstitute(const std::vector<double>& lower, size_t n, std::span<double> b);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_CHOLESKY_H_
