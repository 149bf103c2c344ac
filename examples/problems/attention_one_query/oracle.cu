// Scores, softmax and weighted sum in double precision, one block a head.
extern "C" __global__ void attention_oracle(const float* q, const float* k, const float* v,
                                            double* out, double* scores, long long length,
                                            long long dim) {
  q += blockIdx.x * dim;
  k += blockIdx.x * length * dim;
  v += blockIdx.x * length * dim;
  out += blockIdx.x * dim;
  scores += blockIdx.x * length;
  for (long long t = threadIdx.x; t < length; t += 256) {
    double dot = 0;
    for (long long d = 0; d < dim; ++d) dot += (double)q[d] * k[t * dim + d];
    scores[t] = dot / sqrt((double)dim);
  }
  __syncthreads();
  double top = scores[0];
  for (long long t = 0; t < length; ++t) top = fmax(top, scores[t]);
  double sum = 0;
  for (long long t = 0; t < length; ++t) sum += exp(scores[t] - top);
  for (long long d = threadIdx.x; d < dim; d += 256) {
    double total = 0;
    for (long long t = 0; t < length; ++t) total += exp(scores[t] - top) * v[t * dim + d];
    out[d] = total / sum;
  }
}
