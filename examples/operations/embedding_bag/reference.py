import torch


def make_inputs(axes, device):
    bags, places, rows, dim = (axes[name] for name in ("bags", "places", "rows", "dim"))
    indices = torch.randint(0, rows, (bags, places), dtype=torch.int32, device=device)
    empty = torch.rand(bags, places, device=device) < 0.2
    return {
        "table": torch.randn(rows, dim, device=device).to(torch.float16),
        "indices": torch.where(empty, torch.full_like(indices, -1), indices),
        "shares": torch.rand(bags, places, device=device),
    }


@torch.no_grad()
def run(table, indices, shares):
    used = indices >= 0
    rows = table[torch.where(used, indices, torch.zeros_like(indices)).long()].float()
    shares = torch.where(used, shares, torch.zeros_like(shares))
    return torch.bmm(shares[:, None, :], rows)[:, 0, :]
