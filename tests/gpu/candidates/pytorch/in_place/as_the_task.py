import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def forward(self, x, cache):
        cache[:, :256].add_(x)
        return cache.sum(-1).mul_(2)
