"""A recorded run, run again with recorded answers in place of the world."""
