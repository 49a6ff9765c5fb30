"""What chance makes of a line and of a receipt: the same said otherwise, or something else said in the same form."""

import json
import random
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

from hansard.ledger.canonical import dump
from hansard.ledger.checkpoint import format_checkpoint
from hansard.ledger.ed25519 import L, P
from hansard.ledger.merkle import node_hash
from hansard.ledger.note import Signature, format_note
from specimens import Key, Log, honest

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 7, 2**53 - 1, 2**53, 2**63, 1.5, "", "x", "é", "\u2028", [], {}, [0], {"a": "b"}),
    *("0" * 64, "A" * 64, "a" * 32, "a" * 33, "text/plain", "a\nb", "eA==", "eB==", "eA=", "__proto__", "key.rotated"),
)
SPLINTERS = (
    *(b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\\ud800", b"\\ud83d\\ude00", b"\xf0\x9f\x98\x80", b"\\u000a"),
    *(b" ", b"\r", b"\x00", b"=", b"-", b"0"),
)
NAMES = ("a\x85b", "a\ufeffb", "a+b", "", "a\x1cb", "a\x7fb", "a\u200bb", "\u3000", "\U0001f600", "a ")
SIZES = (1, 2, 3, 2**31, 2**32 + 1, 2**52, 2**53 - 2, 2**53 - 1)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything inside of a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*at, key)
        yield from places(value[key], (*at, key))


def altered(value: Any, chance: random.Random) -> Any:
    """The value with one thing in it another, gone, or too much."""
    value = json.loads(json.dumps(value))
    found = list(places(value))
    if not found:
        return value
    *way, last = chance.choice(found)
    inside = value
    for key in way:
        inside = inside[key]
    match chance.randrange(5):
        case 0:
            del inside[last]
        case 1 if isinstance(inside, dict):
            inside[chance.choice(("more", "b64", "__proto__", "line,path", "epoch", "é"))] = chance.choice(ODD)
        case 2 if type(inside[last]) is int:
            inside[last] += chance.choice((1, -1, 2**53))
        case _:
            inside[last] = chance.choice(ODD)
    return value


def respelled(line: bytes, chance: random.Random) -> bytes:
    """A line of JSON, spelled otherwise or with another value in it."""
    at = chance.randrange(len(line) or 1)
    match chance.randrange(6):
        case 0:
            return line[:at] + chance.choice(SPLINTERS) + line[at:]
        case 1:
            return line[:at] + b"".join(b"\\u%04x" % each for each in line[at : at + 1]) + line[at + 1 :]
        case 2:
            return line[:at] + chance.randbytes(1) + line[at + 1 :]
        case 3:
            return chance.choice((line + b" ", b" " + line, line[:at], b"", b"null", b'{"a":' * 40 + b"1" + b"}" * 40))
    try:
        value = altered(json.loads(line), chance)
    except ValueError:
        return line
    spelled = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=chance.random() < 0.1)
    return spelled.encode(errors="surrogatepass")


def receipt(chance: random.Random) -> tuple[Log, bytes]:
    """A receipt that holds, or one that was spoiled, perhaps by somebody who has the keys; and the log that it is of."""
    log = Log.begun()
    if chance.random() < 0.15:
        return log, of_a_large_log(log, chance)
    if chance.random() < 0.7:
        log = honest()
        if chance.random() < 0.3:
            log.rotate(seal=False)
    else:
        parts = {"a": b"\xff\x00", "b": b"", "z_9": "größe".encode()}
        log.append(bodies=parts, data={"9": 1, "10": [True, None, -5], "__proto__": {"x": "\u2028\x7f"}}, causes=[0])
    if chance.random() < 0.2:
        seq = chance.choice((0, log.size - 1))
        log.edit(seq, lambda entry: entry.update(data=altered(entry["data"], chance)))
    index = chance.randrange(log.size)
    rotations = [seq for seq, line in enumerate(log.lines) if b'"key.rotated"' in line]
    whole = log.receipt(
        index,
        disclose=[part for seq, part in log.bodies if seq == index and chance.random() < 0.6],
        rotation=chance.choice([*rotations, *rotations[-1:] * 4, None]) if rotations else None,
    )
    header, extra, rest = whole.split(b"\n", 2)
    said = b64decode(extra.removeprefix(b"extra "))
    match chance.randrange(5):
        case 0:
            return log, whole
        case 1:
            said = respelled(said, chance)
        case 2:
            said = json.dumps(altered(json.loads(said), chance), sort_keys=True, separators=(",", ":")).encode()
        case 3:
            rest = _elsewhere(rest, chance)
        case _:
            head, note = rest.decode().split("\n\n", 1)
            rest = f"{head}\n\n{signed_oddly(log, note, chance)}".encode()
    return log, b"\n".join((header, b"extra " + b64encode(said), rest))


