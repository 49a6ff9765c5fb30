"""The one suite that every store passes, ours and anybody's. Knows the port and the format, and no engine.

Subclass in a test file and give it a store; pytest collects the rest:

    class TestMine(DurableConformance):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path): self.path = tmp_path / "log"

        def make(self, genesis, clock): return MyStore.create(self.path, genesis, clock=clock)
        def reopen(self, store, clock): store.close(); return MyStore.open(self.path, clock=clock)

`StoreConformance` is for every store, `DurableConformance` for what outlives its process, `SharedConformance` for what
several processes may extend at once. Nothing here needs pytest, but the checks are plain asserts: do not run it with -O,
and call pytest.register_assert_rewrite("hansard.store.conformance") first to have failures explained.
"""

from hansard.store.conformance.appending import Appending
from hansard.store.conformance.bodies import Bodies
from hansard.store.conformance.coordination import Checkpoints, Claims, Fences
from hansard.store.conformance.durable import Durable, Shared
from hansard.store.conformance.reading import Lines, Selecting, Waiting
from hansard.store.conformance.sample import Clock
from hansard.store.conformance.tree import Tree

__all__ = ["Clock", "DurableConformance", "SharedConformance", "StoreConformance"]


class StoreConformance(Appending, Tree, Lines, Selecting, Waiting, Bodies, Fences, Checkpoints, Claims):
    """What holds for every store; give it `make`, and `pass_time` when leases run by another clock than the writer's."""


class DurableConformance(StoreConformance, Durable):
    """What also holds for a store that outlives its process; give it `reopen` as well."""


class SharedConformance(DurableConformance, Shared):
    """What also holds for a store that several processes may extend at once; give it `join` as well."""
