import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(a.shape[0], b.shape[0], dtype=a.dtype, device=a.device)
        step = a.shape[1] // 32
        for start in range(0, a.shape[1], step):
            total.addmm_(a[:, start : start + step], b[:, start : start + step].t())
        return total.div_(a.shape[1])
