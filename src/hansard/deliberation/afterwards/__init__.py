"""What can be done with sessions that have been held: held against the rules, replayed, measured against each other."""
