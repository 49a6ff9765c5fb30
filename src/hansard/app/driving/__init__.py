"""Runs and deliberations under way: begun, driven under a claim, decided by people, cancelled, gone on with."""
