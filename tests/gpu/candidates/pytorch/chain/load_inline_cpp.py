import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/types.h>
torch::Tensor run(torch::Tensor x, torch::Tensor y) {
  return torch::addcmul(x.mean(-1, true), torch::tanh(x * 1.5 + y), torch::sigmoid(y));
}
"""
built = load_inline("chain_cpp", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return built.run(x, y)
