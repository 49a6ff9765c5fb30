"""The ways in: thin, and all over one service."""
