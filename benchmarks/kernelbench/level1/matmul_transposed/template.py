import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(a.shape[0], b.shape[0], dtype=a.dtype, device=a.device)
        step = a.shape[1] // 64
        for start in range(0, a.shape[1], step):
            total = total + a[:, start : start + step] @ b[:, start : start + step].transpose(0, 1).contiguous()
        return total / a.shape[1]
