import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        weights = 1 / torch.arange(1, length + 1, dtype=x.dtype, device=x.device)
        weights = weights[:, None].expand(length, length).tril()
        return torch.stack([weights @ one for one in x])
