"""What an answer repeats of its message: named on the record, and put together again to the letter."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hansard.deliberation.quoting import LONG, answer_of, as_json, naming, put_together
from hansard.ledger.canonical import MAX_INT, Malformed

LETTERS = st.text(st.sampled_from('ab"\\/ {}:,\n\t\x00\x7fé“😀\u2028'), max_size=6)
LONG_TEXTS = st.builds(lambda start, end: start + "ab" * 32 + end, LETTERS, LETTERS)
MEMBERS = st.one_of(
    LETTERS, LONG_TEXTS, st.text(max_size=200), st.integers(-MAX_INT, MAX_INT), st.none(), st.just(["a" * LONG])
)
TAIL = "a" * LONG


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A message's content, and an answer made of its texts, in canonical form and in others, and of anything else."""
    content = draw(st.dictionaries(st.sampled_from(("text", "focus", "rationale", "é", "")), MEMBERS, max_size=4))
    written = [as_json(each) for each in content.values()]
    written += [json.dumps(content), json.dumps(content, ensure_ascii=False), as_json(content)]
    pieces = st.one_of(st.sampled_from(written), LETTERS, LONG_TEXTS, st.text(max_size=20))
    return "".join(draw(st.lists(pieces, max_size=6))), content


@given(answers())
@example(("", {"text": TAIL}))
@example((as_json(TAIL), {"text": TAIL}))
@example((as_json(TAIL) * 3, {"text": TAIL, "focus": TAIL}))
@example((as_json({"text": TAIL, "focus": f'He said: "{TAIL}'}), {"text": TAIL, "focus": f'He said: "{TAIL}'}))
@example((as_json({"focus": f'He said: "{TAIL}', "text": TAIL}), {"text": TAIL, "focus": f'He said: "{TAIL}'}))
@example(("\ud83d" + as_json(TAIL) + "\udc00", {"text": TAIL}))
def test_an_answer_is_put_together_again_to_the_letter(made: tuple[str, dict[str, Any]]) -> None:
    answer, content = made
    named = json.loads(json.dumps(naming(answer, content)))
    assert answer_of(named, {"content": content}) == answer
    assert isinstance(named, str) or len([piece for piece in named if isinstance(piece, dict)]) <= len(content)


def test_an_answer_names_each_long_text_once_in_whatever_order_they_stand() -> None:
    text, focus, short = "x" * LONG, "y" * (2 * LONG), "z" * (LONG - 1)
    answer = json.dumps({"focus": focus, "short": short, "text": text})
    assert naming(answer + answer, {"text": text, "short": short, "focus": focus}) == [
        '{"focus": ',
        {"at": ["focus"]},
        f', "short": "{short}", "text": ',
        {"at": ["text"]},
        "}" + answer,
    ]
    # A draft that begins as the text does stands before it.
    drafted = f'"{text[:-1]}" {answer}'
    assert naming(drafted, {"text": text}) == [drafted.partition(f'"{text}"')[0], {"at": ["text"]}, "}"]


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (json.dumps({"text": "é" * LONG}), {"text": "é" * LONG}),
        ('{"text": "' + "\\/" * LONG + '"}', {"text": "/" * LONG}),
        (json.dumps({"text": "x" * LONG}), "x" * LONG),
        (json.dumps({"of": ["x" * LONG]}), {"of": ["x" * LONG]}),
    ],
)
def test_an_answer_that_was_written_otherwise_stays_whole(answer: str, content: Any) -> None:
    assert naming(answer, content) == answer
    assert answer_of(answer, {"content": content}) == answer


@pytest.mark.parametrize(
    "text",
    [
        *([{"at": path}] for path in (["nothing"], [0], 7, ["text", "x"], "text", None)),
        *([each] for each in ({"said": 1}, {"at": ["text"], "said": 1}, {}, {"quoted": 1})),
        *(["a", 7, {"at": ["text"]}], ["a", "b"], [], {"at": ["text"]}, None, 7),
    ],
    ids=repr,
)
def test_what_names_nothing_of_its_message_is_refused(text: Any) -> None:
    message = {"content": {"text": "So.", "of": [{"claim": 0.5}]}}
    assert answer_of(["a ", {"at": ["text"]}, {"at": ["of", 0]}], message) == 'a "So."{"claim":0.5}'
    with pytest.raises(Malformed):
        answer_of(text, message)


def test_pieces_that_name_one_text_ever_again_are_refused_before_they_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = {"content": {"text": "x" * 98}}
    monkeypatch.setattr("hansard.deliberation.quoting.MOST", 1_000)
    named: Any = [{"at": ["text"]}]
    assert len(answer_of(named * 10, message)) == 1_000
    with pytest.raises(Malformed, match="longer than 1,000 characters"):
        answer_of(named * 11, message)
    with pytest.raises(Malformed, match="longer than 1,000 characters"):
        put_together([{"said": 0}] * 11, [message])