def of_a_large_log(log: Log, chance: random.Random) -> bytes:
    """The receipt of a genesis in a tree of any size, made up around it."""
    size, root = chance.choice(SIZES), log.leaves[0]
    path = [bytes([number]) * 32 for number in range((size - 1).bit_length() + chance.choice((0, 0, 0, 1, -1)))]
    for each in path:
        root = node_hash(root, each)
    spelled = [b64encode(each).decode() for each in path]
    line = log.lines[0].decode()
    extra = dump({"v": 1, "line": line, "genesis": {"line": line, "path": spelled}, "open": {}})
    text = format_checkpoint(log.origin, size, root)
    assert log.identity
    note = format_note(text, [log.identity.sign(text), log.epochs[0].sign(text)])
    return "\n".join(
        ("c2sp.org/tlog-proof@v1", f"extra {b64encode(extra).decode()}", "index 0", *spelled, "", note)
    ).encode()


def signed_oddly(log: Log, note: str, chance: random.Random) -> str:
    """The checkpoint, said again in another way or as it was, with the signatures of its keys and odd ones."""
    origin, size, root, *more = note.split("\n\n")[0].split("\n")
    match chance.randrange(6):
        case 0:
            more = [chance.choice(("an extension", "é", "", " ", "x\r", "\x7f"))]
        case 1:
            size = chance.choice(
                ("0", f"0{size}", f"+{size}", f"{size} ", str(2**53 - 1), str(2**53), "9" * 16, "\u0661")
            )
        case 2:
            root = chance.choice((root[:-1], root + "=", root[:-2] + "F=", root + " ", b64encode(bytes(31)).decode()))
    text = "\n".join((origin, size, root, *more)) + "\n"
    assert log.identity
    lines = [log.identity.sign(text).line(), log.epochs[-1].sign(text).line()]
    for _ in range(chance.choice((0, 1, 1, 2))):
        lines.insert(
            chance.randrange(len(lines) + 1), _odd_signature(chance.choice((log.identity, *log.epochs)), text, chance)
        )
    return f"{text}\n{''.join(lines)}"


def _odd_signature(key: Key, text: str, chance: random.Random) -> str:
    good = key.sign(text)
    s = int.from_bytes(good.blob[32:], "little")
    blobs = (
        good.blob,
        good.blob + b"\x00",
        good.blob[:32] + (s + L).to_bytes(32, "little"),
        P.to_bytes(32, "little") + good.blob[32:],
        bytes(64),
        b"\x00",
        key.sign(text + "x").blob,
    )
    match chance.randrange(4):
        case 0:
            return f"\N{EM DASH} {chance.choice(NAMES)} AAAAAAAA\n"
        case 1:
            return chance.choice(
                (good.line().replace("=", ""), good.line().replace("\n", "\r\n"), "\n", good.line()[1:])
            )
        case 2:
            return "".join(f"\N{EM DASH} k{number} AAAAAAAA\n" for number in range(chance.choice((98, 99))))
        case _:
            ids = (good.key_id, good.key_id, bytes(4))
            return Signature(name=good.name, key_id=chance.choice(ids), blob=chance.choice(blobs)).line()


def _elsewhere(rest: bytes, chance: random.Random) -> bytes:
    """Another index, another path, other ends of lines."""
    head, note = rest.split(b"\n\n", 1)
    index, *path = head.split(b"\n")
    match chance.randrange(5):
        case 0:
            odd = (b"index", b"index 01", b"index -1", b"index 9007199254740991", b"index 9007199254740992", b"Index 0")
            index = chance.choice(odd)
        case 1:
            path.append(b64encode(bytes(chance.choice((31, 32, 33)))))
        case 2:
            path = path[:-1]
        case 3:
            path.reverse()
        case _:
            return rest.replace(b"\n", b"\r\n")
    return b"\n".join((index, *path)) + b"\n\n" + note
