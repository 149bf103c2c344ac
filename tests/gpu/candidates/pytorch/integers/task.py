import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, tokens, counts):
        return self.table(tokens).sum(1), counts.cumsum(-1) * 3


def get_inputs():
    return [torch.randint(0, 5000, (256, 128)), torch.randint(0, 9, (512, 1024), dtype=torch.int32)]


def get_init_inputs():
    return [5000, 64]
