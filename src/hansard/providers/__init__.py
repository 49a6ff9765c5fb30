"""How to ask a model: one small seam, and what stands on both sides of it. Knows no plan, no panel and no ledger."""
