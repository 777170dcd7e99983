import random

PLAN = []


def select_next_subset(
    selected_subsets: list[list[int]], remaining_subsets: list[list[int]], remaining_elements: list[int]
) -> int:
    """Follows a cover planned at the first call: randomised greedy (a GRASP; Feo and Resende, 1989), each time from the
    best cover with a part of it thrown away, subsets that became superfluous left out."""
    if not selected_subsets:
        PLAN[:] = planned(remaining_subsets, remaining_elements)
    return remaining_subsets.index(PLAN[len(selected_subsets)])


def planned(subsets, elements):
    rng = random.Random(1)
    masks = [sum(1 << e for e in subset) for subset in subsets]
    full = sum(1 << e for e in elements)
    best = current = slim(completed([], masks, full, rng, 0.0), masks, full)
    for _ in range(400):
        kept = [i for i in current if rng.random() > 0.4]
        moved = slim(completed(kept, masks, full, rng, 0.9), masks, full)
        if len(moved) <= len(current):
            current = moved
        if len(moved) < len(best):
            best = moved
    return [subsets[i] for i in best]


def completed(chosen, masks, full, rng, noise):
    chosen, missing = list(chosen), full
    for i in chosen:
        missing &= ~masks[i]
    while missing:
        chosen.append(max(range(len(masks)), key=lambda i: (masks[i] & missing).bit_count() + noise * rng.random()))
        missing &= ~masks[chosen[-1]]
    return chosen


def slim(chosen, masks, full):
    for i in sorted(chosen, key=lambda i: masks[i].bit_count()):
        rest = 0
        for j in chosen:
            if j != i:
                rest |= masks[j]
        if rest & full == full:
            chosen = [j for j in chosen if j != i]
    return chosen
