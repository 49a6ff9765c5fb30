"""What callers call the things that they ask for: a flag where somebody typed it, the name of a field everywhere else."""

FLAGS = {"gates": "--gate", "experts": "--expert"}
"""Flags that do not bear the name of their field."""


def spelled(name: str, *, typed: bool) -> str:
    """How a caller wrote the field of this name."""
    return FLAGS.get(name, f"--{name.replace('_', '-')}") if typed else name
