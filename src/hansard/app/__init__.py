"""One service for every surface."""
