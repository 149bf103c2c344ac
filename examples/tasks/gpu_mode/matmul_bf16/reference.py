import torch
from task import input_t, output_t
from utils import make_match_reference


def ref_kernel(data: input_t) -> output_t:
    rows = [(row.float().unsqueeze(1) * data["b"].float()).sum(dim=0) for row in data["a"]]
    return torch.stack(rows).to(torch.bfloat16)


def generate_input(m: int, n: int, k: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    a = torch.randn(m, k, device="cuda", generator=generator).to(torch.bfloat16)
    b = torch.randn(n, k, device="cuda", generator=generator).to(torch.bfloat16)
    # Columns of b are contiguous.
    return {"a": a, "b": b.T}


check_implementation = make_match_reference(ref_kernel, rtol=2e-2, atol=2e-2)
