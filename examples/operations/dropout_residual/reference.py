import torch

LOW = 0xFFFFFFFF


def make_inputs(axes, device):
    rows, cols = axes["rows"], axes["cols"]
    return {
        "x": torch.randn(rows, cols, device=device).to(torch.bfloat16),
        "residual": torch.randn(rows, cols, device=device).to(torch.bfloat16),
        "seeds": torch.randint(0, 2**31 - 1, (rows,), dtype=torch.int32, device=device),
    }


def mixed(bits):
    """A hash of 32 bits, in integers of 64."""
    bits = bits ^ (bits >> 16)
    bits = (bits * 0x85EBCA6B) & LOW
    bits = bits ^ (bits >> 13)
    bits = (bits * 0xC2B2AE35) & LOW
    return bits ^ (bits >> 16)


@torch.no_grad()
def run(x, residual, seeds):
    column = torch.arange(x.shape[1], device=x.device)
    kept = mixed(column[None, :] ^ seeds[:, None].long()) >= 2**30
    scaled = torch.where(kept, x.float() * (4 / 3), torch.zeros_like(x, dtype=torch.float32))
    return (residual.float() + scaled).to(torch.bfloat16), kept.to(torch.uint8)
