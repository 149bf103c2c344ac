import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 1024)

    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.float16):
            return F.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(1024, 1024)]


def get_init_inputs():
    return []
