#include "services/cli/core/own_kernels.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::cli {
namespace {

bool OnlyCalls(const std::string& source, CandidateKind kind = CandidateKind::kPython) {
  Candidate candidate;
  candidate.kind = kind;
  candidate.source = source;
  return OnlyCallsPyTorch(candidate);
}

TEST_CASE("A candidate that imports PyTorch only has no kernel of its own") {
  const std::string model = "class ModelNew(torch.nn.Module):\n    pass\n";
  CHECK(OnlyCalls("import torch\n" + model));
  CHECK(OnlyCalls("import math, torch.nn as nn\nfrom torch.nn import functional as F\n" + model));
  CHECK(OnlyCalls("from task import input_t, output_t\nimport torch\n"));
  CHECK_FALSE(OnlyCalls("import torch\n" + model, CandidateKind::kDeviceTriton));
  CHECK_FALSE(OnlyCalls("class ModelNew: pass\n"));
}

TEST_CASE("A candidate that may have a kernel of its own is not said to have none") {
  for (const char* const source :
       {"import torch\nimport triton\n", "import torch, triton\n", "from triton import jit\n",
        "try:\n    import cupy as cp\nexcept ImportError: pass\n", "import torch; import triton\n",
        "from torch.utils.cpp_extension import load_inline\n",
        "import torch\nf = torch.compile(torch.relu)\n", "import torch\n__import__('triton')\n",
        "import importlib\n", "import torch\nexec(text)\n", "import tilelang\n",
        "import torch\nf = torch.cuda.jiterator._create_jit_fn(text)\n",
        R"({"spec": {"languages": ["triton"]}})"}) {
    INFO(source);
    CHECK_FALSE(OnlyCalls(source));
  }
}

}  // namespace
}  // namespace kernelcast::cli
