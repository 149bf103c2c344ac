import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def forward(self, x, cache):
        return (cache.sum(-1) + x.sum(-1)) * 2
