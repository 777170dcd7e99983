import math

import torch
import torch.nn as nn


class Norm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim))
        self.bias = nn.Parameter(torch.rand(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-5) * self.weight + self.bias


class Network(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.up = nn.Linear(size, 2 * size)
        self.down = nn.Linear(2 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.up(x)
        y = y * 0.5 * (1 + torch.erf(y / math.sqrt(2)))
        return self.down(y)


class ModelNew(nn.Module):
    def __init__(self, patches: int, dim: int, depth: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(Norm(dim) for _ in range(2 * depth))
        self.of_patches = nn.ModuleList(Network(patches) for _ in range(depth))
        self.of_channels = nn.ModuleList(Network(dim) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in range(len(self.of_patches)):
            y = self.norms[2 * block](x).transpose(1, 2).contiguous()
            x = x + self.of_patches[block](y).transpose(1, 2).contiguous()
            x = x + self.of_channels[block](self.norms[2 * block + 1](x))
        return x
