import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x, y):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            mean = x.mean(-1, keepdim=True)
        out = torch.tanh(x * 1.5 + y) * torch.sigmoid(y)
        main.wait_stream(self.side)
        return out.add_(mean)
