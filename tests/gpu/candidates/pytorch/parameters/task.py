import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)
        self.norm = nn.LayerNorm(outside)
        self.register_buffer("scale", torch.rand(outside))

    def forward(self, x):
        return self.norm(self.linear(x)) * self.scale


def get_inputs():
    return [torch.randn(512, 1024)]


def get_init_inputs():
    return [1024, 768]
