import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def forward(self, x, y, z):
        out = torch.empty(x.shape[0], y.shape[1], device=x.device)
        torch.mm(x, y, out=out)
        out += z.t()
        return out.t()
