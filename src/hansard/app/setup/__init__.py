"""From settings, files and flags to what a run or a session is begun with."""
