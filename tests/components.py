"""What a test says when it needs a real component: a database server, a tracer, a compiler, root.

It judges presence only; how a component is started belongs to the test that uses it.
"""

import os

import pytest


def need(condition: bool, what: str) -> None:
    """Go on when the component is there; otherwise fail in CI, and skip visibly elsewhere.

    `what` names the component and how to get it: "strace (apt install strace)".
    """
    if condition:
        return
    message = f"this test needs {what}"
    if os.environ.get("CI"):
        pytest.fail(f"{message}, and in CI it must be there", pytrace=False)
    pytest.skip(message)
