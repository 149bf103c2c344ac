import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, pair, options):
        x, y = pair
        values, places = torch.topk(x * options["scale"] + y, 8)
        return {"values": values, "places": places}["values"], places, x.sum()


def get_inputs():
    return [(torch.randn(512, 2048), torch.randn(512, 2048)), {"scale": 0.5}]


def get_init_inputs():
    return []
