import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Wrong: divides by n - 1."""

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=1, unbiased=True)
        return mean, variance
