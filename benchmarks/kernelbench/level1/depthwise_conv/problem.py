"""Convolution of each channel with a filter of its own."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 32
channels = 128
side = 64


class Model(nn.Module):
    """Nine shifted copies of the padded image, each multiplied by its weight and added up."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, 3, 3))
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[2:]
        padded = F.pad(x, (1, 1, 1, 1))
        total = torch.zeros_like(x)
        for i in range(3):
            for j in range(3):
                shifted = padded[:, :, i : i + height, j : j + width]
                total = total + shifted * self.weight[:, :, i, j, None]
        return total + self.bias[:, None, None]


def get_inputs():
    return [torch.randn(batch_size, channels, side, side)]


def get_init_inputs():
    return [channels]
