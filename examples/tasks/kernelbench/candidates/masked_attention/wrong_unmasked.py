import math

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Wrong: ignores the mask."""

    def __init__(self, width):
        super().__init__()
        self.scale = 1 / math.sqrt(width)

    def forward(self, query, key, value, mask):
        return torch.softmax((query * self.scale) @ key.T, dim=-1) @ value
