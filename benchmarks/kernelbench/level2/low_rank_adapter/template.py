import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, dim: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.matmul(x, self.base.weight.t())
        y = y + self.base.bias
        correction = self.up(self.down(x))
        y = y + 2 * correction
        return torch.relu(y)
