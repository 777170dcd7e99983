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
        parts = zip(*(project(x).split(size, dim=2) for project in (self.q, self.k, self.v)), strict=True)
        found = []
        for q, k, v in parts:
            scores = (q[:, :, None].double() * k[:, None]).sum(dim=3) / math.sqrt(size)
            found.append(torch.softmax(scores, dim=2).float() @ v)
        return self.out(torch.cat(found, dim=2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        y = self.up(self.second(x)).double()
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * torch.pow(y, 3))))
        return x + self.down(y.float())
