"""The first five minutes: a place to start from, what works here, the demonstration."""
