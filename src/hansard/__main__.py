"""The command line in a process of its own: `hansard`, and `python -m hansard`."""

import gc
import sys


def program() -> int:
    """Run one command. It is loaded in here, since whoever thinks better of it meanwhile wants to see no traceback."""
    try:
        from hansard.surfaces.cli.main import collect_seldom, main

        collect_seldom()
        return main()
    except KeyboardInterrupt:
        print("hansard: interrupted", file=sys.stderr)
        return 130
    finally:
        # At the end Python looks through everything for what may be freed, which takes as long as many a command.
        gc.freeze()


if __name__ == "__main__":
    raise SystemExit(program())
