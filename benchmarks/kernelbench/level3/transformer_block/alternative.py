import math

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.second = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        size = x.shape[2] // self.heads
        found = []
        for q, k, v in zip(*(project(x).split(size, dim=2) for project in (self.q, self.k, self.v)), strict=True):
            scores = q @ k.transpose(1, 2) / math.sqrt(size)
            powers = torch.exp(scores - scores.max(dim=2, keepdim=True).values)
            found.append((powers @ v) / powers.sum(dim=2, keepdim=True))
        return self.out(torch.cat(found, dim=2))

    def network(self, x: torch.Tensor) -> torch.Tensor:
        y = self.up(x)
        inner = math.sqrt(2 / math.pi) * (y + 0.044715 * y * y * y)
        return self.down(y * torch.sigmoid(2 * inner))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.network(self.second(x))
