import dataclasses
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from hansard.domain.council import PanelSelected, TurnFailed
from hansard.domain.fact import TEXT_WITH_SURROGATES, Body, Fact
from hansard.domain.kinds import KINDS
from hansard.domain.value import value
from hansard.domain.work import RunEnded, RunRequested, RunRouted
from hansard.errors import HansardError, UsageError
from hansard.ledger.body import SALT_BYTES, digest
from hansard.ledger.entry import Entry
from hansard.record import codec
from hansard.record.draft import Drafter
from hansard.record.encoder import fastest
from hansard.record.quick import compile_check
from ledgers import draft, memory


def sample(kind: type[Fact], *, full: bool) -> Fact:
    """A fact of this kind with every field set, or only those that must be."""
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if full or field.default is dataclasses.MISSING:
            values[field.name] = _value(hints[field.name])
    return kind(**values)


def _value(hint: Any) -> Any:
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    if get_origin(hint) is tuple:
        return tuple(_value(get_args(hint)[0]) for _ in range(2))
    if get_args(hint):
        return _value(next(each for each in get_args(hint) if each is not type(None)))
    return {int: 7, bool: True, str: "word", Body: Body.text("text")}[hint]


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_goes_through_a_store_and_comes_back(kind: str, full: bool) -> None:
    fact = sample(KINDS[kind], full=full)
    store = memory()
    claim = store.claim("r1", 15)
    [outcome] = store.append([[draft(fact, run="r1", fence=("r1", claim.epoch))]])
    assert not isinstance(outcome, HansardError)
    entry = store.entry(outcome[0].seq)
    bodies = {}
    for part in entry.body:
        stored = store.body(entry.seq, part)
        assert stored is not None
        bodies[part] = Body(stored.media, stored.body)
    assert codec.decode(entry, bodies) == fact
    assert codec.misfit(entry._replace(causes=(0,))) is None


@pytest.mark.parametrize(
    ("field", "wrong", "why"),
    [
        ("agents", None, "agents is not a list"),
        ("agents", "ada", "agents is not a list"),
        ("agents", ["ada", 7], "agents holds something that is not text"),
        ("coordinator", 7, "coordinator is not text"),
        ("prompt_tokens", None, "prompt_tokens is not a number"),
        ("prompt_tokens", True, "prompt_tokens is not a number"),
        ("strategy", "by lot", None),
        ("since", "a later version", None),
    ],
)
def test_what_no_recorder_writes_is_told_and_what_a_later_one_may_write_is_not(
    field: str, wrong: Any, why: str | None
) -> None:
    entry = stored(sample(PanelSelected, full=True))
    assert codec.misfit(entry._replace(data={**entry.data, field: wrong})) == why


def test_an_entry_that_lacks_a_field_or_its_cause_is_told_and_an_unknown_kind_is_not() -> None:
    entry = stored(sample(PanelSelected, full=False))
    lacking = {name: each for name, each in entry.data.items() if name != "coordinator"}
    assert codec.misfit(entry._replace(data=lacking)) == "coordinator is missing"
    assert codec.misfit(entry._replace(causes=())) == "it names no cause"
    later = entry._replace(kind="panel.dissolved", causes=(), data={})
    assert codec.misfit(later) is None
    with pytest.raises(UsageError, match=r"of kind panel\.dissolved, which this version of Hansard does not know"):
        codec.decode(later, {})


def stored(fact: Fact) -> Entry:
    """The entry of a fact that names a cause, as a store gives it."""
    store = memory()
    claim = store.claim("r1", 15)
    [outcome] = store.append([[draft(fact, run="r1", causes=(0,), fence=("r1", claim.epoch))]])
    assert not isinstance(outcome, HansardError)
    return store.entry(outcome[0].seq)


def request(**changes: Any) -> RunRequested:
    values: dict[str, Any] = {"mode": "request", "surface": "cli", "request": Body.text("x")}
    return RunRequested(**values | changes)


def selected(agents: Any) -> PanelSelected:
    return PanelSelected(strategy="fixed", agents=agents, coordinator="chair", selection=Body.text(""))


