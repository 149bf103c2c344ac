"""Attention of one head over keys of which only some count."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = 1 / math.sqrt(width)

    def forward(self, query, key, value, mask):
        scores = (query @ key.T) * self.scale
        scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, dim=-1) @ value


QUERIES, KEYS, WIDTH = 128, 512, 64


def get_inputs():
    mask = torch.rand(QUERIES, KEYS) < 0.7
    mask[:, 0] = True  # each query has a key
    return [torch.randn(QUERIES, WIDTH), torch.randn(KEYS, WIDTH), torch.randn(KEYS, WIDTH), mask]


def get_init_inputs():
    return [WIDTH]
