import torch


def custom_kernel(data):
    return data.shape[1] - 1 - data.float().flip(1).argmax(dim=1)
