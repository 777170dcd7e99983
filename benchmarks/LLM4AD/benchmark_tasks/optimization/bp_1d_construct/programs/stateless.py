import numpy as np


def determine_next_assignment(remaining_items: np.ndarray, remaining_capacities: np.ndarray) -> tuple[int, int | None]:
    """Fills the bin that was opened last as full as can be (minimum bin slack; Gupta, Ho, 1999), the largest item
    first; when nothing fits into it any more the largest item that is left opens the next one."""
    items = sorted(remaining_items.tolist(), reverse=True)
    for number in reversed(range(len(remaining_capacities))):
        if filled := chosen(items, int(remaining_capacities[number])):
            return max(filled), number
    return items[0], None


def chosen(items, room):
    """The items that fill the room best: sums in reach are the bits of a number."""
    reached, steps = 1, []
    for size in items:
        steps.append(reached)
        reached |= reached << size & (2 << room) - 1
        if reached >> room:
            break
    level, used = reached.bit_length() - 1, []
    for size, before in zip(reversed(items[: len(steps)]), reversed(steps), strict=True):
        if not before >> level & 1:
            used.append(size)
            level -= size
    return used
