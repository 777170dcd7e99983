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
        found = []
        for row in x:
            scores = (self.keys * row).sum(dim=1) / math.sqrt(x.shape[1])
            found.append(torch.softmax(scores, dim=0) @ self.values)
        return self.out(torch.stack(found))
