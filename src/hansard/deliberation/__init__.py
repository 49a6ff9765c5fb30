"""The second way to convene: a problem, a panel, rounds of turns, verdicts, a synthesis (the Symposium 1.0 protocol)."""
