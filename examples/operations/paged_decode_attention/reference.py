import torch


def make_inputs(axes, device):
    sequences, heads, pages_each, pages = (axes[name] for name in ("sequences", "heads", "pages_each", "pages"))
    cache = (pages, 16, heads, 64)
    # Pages are anywhere, each in one sequence at most.
    order = torch.rand(pages, device=device).argsort()
    # At least a part of each sequence's last page is used.
    longest = 16 * pages_each
    lengths = longest - torch.randint(0, min(longest, 16 + longest // 4), (sequences,), device=device)
    return {
        "q": 2 * torch.randn(sequences, heads, 64, device=device).to(torch.bfloat16),
        "keys": torch.randn(cache, device=device).to(torch.bfloat16),
        "values": torch.randn(cache, device=device).to(torch.bfloat16),
        "table": order[: sequences * pages_each].view(sequences, pages_each).to(torch.int32),
        "lengths": lengths.to(torch.int32),
    }


@torch.no_grad()
def run(q, keys, values, table, lengths):
    sequences, heads, dim = q.shape
    longest = 16 * table.shape[1]
    table = table.long()
    keys = keys[table].view(sequences, longest, heads, dim).float()
    values = values[table].view(sequences, longest, heads, dim).float()
    scores = torch.einsum("shd,slhd->shl", q.float(), keys) / 8
    past = torch.arange(longest, device=q.device)[None, :] >= lengths[:, None]
    scores = scores.masked_fill(past[:, None, :], float("-inf"))
    return torch.einsum("shl,slhd->shd", torch.softmax(scores, dim=2), values).to(torch.bfloat16)
