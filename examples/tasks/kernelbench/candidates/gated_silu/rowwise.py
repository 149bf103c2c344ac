import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """One row at a time, so that intermediate results stay in the cache."""

    def forward(self, gate, value):
        out = torch.empty_like(gate)
        for row in range(gate.shape[0]):
            torch.mul(torch.nn.functional.silu(gate[row]), value[row], out=out[row])
        return out
