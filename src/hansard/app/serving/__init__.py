"""What outlives a run: the daemon, workers, who may use them, and whom they tell."""
