"""Checkpoint bodies against real logs' checkpoints and the ways in which a body can be wrong."""

from base64 import b64decode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.ledger import merkle
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import Checkpoint, format_checkpoint, parse_checkpoint, parse_decimal
from hansard.ledger.note import VerifierKey, open_note, parse_note
from vectors import file, load

SUMDB_KEY = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"
SUMDB_NOTE = (
    "go.sum database tree\n35225469\nvt5T6GaLCXvyHFl9VUvvItR43XZxfLgftEcTyO3eJCQ=\n\n"
    "— sum.golang.org Az3grpukl5AXaVfYkLiDGORx/DN2nlcS5kZHR5uYOBV2KA2HgXpD+gu9HHONebHLAyaKbbTM75QTtPydhKCExixSfwQ=\n"
)
TESSERA = "tessera-tiles-log/testdata/log"
TESSERA_KEY = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"
ROOT = sha256(b"root").digest()
BODY = format_checkpoint("log.example", 20852163, ROOT)


def test_the_checkpoint_that_sum_golang_org_signed_opens_and_reads() -> None:
    opened = open_note(parse_note(SUMDB_NOTE), [VerifierKey.parse(SUMDB_KEY)])
    assert [key.name for key in opened.verified] == ["sum.golang.org"]
    checkpoint = parse_checkpoint(opened.text)
    assert (checkpoint.origin, checkpoint.size, checkpoint.extensions) == ("go.sum database tree", 35225469, ())
    assert format_checkpoint(checkpoint.origin, checkpoint.size, checkpoint.root) == opened.text


def test_the_same_checkpoint_with_one_digit_changed_does_not_open() -> None:
    with pytest.raises(Malformed, match="does not hold"):
        open_note(parse_note(SUMDB_NOTE.replace("35225469", "35225468")), [VerifierKey.parse(SUMDB_KEY)])


def test_the_published_copy_of_that_checkpoint_is_the_one_above() -> None:
    assert (load("sumdb/checkpoint.json")["vkey"], load("sumdb/checkpoint.json")["note"]) == (SUMDB_KEY, SUMDB_NOTE)


def test_all_sixteen_tessera_checkpoints_are_signed_by_its_key() -> None:
    folder, key = file(TESSERA), VerifierKey.parse(TESSERA_KEY)
    for size in range(16):
        opened = open_note(parse_note((folder / f"checkpoint.{size}").read_bytes()), [key])
        checkpoint = parse_checkpoint(opened.text)
        assert opened.verified == (key,)
        assert (checkpoint.origin, checkpoint.size) == (key.name, size)
        assert size or checkpoint.root == merkle.EMPTY_ROOT
    assert (folder / "checkpoint").read_bytes() == (folder / "checkpoint.15").read_bytes()


def test_tesseras_own_state_names_the_size_and_root_of_its_last_checkpoint() -> None:
    state = load(f"{TESSERA}/.state/treeState")
    last = parse_checkpoint(parse_note(file(f"{TESSERA}/checkpoint").read_bytes()).text)
    assert (last.size, last.root) == (state["size"], b64decode(state["root"]))


def test_go_tree_texts_are_checkpoints_unless_a_number_is_bad() -> None:
    vectors = load("go-sumdb/note_and_tlog.json")
    tree = parse_checkpoint(vectors["tree"]["text"])
    assert tree.size == vectors["tree"]["size"]
    assert tree.root == merkle.leaf_hash(vectors["tree"]["root_is_leaf_hash_of"].encode())
    other_origin, *malformed = vectors["bad_trees"]
    # Go knows one origin only; for us an origin is the caller's to compare.
    assert parse_checkpoint(other_origin).origin != tree.origin
    for text in malformed:
        with pytest.raises(Malformed):
            parse_checkpoint(text)


def test_the_checkpoint_of_the_specification_reads() -> None:
    text = parse_note(load("c2sp-spec-examples/examples.json")["checkpoint_syntax_only"]).text
    checkpoint = parse_checkpoint(text)
    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20852163)


