"""Proof files against published good and bad ones, and two Sigsum proofs carried through from leaf to cosignature."""

from base64 import b64decode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.ledger import ed25519, merkle
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import format_checkpoint, parse_checkpoint
from hansard.ledger.note import Signature, VerifierKey, format_note, open_note, parse_note
from hansard.ledger.receipt import Proof, format_proof, parse_proof
from vectors import load

GOOD = (
    "c2sp.org/tlog-proof@v1\nextra ZXh0cmEgaW5mb3JtYXRpb24=\nindex 10\n"
    "rzFuy5Go7nrpkhBwKy1HWPMM3eO/YePY54fXRoH5Cm4=\n\ncheckpoint data\n"
)
HASHES = st.binary(min_size=32, max_size=32)


def splice(piece: bytes, at: int) -> bytes:
    good = GOOD.encode()
    return good[:at] + piece + good[at + len(piece) // 2 :]


def test_a_proof_reads_and_is_written_back() -> None:
    proof = parse_proof(GOOD.encode())
    path = (b64decode("rzFuy5Go7nrpkhBwKy1HWPMM3eO/YePY54fXRoH5Cm4="),)
    assert proof == Proof(extra=b"extra information", index=10, path=path, checkpoint="checkpoint data\n")
    assert format_proof(proof) == GOOD


def test_a_proof_without_extra_data_differs_from_one_with_none_in_it() -> None:
    plain, empty = (Proof(extra=extra, index=0, path=(), checkpoint="c\n") for extra in (None, b""))
    assert format_proof(plain) == "c2sp.org/tlog-proof@v1\nindex 0\n\nc\n"
    assert format_proof(empty) == "c2sp.org/tlog-proof@v1\nextra \nindex 0\n\nc\n"
    assert parse_proof(format_proof(empty).encode()) == empty


@pytest.mark.parametrize(
    "bad",
    [
        "",
        GOOD[:-1],
        GOOD.replace("v1", "v2"),
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("index 10\n", ""),
        GOOD.replace("index 10", "index 010"),
        GOOD.replace("index 10", "index"),
        GOOD.replace("index 10", "Index 10"),
        GOOD.replace("index 10", "index  10"),
        GOOD.replace("index 10", "index 9007199254740992"),
        GOOD.replace("index 10", "index 10\nindex 10"),
        GOOD.replace("extra ZX", "extra  ZX"),
        GOOD.replace("YXRpb24=", "YXRpb25="),
        GOOD.replace("extra ", "Extra "),
        GOOD.replace("extra ZXh0cmEgaW5mb3JtYXRpb24=\nindex 10\n", "index 10\nextra ZXh0cmEgaW5mb3JtYXRpb24=\n"),
        GOOD.replace("H5Cm4=", "H5Cm5="),
        GOOD.replace("rzFu", ""),
        GOOD.replace("\n\ncheckpoint data\n", "\n\n"),
        GOOD.replace("\n\ncheckpoint data\n", "\n"),
        GOOD.replace("\n\n", "\n" + "A" * 43 + "=\n" * 64 + "\n"),
        "c2sp.org/tlog-proof@v1\nindex 0\n" + ("A" * 43 + "=\n") * 65 + "\ncheckpoint\n",
    ],
)
def test_a_proof_that_strays_from_the_form_is_refused(bad: str) -> None:
    with pytest.raises(Malformed):
        parse_proof(bad.encode())


def test_a_proof_that_is_not_text_is_refused() -> None:
    with pytest.raises(Malformed, match="UTF-8"):
        parse_proof(GOOD.encode() + b"\xff\n")


@given(
    st.none() | st.binary(max_size=100),
    st.integers(min_value=0, max_value=2**53 - 1),
    st.lists(HASHES, max_size=64).map(tuple),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=50).map(lambda text: text + "\n"),
)
def test_what_is_written_reads_back(extra: bytes | None, index: int, path: tuple[bytes, ...], checkpoint: str) -> None:
    proof = Proof(extra=extra, index=index, path=path, checkpoint=checkpoint)
    assert parse_proof(format_proof(proof).encode()) == proof


