import torch


@torch.no_grad()
def run(x, bias):
    return torch.nn.functional.gelu(x + bias)
