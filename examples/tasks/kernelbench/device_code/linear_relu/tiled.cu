// relu(x W^T + b) in tiles of 16 x 16 outputs.
constexpr int kTile = 16;

extern "C" __global__ void linear_relu(const float* x, const float* weight, const float* bias,
                                       float* y, long long rows, long long inputs,
                                       long long outputs) {
  __shared__ float x_tile[kTile][kTile];
  __shared__ float weight_tile[kTile][kTile + 1];
  const long long row = static_cast<long long>(blockIdx.y) * kTile + threadIdx.y;
  const long long first = static_cast<long long>(blockIdx.x) * kTile;
  const long long column = first + threadIdx.x;
  float sum = 0;
  for (long long start = 0; start < inputs; start += kTile) {
    const long long k = start + threadIdx.x;
    const bool inside = k < inputs;
    x_tile[threadIdx.y][threadIdx.x] = inside && row < rows ? x[row * inputs + k] : 0;
    const long long output = first + threadIdx.y;
    weight_tile[threadIdx.y][threadIdx.x] =
        inside && output < outputs ? weight[output * inputs + k] : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += x_tile[threadIdx.y][i] * weight_tile[threadIdx.x][i];
    __syncthreads();
  }
  if (row < rows && column < outputs) y[row * outputs + column] = fmaxf(sum + bias[column], 0);
}
