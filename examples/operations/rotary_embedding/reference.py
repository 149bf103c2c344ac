import torch


def make_inputs(axes, device):
    tokens, heads, half = axes["tokens"], axes["heads"], axes["half"]
    positions = torch.randint(0, 4096, (tokens, 1), device=device)
    angles = positions * 10000 ** (-torch.arange(half, device=device) / half)
    return {
        "q": torch.randn(tokens, heads, 2 * half, device=device).to(torch.bfloat16),
        "cosines": torch.cos(angles),
        "sines": torch.sin(angles),
    }


@torch.no_grad()
def run(q, cosines, sines):
    first, second = q.float().chunk(2, dim=-1)
    cosines, sines = cosines[:, None, :], sines[:, None, :]
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1).to(torch.bfloat16)
