"""`python -m hansard` is the command line."""

from hansard.surfaces.cli.main import program

if __name__ == "__main__":
    raise SystemExit(program())
