"""A ledger as such: read, verified, vouched for, carried elsewhere."""
