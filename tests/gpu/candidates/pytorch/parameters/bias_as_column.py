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
        weight = torch.cat([self.linear.weight, self.linear.bias[:, None]], 1)
        x = F.pad(x, (0, 1), value=1.0)
        return self.norm(x @ weight.t()) * self.scale
