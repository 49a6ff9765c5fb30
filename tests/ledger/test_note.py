"""Signed notes and verifier keys against the C2SP and Go examples, and notes broken by hand."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from hansard.ledger.canonical import Malformed
from hansard.ledger.note import (
    Note,
    Opened,
    Signature,
    VerifierKey,
    cosignature_message,
    format_note,
    key_id_of,
    open_note,
    parse_note,
    parse_signature,
)
from vectors import load

PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
ENOCH = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
BY_PETER = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
BY_ENOCH = "— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n"
SIGNED = f"{TEXT}\n{BY_PETER}{BY_ENOCH}"
SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
WITNESS = VerifierKey.cosigner("witness.example/w", SIGNER.public_key().public_bytes_raw())
LOG = VerifierKey.ed25519("log.example", SIGNER.public_key().public_bytes_raw())
NAMES = st.text(min_size=1, max_size=20).filter(lambda name: "+" not in name and not any(c.isspace() for c in name))


def opened(note: bytes | str, *keys: str) -> Opened:
    return open_note(parse_note(note), [VerifierKey.parse(key) for key in keys])


def cosignature(text: str, time_s: int) -> Signature:
    blob = time_s.to_bytes(8, "big") + SIGNER.sign(cosignature_message(text, time_s))
    return Signature(name=WITNESS.name, key_id=WITNESS.key_id, blob=blob)


def signature(text: str) -> Signature:
    return Signature(name=LOG.name, key_id=LOG.key_id, blob=SIGNER.sign(text.encode()))


def test_known_keys_vouch_and_unknown_keys_are_set_aside() -> None:
    assert [key.name for key in opened(SIGNED, PETER, ENOCH).verified] == ["PeterNeumann", "EnochRoot"]
    one = opened(SIGNED, PETER)
    assert (one.text, one.verified, one.cosigned) == (TEXT, (VerifierKey.parse(PETER),), ())
    assert [each.name for each in one.unknown] == ["EnochRoot"]
    none = opened(SIGNED)
    assert (none.verified, len(none.unknown)) == ((), 2)


def test_a_known_key_with_a_bad_signature_rejects_the_note() -> None:
    for bad in (SIGNED.replace("answer", "Answer"), SIGNED.replace("x08go/ZJ", "x08go/ZK")):
        with pytest.raises(Malformed, match=r"PeterNeumann\+c74f20a3 does not hold"):
            opened(bad, PETER)
    assert opened(SIGNED.replace("x08go/ZJ", "x08go/ZK"), ENOCH).verified == (VerifierKey.parse(ENOCH),)


def test_a_key_under_another_name_or_id_is_unknown() -> None:
    peter = VerifierKey.parse(PETER)
    other = VerifierKey.ed25519("PeterNeumann2", peter.public)
    assert open_note(parse_note(SIGNED), [other]).verified == ()
    same_name = VerifierKey.ed25519("PeterNeumann", VerifierKey.parse(ENOCH).public)
    assert open_note(parse_note(SIGNED), [same_name]).verified == ()


def test_a_key_that_signs_twice_counts_once_and_both_must_hold() -> None:
    assert len(opened(f"{TEXT}\n{BY_PETER}{BY_PETER}", PETER, PETER).verified) == 1
    with pytest.raises(Malformed, match="does not hold"):
        opened(f"{TEXT}\n{BY_PETER}{BY_PETER.replace('ZJku', 'ZKku')}", PETER)


def test_the_caller_may_bring_his_own_verifier() -> None:
    seen: list[tuple[bytes, bytes, bytes]] = []

    def check(public: bytes, message: bytes, signature: bytes) -> bool:
        seen.append((public, message, signature))
        return False

    peter = VerifierKey.parse(PETER)
    with pytest.raises(Malformed, match="does not hold"):
        open_note(parse_note(SIGNED), [peter], check=check)
    assert seen == [(peter.public, TEXT.encode(), parse_note(SIGNED).signatures[0].blob)]


def test_a_signature_of_the_wrong_length_never_reaches_the_verifier() -> None:
    for key, length in ((LOG, 63), (LOG, 72), (WITNESS, 64), (WITNESS, 3), (WITNESS, 80)):
        line = Signature(name=key.name, key_id=key.key_id, blob=bytes(length))
        with pytest.raises(Malformed, match="does not hold"):
            open_note(Note(text=TEXT, signatures=(line,)), [key], check=lambda *_: True)


def test_a_repeated_line_of_an_unknown_key_is_listed_once() -> None:
    assert len(opened(f"{TEXT}\n{BY_ENOCH}{BY_ENOCH}{BY_PETER}", PETER).unknown) == 1


def test_a_witness_signs_the_message_of_the_specification() -> None:
    text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    assert cosignature_message(text, 1679315147) == b"cosignature/v1\ntime 1679315147\n" + text.encode()


def test_a_cosignature_vouches_with_its_time() -> None:
    text = "log.example\n1\n" + "A" * 43 + "=\n"
    note = parse_note(format_note(text, [signature(text), cosignature(text, 1_700_000_000)]))
    found = open_note(note, [LOG, WITNESS])
    assert found.verified == (LOG, WITNESS)
    assert found.cosigned == ((WITNESS, 1_700_000_000),)


def test_a_cosignature_with_another_time_or_text_rejects_the_note() -> None:
    text = "log.example\n1\n" + "A" * 43 + "=\n"
    good = cosignature(text, 1_700_000_000)
    late = Signature(name=good.name, key_id=good.key_id, blob=(1_700_000_001).to_bytes(8, "big") + good.blob[8:])
    plain = Signature(name=good.name, key_id=good.key_id, blob=signature(text).blob)
    for note in (
        Note(text=text, signatures=(late,)),
        Note(text=text, signatures=(plain,)),
        Note(text=text.replace("1", "2"), signatures=(good,)),
        Note(text=text, signatures=(good, late)),
        Note(text=text, signatures=(cosignature(text, 2**63),)),
    ):
        with pytest.raises(Malformed, match="does not hold"):
            open_note(note, [WITNESS])


def test_the_first_time_of_a_witness_that_signed_twice_is_kept() -> None:
    text = "log.example\n0\nx\n"
    note = Note(text=text, signatures=(cosignature(text, 20), cosignature(text, 10)))
    assert open_note(note, [WITNESS]).cosigned == ((WITNESS, 20),)


def test_two_keys_of_one_name_and_id_are_refused() -> None:
    # Four bytes of key id collide by search alone, so a list of keys may hold such a pair.
    twin = VerifierKey.ed25519("log.example", bytes(32))
    object.__setattr__(twin, "key_id", LOG.key_id)
    with pytest.raises(Malformed, match="two different keys"):
        open_note(parse_note(SIGNED), [LOG, twin])


def test_notes_are_written_as_they_are_read() -> None:
    note = parse_note(SIGNED)
    assert format_note(note.text, note.signatures) == SIGNED
    assert parse_note(SIGNED.encode()) == note
    assert [each.line() for each in note.signatures] == [BY_PETER, BY_ENOCH]
    assert parse_signature(BY_PETER.rstrip("\n")) == note.signatures[0]


@given(
    st.text(max_size=60).map(lambda text: text + "\n"),
    st.lists(st.tuples(NAMES, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=80)), max_size=5),
)
def test_what_is_written_reads_back(text: str, lines: list[tuple[str, bytes, bytes]]) -> None:
    signatures = tuple(Signature(name=name, key_id=key_id, blob=blob) for name, key_id, blob in lines)
    try:
        written = format_note(text, signatures)
    except Malformed:
        plain = all(character >= " " or character == "\n" for character in text + "".join(name for name, *_ in lines))
        assert not plain or not lines or any("\ud800" <= c <= "\udfff" for c in text + "".join(n for n, *_ in lines))
        return
    assert parse_note(written) == Note(text=text, signatures=signatures)


@pytest.mark.parametrize(
    "signatures",
    [
        [],
        [Signature(name="a b", key_id=bytes(4), blob=b"x")],
        [Signature(name="a\n", key_id=bytes(4), blob=b"x")],
        [Signature(name="", key_id=bytes(4), blob=b"x")],
        [Signature(name="a", key_id=bytes(3), blob=b"xx")],
        [Signature(name="a", key_id=bytes(4), blob=b"")],
        [Signature(name="a", key_id=bytes(4), blob=b"x")] * 101,
    ],
)
def test_signatures_that_would_not_read_back_are_not_written(signatures: list[Signature]) -> None:
    with pytest.raises(Malformed):
        format_note(TEXT, signatures)


@pytest.mark.parametrize("text", ["", "no newline", "tab\t\n", "\ud800\n"])
def test_texts_that_would_not_read_back_are_not_written(text: str) -> None:
    with pytest.raises(Malformed):
        format_note(text, parse_note(SIGNED).signatures)


def test_a_note_may_be_as_long_as_any_and_have_a_hundred_signatures() -> None:
    assert len(parse_note(f"{TEXT}\n{BY_PETER * 100}").signatures) == 100
    longest = SIGNED.rjust((1 << 20) - len(SIGNED.encode()) + len(SIGNED), "x")
    assert parse_note(longest).signatures == parse_note(SIGNED).signatures


@pytest.mark.parametrize(
    "bad",
    [
        TEXT,
        f"{TEXT}\n",
        f"{TEXT}\n{BY_PETER}"[:-1],
        f"\x01{SIGNED}",
        SIGNED.replace("\n", "\r\n"),
        SIGNED.replace("PeterNeumann", "Bad Name"),
        SIGNED.replace("PeterNeumann", "Bad\u00a0Name"),
        SIGNED.replace("PeterNeumann", "Bad+Name"),
        SIGNED.replace("— PeterNeumann", "- PeterNeumann"),
        SIGNED.replace("— PeterNeumann", "PeterNeumann"),
        SIGNED.replace("— PeterNeumann", "—  "),
        f"{SIGNED}Unexpected line.\n",
        f"{SIGNED}\n",
        f"{TEXT}\n{BY_PETER * 101}",
        f"{TEXT}\n— PeterNeumann x08gow==\n",
        f"{TEXT}\n— PeterNeumann\n",
        SIGNED.replace("BwJnAM=", "BwJnAN="),
        SIGNED.replace("BwJnAM=", "BwJnAM"),
        "x" * (1 << 20) + SIGNED,
    ],
)
def test_a_note_that_strays_from_the_form_is_refused(bad: str) -> None:
    with pytest.raises(Malformed):
        parse_note(bad)
    with pytest.raises(Malformed):
        parse_note(bad.encode())


@given(st.binary() | st.text() | st.binary().map(lambda tail: SIGNED.encode() + tail))
def test_anything_is_a_note_or_refused(data: bytes | str) -> None:
    try:
        note = parse_note(data)
    except Malformed:
        return
    assert format_note(note.text, note.signatures) == (data if isinstance(data, str) else data.decode())


@given(st.integers(min_value=0, max_value=len(SIGNED.encode()) - 1), st.integers(min_value=1, max_value=255))
def test_a_note_with_any_byte_changed_is_not_what_both_keys_signed(at: int, mask: int) -> None:
    data = bytearray(SIGNED.encode())
    data[at] ^= mask
    try:
        found = opened(bytes(data), PETER, ENOCH)
    except Malformed:
        return
    assert len(found.verified) < 2


def test_verifier_keys_read_back_and_nothing_near_them_does() -> None:
    key = VerifierKey.parse(PETER)
    assert key.text() == PETER
    assert key == VerifierKey.ed25519("PeterNeumann", key.public)
    near = {PETER[start:end] for start in range(len(PETER)) for end in range(start, len(PETER) + 1)} - {PETER}
    near |= {PETER[:at] + chr(ord(PETER[at]) + 1) + PETER[at + 1 :] for at in range(len(PETER))}
    near |= {PETER.upper(), PETER + "=", PETER + "\n", PETER.replace("c74f20a3", "C74F20A3")}
    for text in near:
        with pytest.raises(Malformed):
            VerifierKey.parse(text)


def test_a_cosigner_key_differs_from_the_plain_key_of_the_same_bytes() -> None:
    plain = VerifierKey.ed25519("w", bytes(32))
    cosigner = VerifierKey.cosigner("w", bytes(32))
    assert VerifierKey.parse(cosigner.text()) == cosigner
    assert plain.key_id != cosigner.key_id == key_id_of("w", 4, bytes(32))


def test_keys_of_other_algorithms_lengths_and_names_are_refused() -> None:
    for name, algorithm, length in (("a", 2, 32), ("a", 1, 31), ("a", 1, 33), ("a b", 1, 32), ("", 1, 32)):
        public = bytes(length)
        with pytest.raises(Malformed):
            VerifierKey(name=name, key_id=key_id_of(name, algorithm, public), algorithm=algorithm, public=public)
    with pytest.raises(Malformed, match="key id"):
        VerifierKey(name="a", key_id=bytes(4), algorithm=1, public=bytes(32))
    with pytest.raises(Malformed):
        VerifierKey.cosigner("\ud800", bytes(32))


@given(st.text() | st.text().map(lambda tail: f"a+{tail}"))
def test_any_text_is_a_key_or_refused(text: str) -> None:
    with pytest.raises(Malformed):
        VerifierKey.parse(text)


def go() -> Any:
    return load("go-sumdb/note_and_tlog.json")


def test_go_notes_open_as_go_opens_them() -> None:
    vectors = go()
    for case in vectors["open_ok"]:
        found = opened(case["note"], *(vectors["vkeys"][key] for key in case["keys"]))
        assert [key.name for key in found.verified] == case["verified"]
        assert [each.name for each in found.unknown] == case["unverified"]
        assert found.text == vectors["text"]
    for case in vectors["open_no_known_key"]:
        assert opened(case["note"]).verified == ()
    for case in vectors["open_invalid_sig"]:
        with pytest.raises(Malformed, match="does not hold"):
            opened(case["note"], *(vectors["vkeys"][key] for key in case["keys"]))


def test_notes_that_go_calls_malformed_are_refused() -> None:
    cases = go()["open_malformed_latin1"]
    assert len(cases) == 8
    for case in cases:
        with pytest.raises(Malformed):
            parse_note(case.encode("latin-1"))


def test_keys_that_go_refuses_are_refused() -> None:
    vectors = go()
    assert [VerifierKey.parse(key).text() for key in vectors["vkeys"].values()] == [PETER, ENOCH]
    for key in vectors["bad_vkeys"]:
        with pytest.raises(Malformed):
            VerifierKey.parse(key)


def test_the_note_of_the_c2sp_specification_verifies() -> None:
    example = load("c2sp-spec-examples/examples.json")["signed_note"]
    assert opened(example["note"], example["vkey"]).verified == (VerifierKey.parse(example["vkey"]),)
    with pytest.raises(Malformed, match="does not hold"):
        opened(example["note"].replace("example message", "Example message"), example["vkey"])


def test_the_cosigned_example_of_the_specification_carries_its_time() -> None:
    examples = load("c2sp-spec-examples/examples.json")
    log, witness = parse_note(examples["cosigned_syntax_only"]).signatures
    assert parse_note(examples["checkpoint_syntax_only"]).signatures == (log,)
    assert (witness.name, len(witness.blob)) == ("witness.example.com/w1", 72)
    assert int.from_bytes(witness.blob[:8], "big") == examples["cosigned_timestamp"]
