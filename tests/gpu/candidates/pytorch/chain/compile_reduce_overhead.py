import torch
import torch.nn as nn
import torch.nn.functional as F

@torch.compile(mode="reduce-overhead")
def work(x, y):
    return torch.tanh(x * 1.5 + y) * torch.sigmoid(y) + x.mean(-1, keepdim=True)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return work(x, y).clone()
