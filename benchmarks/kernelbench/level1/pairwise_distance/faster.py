"""No tensor of all differences is made."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
