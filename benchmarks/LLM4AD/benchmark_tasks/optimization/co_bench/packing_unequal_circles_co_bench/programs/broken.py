import numpy as np


def solve(container_radius: float, radii: np.ndarray) -> list[tuple[float, float]]:
    """All circles along the border, at equal angles, whether there is room or not."""
    angles = np.linspace(0, 2 * np.pi, len(radii), endpoint=False)
    return [((container_radius - r) * np.cos(a), (container_radius - r) * np.sin(a)) for a, r in zip(angles, radii)]
