import torch
import torch.nn as nn
import torch.nn.functional as F

class Work(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.tanh(x * 1.5 + y) * torch.sigmoid(y) + x.mean(-1, keepdim=True)

    @staticmethod
    def backward(ctx, gradient):
        return None, None


class ModelNew(nn.Module):
    def forward(self, x, y):
        return Work.apply(x, y)
