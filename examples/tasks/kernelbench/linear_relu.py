"""A layer of a network: relu(x W^T + b)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


INPUTS, OUTPUTS = 512, 1024


def get_inputs():
    return [torch.rand(128, INPUTS)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