@pytest.mark.parametrize(
    ("fact", "word"),
    [
        (request(mode="banana"), "mode"),
        (request(mode=1), "mode"),
        (request(request="text"), "request"),
        (request(request=Body("text/plain", None)), "request"),
        (RunEnded(state="answered", reason="x" * 257, calls=0, tokens=0, cost_usd_nano=0, elapsed_us=0), "reason"),
        (RunEnded(state="answered", reason="x", calls=True, tokens=0, cost_usd_nano=0, elapsed_us=0), "calls"),
        (RunEnded(state="answered", reason="x", calls=1.0, tokens=0, cost_usd_nano=0, elapsed_us=0), "calls"),  # type: ignore[arg-type]
        (RunEnded(state="answered", reason="x", calls=2**53, tokens=0, cost_usd_nano=0, elapsed_us=0), "calls"),
        (RunRouted(tier=0, lane=3, confidence_ppm=1, evidence=Body.text("")), "lane"),  # type: ignore[arg-type]
        (selected(("ada", 7)), "agents must hold only str"),
        (selected(("ada", "x" * 257)), "agents has 257 characters"),
    ],
)
def test_a_field_of_the_wrong_form_is_refused_and_named(fact: Fact, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        codec.encode(fact)


def test_a_lone_surrogate_in_data_is_refused_with_a_clear_message() -> None:
    fact = RunEnded(state="answered", reason="\ud800", calls=0, tokens=0, cost_usd_nano=0, elapsed_us=0)
    for maker in (Drafter(), Drafter(fastest())):
        with pytest.raises(UsageError, match=r"run\.ended cannot be recorded"):
            maker.draft(fact, actor="a", run="r", causes=(), fence=("r", 1))


def test_a_lone_surrogate_in_a_body_goes_in_and_comes_back() -> None:
    body = Body.text("broken \ud800 pair")
    assert body.media == TEXT_WITH_SURROGATES
    assert body.as_text() == "broken \ud800 pair"


def test_a_driven_kind_without_a_claim_is_refused() -> None:
    with pytest.raises(UsageError, match="claim"):
        draft(TurnFailed(agent="a", attempt=1, error="timeout", retriable=True, prompt_tokens=0, completion_tokens=0,
                         cost_usd_nano=0, elapsed_us=0, result=Body.text("")), run="r")  # fmt: skip


def test_an_unknown_kind_is_refused_on_writing() -> None:
    @value
    class Invented(Fact):
        KIND = "run.invented"

    with pytest.raises(HansardError, match="Invented"):
        codec.encode(Invented())


def test_the_same_body_twice_gives_two_commitments() -> None:
    first, second = (draft(request()) for _ in range(2))
    assert first.sketch.head != second.sketch.head
    assert first.parts[0].salt != second.parts[0].salt


def test_no_two_bodies_of_a_process_share_a_salt() -> None:
    maker = Drafter()
    salts = [
        part.salt
        for _ in range(600)
        for part in maker.draft(request(), actor="human:a", run="r", causes=(), fence=None).parts
    ]
    assert {len(each) for each in salts} == {SALT_BYTES}
    assert len(set(salts)) == len(salts) == 600


def test_a_draft_knows_the_digests_of_its_bodies() -> None:
    for part in draft(request()).parts:
        assert part.digest == digest(part.media, part.body)


@pytest.mark.parametrize("actor", ["", "a b", "x\u001fy", "mail@example.org", "é"])
def test_an_actor_that_is_not_an_opaque_id_is_refused(actor: str) -> None:
    with pytest.raises(UsageError, match="actor"):
        draft(request(), actor=actor)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_quick_check_gives_what_the_definition_gives_or_leaves_it_to_it(kind: str, full: bool) -> None:
    fact = sample(KINDS[kind], full=full)
    quick = compile_check(codec.shape_of(type(fact)))(fact)
    lists = any(field.want is tuple and getattr(fact, field.name) for field in codec.shape_of(type(fact)).data)
    assert quick is None if lists else quick == codec.encode(fact)[1:]


@pytest.mark.parametrize(
    "wrong", [None, 1.5, "x" * 257, "\ud800", True, 2**53, -(2**53), b"", ("a",), [], Body.text("x"), Body("a", None)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_value_in_any_field_is_refused_by_both_ways_alike(kind: str, wrong: object) -> None:
    good = sample(KINDS[kind], full=True)
    for field in dataclasses.fields(good):
        fact = dataclasses.replace(good, **{field.name: wrong})
        try:
            defined = codec.encode(fact)[1:]
        except UsageError:
            assert compile_check(codec.shape_of(type(fact)))(fact) is None
        else:
            assert compile_check(codec.shape_of(type(fact)))(fact) in (None, defined)
