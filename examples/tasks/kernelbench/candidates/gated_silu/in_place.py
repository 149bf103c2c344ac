import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Writes over its own intermediate results instead of allocating more."""

    def forward(self, gate, value):
        return torch.sigmoid(gate).mul_(gate).mul_(value)
