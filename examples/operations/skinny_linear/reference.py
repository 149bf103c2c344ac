import torch


@torch.no_grad()
def run(x, weight, bias):
    return torch.nn.functional.linear(x, weight, bias)
