import math

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Scales the queries, which are fewer than the scores, and writes the scores in place."""

    def __init__(self, width):
        super().__init__()
        self.scale = 1 / math.sqrt(width)

    def forward(self, query, key, value, mask):
        scores = (query * self.scale) @ key.T
        scores.masked_fill_(~mask, float("-inf"))
        scores -= scores.amax(dim=-1, keepdim=True)
        scores.exp_()
        return (scores @ value).div_(scores.sum(dim=-1, keepdim=True))
