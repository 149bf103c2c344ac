import torch


def make_inputs(axes, device):
    tokens, experts = axes["tokens"], axes["experts"]
    # No two logits of a token are equal, so that there is one right choice.
    ranks = torch.rand(tokens, experts, device=device).argsort(dim=1).argsort(dim=1)
    jitter = 0.8 * torch.rand(tokens, experts, device=device)
    return {"logits": 6 * (ranks + jitter) / experts - 5}


@torch.no_grad()
def run(logits):
    top, chosen = torch.topk(logits, 4, dim=1)
    return torch.softmax(top, dim=1), chosen.to(torch.int32)
