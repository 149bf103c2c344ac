import torch

EPSILON = 1e-6


def make_inputs(rows, width, seed=7):
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    x = torch.randn(rows, width, device="cuda", generator=generator)
    weight = torch.rand(width, device="cuda", generator=generator) + 0.5
    gradient = torch.randn(rows, width, device="cuda", generator=generator)
    return x, weight, gradient


def expected(x, weight, gradient):
    x, weight, gradient = x.double(), weight.double(), gradient.double()
    inverse = (x.square().mean(dim=1) + EPSILON).rsqrt()
    scaled = gradient * weight
    along = (scaled * x).mean(dim=1, keepdim=True)
    backward = inverse[:, None] * scaled - inverse[:, None] ** 3 * along * x
    return x * inverse[:, None] * weight, inverse, backward
