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
        self.eval()

    def forward(self, x):
        scale = self.norm.weight * torch.rsqrt(self.norm.running_var + self.norm.eps)
        shift = self.norm.bias - self.norm.running_mean * scale
        return torch.addcmul(shift[:, None, None], x, scale[:, None, None]).relu_()
