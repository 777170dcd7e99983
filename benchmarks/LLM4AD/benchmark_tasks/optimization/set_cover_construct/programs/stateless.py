import numpy as np

NEAR = 40
POWERS = (0.0, 0.5, 1.0)


def select_next_subset(
    selected_subsets: list[list[int]], remaining_subsets: list[list[int]], remaining_elements: list[int]
) -> int:
    """Rollout (Bertsekas, Tsitsiklis, Wu, 1997): for each of the subsets with the most elements that are not covered
    yet the cover is completed greedily, where elements count for more if few subsets have them, and what became
    superfluous is left out. The choice that needs the fewest subsets is made."""
    has = np.zeros((len(remaining_subsets), 1 + max(remaining_elements)))
    for number, subset in enumerate(remaining_subsets):
        has[number, [element for element in subset if element < has.shape[1]]] = 1.0
    has = has[:, remaining_elements]
    weights = [has.sum(axis=0) ** -power for power in POWERS]
    offered = np.argsort(-has.sum(axis=1), kind="stable")[:NEAR].tolist()
    return min(offered, key=lambda number: min(completed(has, number, weight) for weight in weights))


def completed(has, number, weight):
    """How many subsets a greedy cover has that begins with one of them."""
    chosen, missing = [number], has[number] == 0
    while missing.any():
        chosen.append(int((has @ (weight * missing)).argmax()))
        missing &= has[chosen[-1]] == 0
    times = has[chosen].sum(axis=0)
    for number in chosen[::-1]:
        if (times[has[number] > 0] > 1).all():
            chosen.remove(number)
            times -= has[number]
    return len(chosen)
