// Each thread transposes 4 x 4 elements in registers, with vectors where both sizes allow it.
extern "C" __global__ void __launch_bounds__(X* Y)
    register_tile(const float* __restrict__ x, float* __restrict__ y, long long rows,
                  long long cols) {
  const long long column = ((long long)blockIdx.x * X + threadIdx.x) * 4;
  const long long row = ((long long)blockIdx.y * Y + threadIdx.y) * 4;
  if (column >= cols || row >= rows) return;
  if (rows % 4 == 0 && cols % 4 == 0) {
    const float4 a = *(const float4*)(x + row * cols + column);
    const float4 b = *(const float4*)(x + (row + 1) * cols + column);
    const float4 c = *(const float4*)(x + (row + 2) * cols + column);
    const float4 d = *(const float4*)(x + (row + 3) * cols + column);
    *(float4*)(y + column * rows + row) = make_float4(a.x, b.x, c.x, d.x);
    *(float4*)(y + (column + 1) * rows + row) = make_float4(a.y, b.y, c.y, d.y);
    *(float4*)(y + (column + 2) * rows + row) = make_float4(a.z, b.z, c.z, d.z);
    *(float4*)(y + (column + 3) * rows + row) = make_float4(a.w, b.w, c.w, d.w);
    return;
  }
  for (long long r = row; r < row + 4 && r < rows; ++r) {
    for (long long c = column; c < column + 4 && c < cols; ++c) y[c * rows + r] = x[r * cols + c];
  }
}
