"""Two fused operators, of which the second one works in place."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.rand(channels))
        self.bias = nn.Parameter(torch.rand(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(F.group_norm(x, self.groups, self.weight, self.bias, 1e-5), inplace=True)
