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
        batch, length, dim = x.shape
        size = dim // self.heads
        q = self.q(x).view(batch, length, self.heads, size).transpose(1, 2).contiguous()
        k = self.k(x).view(batch, length, self.heads, size).transpose(1, 2).contiguous()
        v = self.v(x).view(batch, length, self.heads, size).transpose(1, 2).contiguous()
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(size)
        powers = torch.exp(scores - scores.max(dim=3, keepdim=True).values)
        weights = powers / powers.sum(dim=3, keepdim=True)
        found = torch.matmul(weights, v).transpose(1, 2).contiguous().view(batch, length, dim)
        return self.out(found)

    def network(self, x: torch.Tensor) -> torch.Tensor:
        y = self.up(x)
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * torch.pow(y, 3))))
        return self.down(y)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.network(self.second(x))
