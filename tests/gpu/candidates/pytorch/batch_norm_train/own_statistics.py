import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.norm.weight.data.uniform_()
        self.norm.running_var.uniform_(0.5, 2)
        self.norm.running_mean.normal_()
        self.train()

    def forward(self, x):
        mean = x.mean((0, 2, 3), keepdim=True)
        variance = x.var((0, 2, 3), unbiased=False, keepdim=True)
        y = (x - mean) * torch.rsqrt(variance + self.norm.eps)
        return F.relu(y * self.norm.weight[:, None, None] + self.norm.bias[:, None, None])
