"""Divides by the position, counted from zero, and leaves the first position as it is."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        counts = torch.arange(x.shape[1], dtype=x.dtype, device=x.device).clamp_min_(1)
        return torch.cumsum(x, dim=1).div_(counts[:, None])
