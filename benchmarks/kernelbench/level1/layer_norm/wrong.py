"""Adds 1e-5 outside of the root, and divides by one less than there are."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim))
        self.bias = nn.Parameter(torch.rand(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance, mean = torch.var_mean(x, dim=-1, keepdim=True)
        return (x - mean) / (torch.sqrt(variance) + 1e-2) * self.weight + self.bias
