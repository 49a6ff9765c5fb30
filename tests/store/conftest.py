import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# The suite ships in the package, where pytest does not explain failed asserts unless it is asked to.
pytest.register_assert_rewrite("hansard.store.conformance")


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder where a sync costs nothing, for tests that open and close ledgers hundreds of times."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield Path(folder)
