import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, y, z):
        return (x @ y).permute(1, 0) + z


def get_inputs():
    return [torch.randn(1024, 512).t(), torch.randn(1024, 512)[:, ::2], torch.randn(1, 512).expand(256, 512)]


def get_init_inputs():
    return []
