"""Sessions that have ended, from their directories: replayed, validated, measured, tried again."""
