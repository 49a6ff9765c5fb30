"""The waist: values become entries here, and entries become state again."""
