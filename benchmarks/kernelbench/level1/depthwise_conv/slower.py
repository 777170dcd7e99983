import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, 3, 3))
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = F.unfold(x, 3, padding=1).unflatten(1, (x.shape[1], 9))
        found = (columns * self.weight.view(-1, 9, 1)).sum(dim=2) + self.bias[:, None]
        return found.view_as(x)
