"""Reads the logits once for the losses, and twice for the gradients: the second time from the cache."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def log_sum_exp(row, columns, BLOCK: tl.constexpr):
    """Of a row that is read tile by tile, with the largest value so far."""
    largest = float("-inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(row + at, mask=at < columns, other=float("-inf"), eviction_policy="evict_last").to(tl.float32)
        found = tl.maximum(largest, tl.max(values, axis=0))
        total = total * tl.exp(largest - found) + tl.sum(tl.exp(values - found), axis=0)
        largest = found
    return largest + tl.log(total)


@triton.jit
def losses(logits, targets, loss, parts, PART: tl.constexpr, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), parts * PART
    start = logits + row.to(tl.int64) * columns
    target = tl.load(start + tl.load(targets + row)).to(tl.float32)
    tl.store(loss + row, log_sum_exp(start, columns, BLOCK) - target)


@triton.jit
def gradients(logits, targets, grad_output, grad, parts, PART: tl.constexpr, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), parts * PART
    start = row.to(tl.int64) * columns
    total = log_sum_exp(logits + start, columns, BLOCK)
    target = tl.load(targets + row)
    factor = tl.load(grad_output + row)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        values = tl.load(logits + start + at, mask=at < columns, other=0.0, eviction_policy="evict_first").to(tl.float32)
        difference = tl.exp(values - total) - tl.where(at == target, 1.0, 0.0)
        result = (difference * factor).to(grad.dtype.element_ty)
        tl.store(grad + start + at, result, mask=at < columns, eviction_policy="evict_first")


def split(columns):
    """The number of columns as a product. The second factor, which kernels know when they are compiled, says which loads
    are aligned.
    """
    part = math.gcd(columns, 8)
    return columns // part, part


def cross_entropy_forward(logits, targets):
    rows = len(logits)
    parts, part = split(logits.shape[1])
    loss = torch.empty(rows, dtype=torch.float32, device=logits.device)
    losses[(rows,)](logits, targets, loss, parts, PART=part, BLOCK=8192, num_warps=8)
    return loss


def cross_entropy_backward(logits, targets, grad_output):
    rows = len(logits)
    parts, part = split(logits.shape[1])
    grad = torch.empty_like(logits)
    gradients[(rows,)](logits, targets, grad_output, grad, parts, PART=part, BLOCK=8192, num_warps=16)
    return grad
