import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.domain.budget import Budget
from hansard.domain.roster import Policy
from hansard.errors import StoreError
from hansard.orchestration.config import RunConfig, Tuning
from hansard.orchestration.templates import digests
from hansard.providers.prices import Price
from running import roster

COUNT = st.none() | st.integers(1, 10**12)
CONFIGS = st.builds(
    RunConfig,
    default=st.sampled_from(["a", "a:model"]),
    roster=st.sampled_from(
        [roster(), roster(alpha={"budget": Budget(max_calls=3), "max_parallel": 2, "tier": "cheap"})]
    ),
    roster_digest=st.just("ab" * 32),
    policy=st.builds(Policy, deny_lanes=st.sampled_from([(), ("beta",)]), max_parallel=st.integers(1, 100)),
    providers=st.just({"a": {"kind": "openai", "model": "m", "api_key_env": "KEY"}}),
    folder=st.just("somewhere"),
    tiers=st.sampled_from([{}, {"cheap": "a"}]),
    roles=st.sampled_from([{}, {"validator": "a:strict"}]),
    ladder=st.sampled_from([(), ("cheap", "a")]),
    budget=st.builds(
        Budget, max_calls=COUNT, max_tokens=COUNT, max_cost_usd_nano=COUNT, max_seconds=st.none() | st.floats(0.5, 1e6)
    ),
    judge=st.sampled_from(["model", "checks"]),
    answer=st.sampled_from(["synthesize", "join"]),
    tuning=st.builds(
        Tuning,
        timeout_s=st.floats(0.1, 1e5),
        retries=st.integers(0, 5),
        max_output_tokens=st.none() | st.integers(1, 10**6),
    ),
    templates=st.just(digests()),
)


@given(CONFIGS)
def test_a_snapshot_reads_back_as_what_it_was(config: RunConfig) -> None:
    assert RunConfig.from_json(config.to_json(), "entry 2") == config


def test_a_snapshot_holds_the_digest_of_every_template() -> None:
    assert set(digests()) == {"worker/1", "coordinator/1", "classifier/1", "validator/1", "synthesizer/1"}
    assert all(len(each) == 64 for each in digests().values())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"default": 5}'])
def test_what_is_no_snapshot_is_a_store_error_that_names_the_entry(data: bytes) -> None:
    with pytest.raises(StoreError, match="entry 7"):
        RunConfig.from_json(data, "entry 7")


def test_a_snapshot_whose_prices_are_no_numbers_is_a_store_error() -> None:
    priced = RunConfig(default="a", roster=roster(), prices={"a": Price(input=2, output=3)})
    good = json.loads(priced.to_json())
    assert RunConfig.from_json(priced.to_json(), "entry 7").prices == priced.prices
    for wrong in ("dear", -1, 1.5, None):
        for name in ("input", "output"):
            data = json.dumps({**good, "prices": {"a": {**good["prices"]["a"], name: wrong}}}).encode()
            with pytest.raises(StoreError, match="entry 7"):
                RunConfig.from_json(data, "entry 7")


def test_every_broken_member_of_a_snapshot_is_a_store_error_and_never_a_traceback() -> None:
    good = json.loads(RunConfig(default="a", roster=roster(), providers={"a": {"kind": "x"}}).to_json())
    for name in good:
        for wrong in (None, 17, "text", [1], {"no": "such"}):
            if name in ("default", "folder", "roster_digest") and wrong == "text":
                continue
            try:
                RunConfig.from_json(json.dumps({**good, name: wrong}).encode(), "entry 7")
            except StoreError:
                continue
