import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[:, : step + 1].mean(dim=1) for step in range(x.shape[1])], dim=1)
