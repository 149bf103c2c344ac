import torch


def run(x, scale):
    return torch.nn.functional.gelu(x * scale, approximate="tanh")
