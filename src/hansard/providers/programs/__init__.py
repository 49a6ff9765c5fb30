"""Running somebody's program: what it is given, where it works, what it says, and that nothing of it is left."""
