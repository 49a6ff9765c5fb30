"""What the record tells: figures, views, pages, spans, and word of what is new. Writes nothing to it."""
