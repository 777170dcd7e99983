import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.rand(channels))
        self.bias = nn.Parameter(torch.rand(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        grouped = x.view(batch, self.groups, channels // self.groups, height, width)
        mean = grouped.mean(dim=(2, 3, 4), keepdim=True)
        variance = ((grouped - mean) ** 2).mean(dim=(2, 3, 4), keepdim=True)
        y = ((grouped - mean) / torch.sqrt(variance + 1e-5)).view(batch, channels, height, width)
        y = y * self.weight[:, None, None] + self.bias[:, None, None]
        return y * torch.sigmoid(y)
