import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def forward(self, x, y, z):
        return y.contiguous().t() @ x.contiguous().t() + z
