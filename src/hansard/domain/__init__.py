"""The vocabulary: frozen values that compute and never fetch."""
