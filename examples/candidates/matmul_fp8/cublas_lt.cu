// What NVIDIA's library does with it, by the algorithm that it thinks best for the shape.
#include <cublasLt.h>
#include <kernelcast/candidate.h>

namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// Made once for each shape: the search for an algorithm is no part of a product.
struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  cublasStatus_t status = CUBLAS_STATUS_NOT_INITIALIZED;
};

cublasLtHandle_t Handle() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t made = nullptr;
    return cublasLtCreate(&made) == CUBLAS_STATUS_SUCCESS ? made : nullptr;
  }();
  return handle;
}

void* Workspace() {
  static void* const workspace = [] {
    void* made = nullptr;
    return cudaMalloc(&made, kWorkspaceBytes) == cudaSuccess ? made : nullptr;
  }();
  return workspace;
}

cublasStatus_t Make(Plan& plan) {
  // The library's matrices are column-major: c' = (b')' a', where it sees a' and b' as they lie.
  const cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  cublasStatus_t status = cublasLtMatmulDescCreate(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                            sizeof(transposed));
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasLtMatrixLayoutCreate(&plan.b, CUDA_R_8F_E4M3, plan.k, plan.n, plan.k);
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasLtMatrixLayoutCreate(&plan.a, CUDA_R_8F_E4M3, plan.k, plan.m, plan.k);
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasLtMatrixLayoutCreate(&plan.c, CUDA_R_16BF, plan.n, plan.m, plan.n);
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasLtMatmulPreferenceCreate(&preference);
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    status =
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &kWorkspaceBytes, sizeof(kWorkspaceBytes));
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasLtMatmulAlgoGetHeuristic(Handle(), plan.product, plan.b, plan.a, plan.c, plan.c,
                                            preference, 1, &found, &count);
  }
  if (preference != nullptr) cublasLtMatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_SUCCESS && count == 0) status = CUBLAS_STATUS_NOT_SUPPORTED;
  plan.algorithm = found.algo;
  return status;
}

void Destroy(Plan& plan) {
  if (plan.c != nullptr) cublasLtMatrixLayoutDestroy(plan.c);
  if (plan.b != nullptr) cublasLtMatrixLayoutDestroy(plan.b);
  if (plan.a != nullptr) cublasLtMatrixLayoutDestroy(plan.a);
  if (plan.product != nullptr) cublasLtMatmulDescDestroy(plan.product);
}

// The algorithm of the latest shape.
const Plan& PlanFor(int64_t m, int64_t n, int64_t k) {
  static Plan plan;
  if (plan.m != m || plan.n != n || plan.k != k) {
    Destroy(plan);
    plan = Plan{};
    plan.m = m;
    plan.n = n;
    plan.k = k;
    plan.status = Make(plan);
  }
  return plan;
}

}  // namespace

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void* stream) {
  if (Handle() == nullptr || Workspace() == nullptr) return 1000;
  const Plan& plan = PlanFor(inputs[0].shape[0], inputs[1].shape[0], inputs[0].shape[1]);
  if (plan.status != CUBLAS_STATUS_SUCCESS) return plan.status;
  const float one = 1;
  const float zero = 0;
  return cublasLtMatmul(Handle(), plan.product, &one, inputs[1].data, plan.b, inputs[0].data,
                        plan.a, &zero, outputs[0].data, plan.c, outputs[0].data, plan.c,
                        &plan.algorithm, Workspace(), kWorkspaceBytes,
                        static_cast<cudaStream_t>(stream));
}
