import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, dim: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = []
        for row in x:
            correction = self.up.weight @ (self.down.weight @ row)
            found.append(torch.relu(self.base(row) + 2 * correction))
        return torch.stack(found)
