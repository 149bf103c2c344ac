import math

import torch

RATE, FIRST, SECOND, EPSILON, DECAY, STEP = 1e-2, 0.9, 0.999, 1e-8, 0.1, 100


def make_inputs(axes, device):
    n = axes["n"]
    # Gradients of very different sizes, as those of rare tokens.
    size = 10 ** (-6 * torch.rand(n, device=device))
    return {
        "param": torch.randn(n, device=device),
        "grad": (size * torch.randn(n, device=device)).to(torch.bfloat16),
        "mean": 0.3 * size * torch.randn(n, device=device),
        "square": (0.3 * size * torch.randn(n, device=device)).square(),
    }


@torch.no_grad()
def run(param, grad, mean, square):
    grad = grad.float()
    new_mean = FIRST * mean + (1 - FIRST) * grad
    new_square = SECOND * square + (1 - SECOND) * grad * grad
    root = new_square.sqrt() / math.sqrt(1 - SECOND**STEP) + EPSILON
    step = RATE / (1 - FIRST**STEP) * new_mean / root
    return param * (1 - RATE * DECAY) - step, new_mean, new_square
