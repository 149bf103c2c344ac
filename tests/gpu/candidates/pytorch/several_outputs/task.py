import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, pair, options):
        x, y = pair
        values, places = torch.topk(x * options["scale"] + y, 8)
        return {"values": values, "places": places}["values"], places, x.sum()


def get_inputs():
    # No two sums of a row are equal: the places of equal ones may come in any order.
    x, y = (torch.rand(512, 2048).argsort(1).float() for _ in range(2))
    return [(x, 4096 * y), {"scale": 0.5}]


def get_init_inputs():
    return []
