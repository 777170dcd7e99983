"""A convolution, batch normalisation as in inference, ReLU, and a mean over the image."""

import torch
import torch.nn as nn

batch_size = 256
channels = 16
filters = 64
side = 128


class Model(nn.Module):
    """mean(relu(norm(conv(x))))."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1)
        self.norm = nn.BatchNorm2d(filters)
        self.norm.eval()
        nn.init.uniform_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        mean, variance = self.norm.running_mean[:, None, None], self.norm.running_var[:, None, None]
        y = (y - mean) / torch.sqrt(variance + self.norm.eps)
        y = y * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]
        return torch.relu(y).mean(dim=(2, 3))


def get_inputs():
    return [torch.randn(batch_size, channels, side, side)]


def get_init_inputs():
    return [channels, filters]
