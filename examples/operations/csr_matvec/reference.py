import torch


def make_inputs(axes, device):
    rows, cols, entries = axes["rows"], axes["cols"], axes["entries"]
    # Rows begin at sorted random places, so that lengths are very different; every third is empty.
    places = torch.randint(0, entries + 1, (rows + 1,), device=device).sort().values
    places[2::3] = places[1::3][: places[2::3].shape[0]]
    places = places.cummax(dim=0).values
    places[0] = 0
    places[rows] = entries
    return {
        "row_starts": places.to(torch.int32),
        "columns": torch.randint(0, cols, (entries,), dtype=torch.int32, device=device),
        "elements": torch.randn(entries, device=device),
        "x": torch.randn(cols, device=device),
    }


@torch.no_grad()
def run(row_starts, columns, elements, x):
    products = elements * x[columns.long()]
    # The differences of running sums would lose digits.
    places = torch.arange(elements.shape[0], device=x.device)
    rows = torch.searchsorted(row_starts[1:].long(), places, right=True)
    return torch.zeros(row_starts.shape[0] - 1, device=x.device).index_add(0, rows, products)
