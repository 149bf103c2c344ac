import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Wrong: forgets the bias."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return (x @ self.linear.weight.T).relu_()
