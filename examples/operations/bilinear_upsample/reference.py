import torch


@torch.no_grad()
def run(x):
    return torch.nn.functional.interpolate(x[None], scale_factor=2, mode="bilinear", align_corners=False)[0]
