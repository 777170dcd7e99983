import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, 3, 3))
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[2:]
        padded = F.pad(x, (1, 1, 1, 1))
        total = self.bias[:, None, None].expand_as(x).clone()
        for i in range(3):
            for j in range(3):
                total += padded[:, :, i : i + height, j : j + width] * self.weight[:, :, i, j, None]
        return total
