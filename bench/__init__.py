"""`make bench`: Hansard beside forum-engine 1.17.0 in one run, with ratios, targets, machine and versions.

Nothing here is installed. Each measurement runs in a fresh process, ours and the peer's in turn; the peer lives in an
environment of its own, is called through its public API, and is never read.
"""