@pytest.mark.parametrize(
    "proof",
    [
        Proof(extra=None, index=-1, path=(), checkpoint="c\n"),
        Proof(extra=None, index=2**53, path=(), checkpoint="c\n"),
        Proof(extra=None, index=0, path=(bytes(31),), checkpoint="c\n"),
        Proof(extra=None, index=0, path=(bytes(32),) * 65, checkpoint="c\n"),
        Proof(extra=None, index=0, path=(b"",), checkpoint="c\n"),
        Proof(extra=None, index=0, path=(), checkpoint=""),
        Proof(extra=None, index=0, path=(), checkpoint="no newline"),
        Proof(extra=None, index=0, path=(), checkpoint="\ud800\n"),
    ],
)
def test_proofs_that_would_not_read_back_are_not_written(proof: Proof) -> None:
    with pytest.raises(Malformed):
        format_proof(proof)


@given(st.binary() | st.builds(splice, st.binary(max_size=8), st.integers(min_value=0, max_value=len(GOOD))))
def test_any_bytes_are_a_proof_in_its_one_spelling_or_refused(data: bytes) -> None:
    try:
        proof = parse_proof(data)
    except Malformed:
        return
    assert format_proof(proof).encode() == data


def test_published_proof_files_read_and_the_malformed_ones_do_not() -> None:
    cases = load("c2sp-spec-examples/tlog_proof_format.json")
    assert (len(cases["good"]), len(cases["bad"])) == (3, 8)
    for text in cases["good"]:
        assert format_proof(parse_proof(text.encode())) == text
    for text in cases["bad"]:
        with pytest.raises(Malformed):
            parse_proof(text.encode())


def ssh_key(line: str) -> bytes:
    return b64decode(line.split()[1])[-32:]


def sigsum_fields(proof: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for line in filter(None, proof.split("\n")):
        name, _, value = line.partition("=")
        fields.setdefault(name, []).append(value)
    return fields


def sigsum_leaf(leaf: str, submitter: bytes) -> bytes:
    """The logged leaf of the published message, after checking its submitter's signature."""
    checksum = sha256(b" " * 26 + b"foo-4\n").digest()
    key_hash, signature = map(bytes.fromhex, leaf.split())
    assert key_hash == sha256(submitter).digest()
    assert ed25519.verify(submitter, b"sigsum.org/v1/tree-leaf\x00" + checksum, signature)
    return checksum + signature + key_hash


@pytest.mark.parametrize("which", ["with_witness", "no_witness"])
def test_a_sigsum_proof_holds_as_a_tlog_proof_and_breaks_when_altered(which: str) -> None:
    case = load("sigsum/proofs.json")[which]
    fields = sigsum_fields(case["proof"])
    leaf = sigsum_leaf(fields["leaf"][0], ssh_key(case["submit_key"]))
    origin = f"sigsum.org/v1/tree/{sha256(ssh_key(case['log_key'])).hexdigest()}"
    text = format_checkpoint(origin, int(fields["size"][0]), bytes.fromhex(fields["root_hash"][0]))
    keys = [VerifierKey.ed25519(origin, ssh_key(case["log_key"]))]
    blobs = [bytes.fromhex(fields["signature"][0])]
    times = []
    for line in fields.get("cosignature", []):
        _, time_s, blob = line.split()
        keys.append(VerifierKey.cosigner("witness.example", ssh_key(case["witness_key"])))
        blobs.append(int(time_s).to_bytes(8, "big") + bytes.fromhex(blob))
        times.append(int(time_s))
    assert len(times) == (which == "with_witness")
    lines = [Signature(name=key.name, key_id=key.key_id, blob=blob) for key, blob in zip(keys, blobs, strict=True)]
    path = tuple(bytes.fromhex(each) for each in fields["node_hash"])
    proof = Proof(extra=leaf, index=int(fields["leaf_index"][0]), path=path, checkpoint=format_note(text, lines))

    carried = parse_proof(format_proof(proof).encode())
    opened = open_note(parse_note(carried.checkpoint), keys)
    assert opened.verified == tuple(keys)
    assert [time_s for _, time_s in opened.cosigned] == times
    head = parse_checkpoint(opened.text)
    merkle.verify_inclusion(merkle.leaf_hash(leaf), carried.index, head.size, carried.path, head.root)

    with pytest.raises(Malformed, match="another root"):
        merkle.verify_inclusion(merkle.leaf_hash(leaf + b"\x00"), carried.index, head.size, carried.path, head.root)
    later = parse_note(carried.checkpoint.replace(f"\n{head.size}\n", f"\n{head.size + 1}\n"))
    for key in keys:
        with pytest.raises(Malformed, match="does not hold"):
            open_note(later, [key])
