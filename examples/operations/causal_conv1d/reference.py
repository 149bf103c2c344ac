import torch


@torch.no_grad()
def run(x, filters):
    # The last tap is for the present.
    padded = torch.nn.functional.pad(x.float(), (3, 0))
    mixed = torch.nn.functional.conv1d(padded, filters[:, None, :], groups=filters.shape[0])
    return torch.nn.functional.silu(mixed).to(torch.bfloat16)
