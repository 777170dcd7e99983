"""A weighted mean of stored values, with weights by a softmax of similarities, and a projection of it."""

import math

import torch
import torch.nn as nn

batch_size = 8192
dim = 256
slots = 4096
values = 1024


class Model(nn.Module):
    """out(softmax(x keys^T / sqrt(dim)) values)."""

    def __init__(self, dim: int, slots: int, values: int) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.randn(slots, dim))
        self.values = nn.Parameter(torch.randn(slots, values))
        self.out = nn.Linear(values, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(x, self.keys.t())
        scores = scores / math.sqrt(x.shape[1])
        scores = scores - scores.max(dim=1, keepdim=True).values
        powers = torch.exp(scores)
        weights = powers / powers.sum(dim=1, keepdim=True)
        return self.out(torch.matmul(weights, self.values))


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return [dim, slots, values]
