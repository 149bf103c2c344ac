import torch
from task import input_t, output_t


def ref_kernel(data: input_t) -> output_t:
    # bfloat16 has many ties.
    best = []
    for row in data:
        best.append(int((row == row.max()).nonzero()[0]))
    return torch.tensor(best, dtype=torch.int64, device=data.device)


def generate_input(rows: int, columns: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    return torch.randn(rows, columns, device="cuda", generator=generator).mul_(4).round_().to(torch.bfloat16)


def check_implementation(data: input_t, output: output_t) -> str:
    if output.shape != (data.shape[0],) or output.dtype != torch.int64:
        return "not one int64 for each row"
    if not bool(((output >= 0) & (output < data.shape[1])).all()):
        return "a position is outside its row"
    found = data.gather(1, output.unsqueeze(1)).squeeze(1)
    wrong = int((found != data.max(dim=1).values).sum())
    return f"{wrong} rows have larger elements" if wrong else ""