REKOR_MALFORMED = {
    "rekor2-checkpoint-missing-log-signature_fail",
    "rekor2-checkpoint-missing-origin_fail",
    "rekor2-checkpoint-missing-root-hash_fail",
    "rekor2-checkpoint-missing-size_fail",
}


def test_rekor_checkpoints_read_with_their_extension_lines_and_name_the_proven_root() -> None:
    malformed, other_root, extended = set(), set(), 0
    for case in load("rekor/inclusion_proofs.json"):
        if case["checkpoint"] is None:
            continue
        try:
            checkpoint = parse_checkpoint(parse_note(case["checkpoint"]).text)
        except Malformed:
            malformed.add(case["case"])
            continue
        extended += any(line.startswith("Timestamp: ") for line in checkpoint.extensions)
        if (checkpoint.size, checkpoint.root) != (int(case["tree_size"]), b64decode(case["root_base64"])):
            other_root.add(case["case"])
    assert malformed == REKOR_MALFORMED
    assert other_root == {"checkpoint-wrong-roothash_fail"}
    assert extended == 17


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        BODY[:-1],
        BODY + "\n",
        "\n" + BODY,
        BODY.replace("log.example", ""),
        BODY.replace("20852163", "020852163"),
        BODY.replace("20852163", "-1"),
        BODY.replace("20852163", "+1"),
        BODY.replace("20852163", "1_0"),
        BODY.replace("20852163", "٣"),
        BODY.replace("20852163", " 1"),
        BODY.replace("20852163", "9007199254740992"),
        BODY.replace("20852163", "9" * 5000),
        BODY.replace("=\n", "\n"),
        BODY.replace("=\n", "==\n"),
        "log.example\n1\nAAAA\n",
        BODY.replace("\n", "\r\n"),
        "log\x00\n1\n" + BODY.split("\n")[2] + "\n",
        "log.example\n1\n",
    ],
)
def test_a_body_that_strays_from_the_form_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        parse_checkpoint(text)


def test_extension_lines_are_kept() -> None:
    assert parse_checkpoint(BODY + "one\ntwo \n").extensions == ("one", "two ")


@given(st.text(max_size=20), st.integers(min_value=-1, max_value=2**64), st.binary(min_size=30, max_size=33))
def test_what_is_written_reads_back(origin: str, size: int, root: bytes) -> None:
    try:
        text = format_checkpoint(origin, size, root)
    except Malformed:
        odd = not origin or any(each < " " or "\ud800" <= each <= "\udfff" for each in origin)
        assert odd or len(root) != 32 or not 0 <= size < 2**53
    else:
        assert parse_checkpoint(text) == Checkpoint(origin=origin, size=size, root=root)


def test_an_origin_of_two_lines_is_not_written() -> None:
    with pytest.raises(Malformed, match="one line"):
        format_checkpoint(f"a\n1\n{BODY.split()[2]}", 1, ROOT)
    with pytest.raises(Malformed):
        format_checkpoint("a\nb", 1, ROOT)


@given(st.text() | st.text().map(lambda tail: BODY + tail))
def test_any_text_is_a_checkpoint_or_refused(text: str) -> None:
    try:
        found = parse_checkpoint(text)
    except Malformed:
        return
    extensions = "".join(f"{line}\n" for line in found.extensions)
    assert format_checkpoint(found.origin, found.size, found.root) + extensions == text


def test_a_decimal_is_plain_digits_below_2_to_the_53() -> None:
    assert [parse_decimal(text, "it") for text in ("0", "7", "9007199254740991")] == [0, 7, 2**53 - 1]
    for text in ("", "00", "01", "1 ", "1\n", "１", "9007199254740992", "9223372036854775807"):
        with pytest.raises(Malformed, match="it is not a decimal"):
            parse_decimal(text, "it")
