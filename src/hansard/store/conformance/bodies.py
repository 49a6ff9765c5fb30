"""What bodies promise: every byte comes back, and an erased one is gone without taking another with it."""

from hansard.errors import UsageError
from hansard.ledger.body import BYTES, JSON, TEXT, digest, opens
from hansard.ledger.canonical import Json
from hansard.store.base import Part, Store
from hansard.store.conformance.sample import Bench, draft, part, put, redacted, refused

ODD = (
    b"",
    b"\x00",
    b"\xff\xfe\x80 not UTF-8",
    "\u2028 \u2029 \u0085 \ufeff ä \U0001f5f3".encode(),
    b"\r\n\n\r\t\x0b\x0c\x1c\x1d\x1e\x7f",
    b'{"json": "\\u2028", "n": 1.5}\n',
    b"\xed\xa0\x80 a lone surrogate, written as if it were UTF-8",
    bytes(range(256)),
)
LARGE = bytes(range(256)) * 80
MEBIBYTE = ("Grüße\u2028" * 104_858).encode()[: 1 << 20]


class Bodies(Bench):
    """Tests of body, erase and what repair finishes."""

    def test_bodies_come_back_byte_for_byte(self) -> None:
        with self.opened() as (store, _):
            parts = [part(body, name=f"p{at}", media=BYTES) for at, body in enumerate((*ODD, LARGE, MEBIBYTE))]
            [place] = put(store, draft(parts=parts))
            for each in parts:
                _check(store, place.seq, each)

    def test_parts_of_many_entries_do_not_mix(self) -> None:
        with self.opened() as (store, _):
            wanted: list[tuple[int, Part]] = []
            for at in range(30):
                names = ("output", "prompt", "a")[: at % 4]
                parts = [part(f"{at} {name}".encode(), name=name) for name in names]
                [place] = put(store, draft(parts=parts))
                wanted += [(place.seq, each) for each in parts]
            for seq, each in wanted:
                _check(store, seq, each)

    def test_media_type_and_salt_come_back(self) -> None:
        with self.opened() as (store, _):
            same = (part(b"[1]", name="a", media=JSON), part(b"[1]", name="b", media=BYTES))
            [place] = put(store, draft(parts=same))
            for each in same:
                _check(store, place.seq, each)

    def test_a_large_body_may_stand_twice(self) -> None:
        with self.opened() as (store, _):
            twins = (part(LARGE, name="a"), part(LARGE, name="b"))
            [first] = put(store, draft(parts=twins))
            [second] = put(store, draft(parts=[part(LARGE)]))
            _check(store, first.seq, twins[0])
            _check(store, first.seq, twins[1])
            assert _body(store, second.seq, "output") == LARGE

    def test_a_part_that_the_entry_does_not_have_is_a_usage_error(self) -> None:
        with self.opened() as (store, _):
            [place] = put(store, draft(parts=[part(b"x")]))
            for seq, name in ((place.seq, "prompt"), (0, "output"), (place.seq + 1, "output"), (-1, "output")):
                with refused(UsageError):
                    store.body(seq, name)
                with refused(UsageError):
                    store.erase((seq, name))

    def test_erasing_takes_one_part_and_no_other(self) -> None:
        with self.opened() as (store, _):
            parts = [part(b"keep", name="a"), part(b"erase", name="b"), part(b"keep too", name="c")]
            [place] = put(store, draft(parts=parts))
            [other] = put(store, draft(parts=[part(b"erase", name="b")]))
            before = store.head()
            store.erase((place.seq, "b"))
            assert store.body(place.seq, "b") is None
            _check(store, place.seq, parts[0])
            _check(store, place.seq, parts[2])
            assert _body(store, other.seq, "b") == b"erase"
            assert store.head() == before

    def test_parts_are_erased_together(self) -> None:
        with self.opened() as (store, _):
            places = [put(store, draft(parts=[part(b"%d" % at), part(LARGE, name="plan")]))[0] for at in range(6)]
            store.erase(
                *[(places[at].seq, name) for at, name in ((4, "output"), (0, "plan"), (1, "output"), (4, "plan"))]
            )
            found = [[store.body(place.seq, name) is None for place in places] for name in ("output", "plan")]
            assert found == [[at in gone for at in range(6)] for gone in ((1, 4), (0, 4))]

    def test_erasing_is_refused_whole_where_one_part_is_none(self) -> None:
        with self.opened() as (store, _):
            [place] = put(store, draft(parts=[part(b"kept")]))
            with refused(UsageError):
                store.erase((place.seq, "output"), (place.seq, "nothing"))
            assert _body(store, place.seq, "output") == b"kept"

    def test_erasing_again_changes_nothing(self) -> None:
        with self.opened() as (store, _):
            parts = [part(b"one", name="a"), part(b"two", name="b")]
            [place] = put(store, draft(parts=parts))
            store.erase((place.seq, "a"))
            store.erase((place.seq, "a"))
            assert store.body(place.seq, "a") is None
            _check(store, place.seq, parts[1])

    def test_a_shared_body_lives_until_its_last_reference_is_erased(self) -> None:
        with self.opened() as (store, _):
            [first] = put(store, draft(parts=[part(LARGE)]))
            # Whoever recorded it knew its digest already, as the drafter does: it is the same body for all that.
            [second] = put(store, draft(parts=[part(LARGE)._replace(digest=digest(TEXT, LARGE))]))
            store.erase((first.seq, "output"))
            assert store.body(first.seq, "output") is None
            assert _body(store, second.seq, "output") == LARGE
            store.erase((second.seq, "output"))
            assert store.body(second.seq, "output") is None
            [third] = put(store, draft(parts=[part(LARGE)]))
            assert _body(store, third.seq, "output") == LARGE

    def test_bodies_that_follow_an_erased_one_are_found(self) -> None:
        with self.opened() as (store, _):
            places = [put(store, draft(parts=[part(b"%d" % at)]))[0] for at in range(6)]
            store.erase((places[2].seq, "output"))
            places += put(store, draft(parts=[part(b"6")]))
            found = [store.body(place.seq, "output") for place in places]
            assert [each and each.body for each in found] == [b"0", b"1", None, b"3", b"4", b"5", b"6"]

    def test_a_refused_group_leaves_no_body(self) -> None:
        with self.opened() as (store, _):
            outcomes = store.append(
                [[draft(parts=[part(b"lost")]), draft(causes=(99,))], [draft(parts=[part(b"kept")])]]
            )
            assert not isinstance(outcomes[1], Exception)
            assert _body(store, 1, "output") == b"kept"

    def test_repair_does_nothing_to_a_healthy_store(self) -> None:
        with self.opened() as (store, _):
            kept = part(b"kept")
            [place] = put(store, draft(parts=[kept], causes=(0,)))
            before = store.head()
            assert store.repair() == []
            assert store.head() == before
            assert store.broken is None
            _check(store, place.seq, kept)

    def test_repair_finishes_a_redaction_whose_body_is_still_there(self) -> None:
        with self.opened() as (store, _):
            gone, kept = part(b"gone", name="a"), part(b"kept", name="b")
            [place] = put(store, draft(parts=[gone, kept]))
            put(store, redacted(place.seq, gone))
            assert store.repair() == [("redaction", 1)]
            assert store.body(place.seq, "a") is None
            _check(store, place.seq, kept)
            assert store.repair() == []

    def test_repair_leaves_a_body_whose_commitment_the_tombstone_does_not_name(self) -> None:
        with self.opened() as (store, _):
            kept = part(b"kept")
            [place] = put(store, draft(parts=[kept]))
            put(store, redacted(place.seq, kept, committed="ab" * 32))
            assert store.repair() == []
            _check(store, place.seq, kept)

    def test_repair_passes_over_tombstones_that_name_nothing(self) -> None:
        with self.opened() as (store, _):
            kept = part(b"kept")
            [place] = put(store, draft(parts=[kept]))
            named = {"commitment": "ab" * 32, "part": "output", "seq": place.seq}
            odd: list[dict[str, Json]] = [{"seq": []}, {"seq": "1"}, {"seq": 99}, {"part": {}}, {"part": "x"}]
            put(store, *(draft(kind="body.redacted", data=named | each) for each in odd))
            put(store, draft(kind="body.redacted"))
            assert store.repair() == []
            _check(store, place.seq, kept)


def _check(store: Store, seq: int, wanted: Part) -> None:
    found = store.body(seq, wanted.name)
    assert found is not None, (seq, wanted.name)
    assert (found.seq, found.part, found.media, found.salt) == (seq, wanted.name, wanted.media, wanted.salt)
    assert found.body == wanted.body, (seq, wanted.name)
    assert opens(store.entry(seq).body[wanted.name], found.salt, found.media, found.body)


def _body(store: Store, seq: int, name: str) -> bytes | None:
    found = store.body(seq, name)
    return found.body if found else None
