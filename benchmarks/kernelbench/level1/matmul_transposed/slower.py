import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(a.shape[0], b.shape[0], dtype=a.dtype, device=a.device)
        for start in range(0, a.shape[1], 4):
            total = total + a[:, start : start + 4] @ b[:, start : start + 4].t()
        return total / a.shape[1]
