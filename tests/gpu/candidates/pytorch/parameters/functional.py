import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)
        self.norm = nn.LayerNorm(outside)
        self.register_buffer("scale", torch.rand(outside))

    def forward(self, x):
        y = torch.addmm(self.linear.bias, x, self.linear.weight.t())
        y = F.layer_norm(y, y.shape[-1:], self.norm.weight, self.norm.bias)
        return y.mul_(self.scale)
