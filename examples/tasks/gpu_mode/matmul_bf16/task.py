from typing import TypedDict, TypeVar

import torch


class Matrices(TypedDict):
    a: torch.Tensor
    b: torch.Tensor


input_t = TypeVar("input_t", bound=Matrices)
output_t = TypeVar("output_t", bound=torch.Tensor)
