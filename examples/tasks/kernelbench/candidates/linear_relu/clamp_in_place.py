import torch.nn as nn


class ModelNew(nn.Module):
    """The weights agree with the reference's, because both are made from the same seed."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.linear(x).relu_()
