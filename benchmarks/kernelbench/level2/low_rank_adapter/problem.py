"""A linear layer, a low-rank correction of it, and ReLU."""

import torch
import torch.nn as nn

rows = 8192
dim = 2048
rank = 256


class Model(nn.Module):
    """relu(W x + b + 2 B A x), with the two paths one after the other."""

    def __init__(self, dim: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.matmul(x, self.base.weight.t())
        y = y + self.base.bias
        correction = self.up(self.down(x))
        y = y + 2 * correction
        return torch.relu(y)


def get_inputs():
    return [torch.randn(rows, dim)]


def get_init_inputs():
    return [dim, rank]
