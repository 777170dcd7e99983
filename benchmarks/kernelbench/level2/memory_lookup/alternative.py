import math

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, dim: int, slots: int, values: int) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.randn(slots, dim))
        self.values = nn.Parameter(torch.randn(slots, values))
        self.out = nn.Linear(values, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = (x / math.sqrt(x.shape[1])) @ self.keys.t()
        powers = torch.exp(scores - scores.amax(dim=1, keepdim=True))
        return self.out((powers @ self.values) / powers.sum(dim=1, keepdim=True))
