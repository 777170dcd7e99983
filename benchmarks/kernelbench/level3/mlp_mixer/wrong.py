"""Normalises after the patches are turned, which is over the wrong dimension."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Norm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim))
        self.bias = nn.Parameter(torch.rand(dim))

    def forward(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        variance, mean = torch.var_mean(x, dim=dim, keepdim=True, correction=0)
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.weight + self.bias


class Network(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.up = nn.Linear(size, 2 * size)
        self.down = nn.Linear(2 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class ModelNew(nn.Module):
    def __init__(self, patches: int, dim: int, depth: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(Norm(dim) for _ in range(2 * depth))
        self.of_patches = nn.ModuleList(Network(patches) for _ in range(depth))
        self.of_channels = nn.ModuleList(Network(dim) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in range(len(self.of_patches)):
            x = x + self.of_patches[block](self.norms[2 * block](x, 1).mT).mT
            x = x + self.of_channels[block](self.norms[2 * block + 1](x, 2))
        return x
