import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, cache):
        cache[:, :256] += x
        return cache.sum(-1) * 2


def get_inputs():
    return [torch.randn(2048, 256), torch.randn(2048, 1024)]


def get_init_inputs():
    return []
