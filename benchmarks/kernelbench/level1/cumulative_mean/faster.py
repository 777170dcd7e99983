"""One addition for each value, in place of a product with a matrix of which half is zero."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)
        return torch.cumsum(x, dim=1).div_(counts[:, None])
