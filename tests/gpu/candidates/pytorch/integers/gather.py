import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, tokens, counts):
        picked = self.table.weight.index_select(0, tokens.reshape(-1))
        return picked.view(*tokens.shape, -1).sum(1), (counts * 3).cumsum(-1)
