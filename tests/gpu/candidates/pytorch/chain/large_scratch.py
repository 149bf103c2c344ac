import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def forward(self, x, y):
        scratch = torch.empty(1 << 30, device=x.device)
        part = scratch[-x.numel():].view_as(x)
        torch.sigmoid(y, out=part)
        return torch.tanh(x * 1.5 + y).mul_(part).add_(x.mean(-1, keepdim=True))
