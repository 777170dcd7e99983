"""Group normalisation and the swish activation."""

import torch
import torch.nn as nn

batch_size = 32
channels = 256
side = 64
groups = 32


class Model(nn.Module):
    """y * sigmoid(y) of the normalised input y."""

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


def get_inputs():
    return [2 * torch.randn(batch_size, channels, side, side) - 1]


def get_init_inputs():
    return [channels, groups]
