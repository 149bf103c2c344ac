import torch
import torch.nn as nn
import torch.nn.functional as F

def work(x, y):
    return torch.tanh(x * 1.5 + y) * torch.sigmoid(y) + x.mean(-1, keepdim=True)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, x, y):
        if self.graph is None:
            self.x, self.y = x.clone(), y.clone()
            work(self.x, self.y)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = work(self.x, self.y)
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.out.clone()
