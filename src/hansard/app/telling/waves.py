"""Waves: a way to show a plan. Tasks start as soon as their own inputs have passed."""

from collections.abc import Mapping, Sequence


def levels(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many steps lie before each task. What waits for itself, or for what is not there, has no place."""
    found: dict[str, int] = {}
    waiting = [id for id, each in needs.items() if not each]
    left = {id: len(each) for id, each in needs.items()}
    consumers: dict[str, list[str]] = {}
    for id, each in needs.items():
        for need in each:
            consumers.setdefault(need, []).append(id)
    while waiting:
        id = waiting.pop()
        found[id] = max((found[need] + 1 for need in needs[id]), default=0)
        for consumer in consumers.get(id, ()):
            left[consumer] -= 1
            if not left[consumer]:
                waiting.append(consumer)
    return found
