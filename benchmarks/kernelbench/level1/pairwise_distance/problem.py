"""Euclidean distances between the rows of two matrices."""

import torch
import torch.nn as nn

rows = 4096
columns = 4096
dim = 16


class Model(nn.Module):
    """sqrt(sum of squares) of the difference of each pair."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        apart = x[:, None, :] - y[None, :, :]
        return torch.sqrt((apart**2).sum(dim=-1))


def get_inputs():
    return [torch.randn(rows, dim), torch.randn(columns, dim)]


def get_init_inputs():
    return []
