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
        return F.batch_norm(x, self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias, self.norm.training).relu_()
