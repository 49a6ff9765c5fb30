"""The HTTP surface: `hansard serve`. Everything that it answers is what the app shows; pydantic lives here and nowhere else."""
