from pathlib import Path
from tempfile import TemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hansard.ledger.canonical import Malformed
from hansard.store.base import Part, StoredBody
from hansard.store.jsonl.bodies import all_but, decode_body, encode_body, find_body, key_at, read_body
from hansard.store.jsonl.checkpoints import decode_checkpoint

SALT = "ab" * 32
media_types = some.text(some.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=127)
parts = some.builds(
    Part,
    some.from_regex("[a-z][a-z0-9_]{0,31}", fullmatch=True),
    media_types,
    some.binary(min_size=32, max_size=32),
    some.one_of(
        some.binary(max_size=64), some.text(max_size=64).map(lambda text: text.encode("utf-8", "surrogatepass"))
    ),
)


@given(some.integers(0, 2**53 - 1), parts)
def test_a_body_line_gives_back_what_was_written_and_names_it_without_being_read(seq: int, part: Part) -> None:
    line = encode_body(seq, part)
    assert line.count(b"\n") == 1
    wanted = StoredBody(seq=seq, part=part.name, media=part.media, salt=part.salt, body=part.body)
    assert decode_body(line[:-1]) == wanted
    with TemporaryFile() as file:
        file.write(b"{}\n" + line)
        file.flush()
        assert key_at(file.fileno(), 3) == (seq, part.name)


@given(some.lists(some.tuples(some.integers(0, 9), parts), max_size=12, unique_by=lambda each: (each[0], each[1].name)))
def test_each_body_is_found_where_it_lies_and_no_other(bodies: list[tuple[int, Part]]) -> None:
    ordered = sorted(bodies, key=lambda each: (each[0], each[1].name))
    lines = [encode_body(seq, part) for seq, part in ordered]
    with TemporaryFile() as file:
        file.write(b"".join(lines) + b'{"media":"torn')
        file.flush()
        fd = file.fileno()
        for at, (seq, part) in enumerate(ordered):
            place = find_body(fd, (seq, part.name))
            assert place is not None
            assert read_body(fd, place).body == part.body
            assert b"".join(all_but(fd, [place], len(b"".join(lines)))) == b"".join(lines[:at] + lines[at + 1 :])
        assert find_body(fd, (10, "a")) is None
        assert find_body(fd, (-1, "a")) is None


def test_large_bodies_are_found_beside_small_ones(tmp_path: Path) -> None:
    sizes = (0, 700_000, 3, 4_096, 262_144, 1 << 20, 1)
    wanted = [Part("p", "a/b", bytes(32), (b"\xff" if at % 2 else b"x") * size) for at, size in enumerate(sizes)]
    path = tmp_path / "bodies"
    path.write_bytes(b"".join(encode_body(seq, part) for seq, part in enumerate(wanted)))
    with path.open("rb") as file:
        for seq, part in enumerate(wanted):
            place = find_body(file.fileno(), (seq, "p"))
            assert place is not None
            assert read_body(file.fileno(), place).body == part.body


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        "[]",
        f'{{"media":"a/b","part":"p","salt":"{SALT}","seq":1}}',
        f'{{"b64":"eA==","media":"a/b","part":"p","salt":"{SALT}","seq":1,"text":"x"}}',
        f'{{"media":"a/b","more":1,"part":"p","salt":"{SALT}","seq":1,"text":"x"}}',
        f'{{"b64":"eA","media":"a/b","part":"p","salt":"{SALT}","seq":1}}',
        f'{{"b64":"?A==","media":"a/b","part":"p","salt":"{SALT}","seq":1}}',
        '{"media":"a/b","part":"p","salt":"xy","seq":1,"text":"x"}',
        f'{{"media":"a/b","part":"p","salt":"{SALT}","seq":"1","text":"x"}}',
        f'{{"part":"p","media":"a/b","salt":"{SALT}","seq":1,"text":"x"}}',
        f'{{"media":"a/b","part":"p","salt":"{SALT}","seq":1.5,"text":"x"}}',
    ],
)
def test_a_line_that_is_no_body_is_malformed(line: str) -> None:
    with pytest.raises(Malformed):
        decode_body(line.encode())


@pytest.mark.parametrize(
    "line", ["", "{}", '{"note":1}', '{"note":"a"}', '{"note":"a\\n01\\n"}', '{"note":"a\\n1\\n","x":1}']
)
def test_a_line_that_is_no_checkpoint_is_malformed(line: str) -> None:
    with pytest.raises(Malformed):
        decode_checkpoint(line.encode())
