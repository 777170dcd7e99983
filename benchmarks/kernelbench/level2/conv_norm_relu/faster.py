"""The normalisation is part of the weights, and ReLU works in place."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1)
        self.norm = nn.BatchNorm2d(filters)
        self.norm.eval()
        nn.init.uniform_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 1.5)

    def folded(self) -> tuple[torch.Tensor, torch.Tensor]:
        scale = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
        bias = (self.conv.bias - self.norm.running_mean) * scale + self.norm.bias
        return self.conv.weight * scale[:, None, None, None], bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self.folded()
        return F.conv2d(x, weight, bias, padding=1).relu_().mean(dim=(2, 3))
