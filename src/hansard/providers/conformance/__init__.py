"""The one suite that every provider passes, ours and anybody's. Knows the seam and the contract, and no vendor.

Subclass in a test file, give it a provider for each behaviour, and pytest collects the rest:

    class TestMine(ProviderConformance):
        def make(self, behaviour): return MyProvider(id="mine", server=pretend(behaviour))
        def at_work(self): return pretend.open_connections

`LiveConformance` is for what answers as it likes, such as a real model: there nothing is asserted about the words.
`ProviderConformance` is for a world that can be told what to do. A behaviour that cannot be brought about is refused by
raising `cannot("why")`, which skips the test visibly. Nothing here needs pytest, but the checks are plain asserts: do not
run it with -O, and call pytest.register_assert_rewrite("hansard.providers.conformance") first to have failures explained.
"""

from hansard.providers.conformance.bench import Behaviour, Bench, cannot, question
from hansard.providers.conformance.controlled import Failing, Saying
from hansard.providers.conformance.live import LiveConformance

__all__ = ["Behaviour", "Bench", "LiveConformance", "ProviderConformance", "cannot", "question"]


class ProviderConformance(LiveConformance, Saying, Failing):
    """What holds for every provider; give it `make`, and `at_work` where the work behind it can be seen."""
