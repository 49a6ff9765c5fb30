"""`python -m hansard` is the command line."""

from hansard.surfaces.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
