import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def forward(self, pair, options):
        values, places = (pair[1] + options["scale"] * pair[0]).sort(descending=True, stable=True)
        return values[:, :8].contiguous(), places[:, :8].contiguous(), pair[0].sum(1).sum()
