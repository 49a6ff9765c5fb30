"""A writer's turn on the log: begun with the lock on its head, ended by one durable commit. Knows no kind of row.

Until COMMIT is sent, a failure leaves nothing behind. Afterwards only the server knows: it is asked, and nothing is tried twice.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from hansard.errors import NotWritten, OutcomeUnknown, StoreError, Unavailable
from hansard.ledger.canonical import Malformed
from hansard.ledger.merkle import Frontier, leaf_hash
from hansard.store.base import repair_of, verify_of
from hansard.store.opener import Opener
from hansard.store.postgres.address import Address
from hansard.store.postgres.layout import LOCK_ALL, LOCK_HEAD
from hansard.store.postgres.session import (
    BUSY_S,
    Absence,
    Connection,
    connect,
    is_live,
    is_over,
    reason,
    the_present,
    warnings_of,
    who_sees_the_past,
)
from hansard.store.sequence import Sequence

Clock = Callable[[], float]
End = tuple[int, bytes]
"""How many entries a log has, and the leaf hash of the last."""
LOOK_S = 0.05


class Turn(NamedTuple):
    """The session that writes, the head to place entries after, the time when the turn began, and what the server calls it."""

    writer: Connection
    sequence: Sequence
    now_us: int
    transaction: int = 0


class Writer:
    """The one writing session of a store. Its threads take turns here, and all writers on the server's lock."""

    def __init__(self, address: Address, clock: Clock | None) -> None:
        self._address = address
        self._clock = clock
        self._opener = Opener()
        self._mutex = threading.RLock()
        self._session: Connection | None = None
        self.seen: End | None = None
        """The furthest end of the log that anybody was told of here."""
        self._behind = False
        self._unsure = False
        self._absence = Absence()
        self._closed = False
        self.broken: str | None = None
        """Why the log may be read but not extended."""

    @contextmanager
    def turn(self, *, repairing: bool = False) -> Iterator[Turn]:
        """One durable commit around the block. A repair trusts no head and begins with an empty one."""
        self._opener.check(self._place)
        with self._mutex:
            try:
                turn = self._begin(repairing)
                yield turn
            except BaseException as error:
                kind = NotWritten if self._session and is_over(self._session, error) else Unavailable
                self._rollback()
                if isinstance(error, psycopg.Error):
                    raise kind(f"nothing was written to {self._place}: {self._why(error)}") from error
                raise
            self._commit(turn)
            self._behind = turn.sequence.behind
            self.seen = turn.sequence.size, turn.sequence.leaf

    def settle(self) -> None:
        """After a commit of unknown outcome the server may still be at it; its lock on the head tells when it is done."""
        if not self._unsure:
            return
        self._opener.check(self._place)
        with self._mutex:
            try:
                self._begin(repairing=False)
            except psycopg.Error as error:
                raise Unavailable(f"cannot read {self._place}: {self._why(error)}") from error
            finally:
                self._rollback()

    def vacuum(self, *tables: str) -> None:
        """Let the server give up the rows that were deleted, and clean their pages."""
        seen_by = self._who_still_sees_them()
        with self._mutex:
            try:
                session = self._alive()
                with session.unhurried():
                    refused = warnings_of(session, f"VACUUM {', '.join(tables)}")
            except psycopg.Error as error:
                self._drop()
                raise StoreError(f"{self._place} could not be vacuumed: {self._why(error)}") from error
            if refused:
                # Whoever is not the owner of a table gets no error: it is passed over.
                raise StoreError(f"{self._place} could not be vacuumed: {self._address.clean('; '.join(refused))}")
            if seen_by:
                who = self._address.clean(", ".join(seen_by))
                raise StoreError(f"{self._place} still holds it for whoever began to read before: {who}")

    def _who_still_sees_them(self) -> list[str]:
        """Who began to read before the rows were deleted, once those who are soon done had time to end. Others write meanwhile."""
        now, until = "", time.monotonic() + BUSY_S
        while True:
            with self._mutex:
                try:
                    now = now or the_present(self._alive())
                    found = who_sees_the_past(self._alive(), now)
                except psycopg.Error as error:
                    self._drop()
                    raise StoreError(f"{self._place} could not be vacuumed: {self._why(error)}") from error
            if not found or time.monotonic() > until:
                return found
            time.sleep(LOOK_S)

    def close(self) -> None:
        if not self._opener.is_here():
            return
        with self._mutex:
            self._closed = True
            self._drop()

    @property
    def _place(self) -> str:
        return self._address.place

    def _begin(self, repairing: bool) -> Turn:
        """A turn, as soon as there is a server. One that is gone is waited for once, and whoever comes later is told at once."""
        while True:
            try:
                turn = self._begin_now(repairing)
            except (psycopg.OperationalError, Unavailable) as error:
                if self._session is not None and not is_over(self._session, error):
                    raise
                self._drop()
                if not self._absence.wait():
                    raise
            else:
                self._absence.end()
                return turn

    def _begin_now(self, repairing: bool) -> Turn:
        writer, seen = self._alive(), self.seen
        # One message for all statements, so that a turn begins with one round trip.
        cursor = writer.execute(
            f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {LOCK_ALL if repairing else LOCK_HEAD}"
        )
        while cursor.nextset():
            pass
        row = cursor.fetchone()
        if row is None:
            raise StoreError(f"{self._place} has no head row; {repair_of(self._place)}")
        self._unsure = False
        now_us = int(self._clock() * 1_000_000) if self._clock else row[-1]
        sequence = Sequence() if repairing else sequence_of(row, self._place)
        if not repairing and not self.has_grown(writer, seen, (sequence.size, sequence.leaf)):
            raise self.refusal()
        sequence.behind = self._behind
        return Turn(writer, sequence, now_us, row[-2])

    def has_grown(self, session: Connection, seen: End | None, now: End) -> bool:
        """Whether the log that ends so now is the one that had been `seen` before it was read. A log only grows: after a restore,
        or a failover that lost commits, what is written next would stand in the place of what somebody here goes by, and be
        signed there. So it is called broken."""
        size, leaf = seen or now
        if now[0] > size:
            row = session.execute("SELECT line FROM entries WHERE seq = %s", (size - 1,), binary=True).fetchone()
            grown = row is not None and leaf_hash(row[0]) == leaf
        else:
            grown = now == (size, leaf)
        if not grown:
            self.broken = f"it was replaced, or put back to before entry {size - 1}, while it was open"
        elif self.seen is None or now[0] > self.seen[0]:
            self.seen = now
        return grown

    def refusal(self) -> StoreError:
        """What whoever wants to extend a broken log is told."""
        return StoreError(f"{self._place} may not be extended: {self.broken}; {verify_of(self._place)}")

    def _alive(self) -> Connection:
        if self._closed:
            raise StoreError(f"{self._place} is closed")
        if self._session is None or not is_live(self._session):
            self._drop()
            self._session = connect(self._address, writing=True)
        return self._session

    def _commit(self, turn: Turn) -> None:
        try:
            answer = turn.writer.execute("COMMIT").statusmessage
        except BaseException as error:
            self._unsure = True
            self._drop()
            if not isinstance(error, psycopg.Error):
                raise
            outcome = self._outcome(turn)
            if outcome == "aborted":
                raise NotWritten(f"nothing was written to {self._place}: {self._why(error)}") from error
            if outcome != "committed":
                raise OutcomeUnknown(
                    f"{self._place}: the commit failed ({self._why(error)}); its entries may or may not be there:"
                    " read the head before going on"
                ) from error
            return
        if answer != "COMMIT":
            raise Unavailable(f"nothing was written to {self._place}: the server answered COMMIT with {answer}")

    def _outcome(self, turn: Turn) -> str | None:
        """What the server says of a commit that had no answer, once its lock on the head tells that it is over."""
        try:
            now = self._begin(repairing=False)
            [(outcome,)] = now.writer.execute("SELECT txid_status(%s)", (turn.transaction,)).fetchall()
            end = turn.sequence.size, turn.sequence.leaf
            # After a failover the same number may be that of another transaction.
            if outcome == "committed" and not self.has_grown(now.writer, end, (now.sequence.size, now.sequence.leaf)):
                raise self.refusal()
        except (psycopg.Error, Unavailable):
            return None
        finally:
            self._rollback()
        return str(outcome)

    def _rollback(self) -> None:
        """Undo what the server holds of this turn; a session that cannot say so is dropped, which undoes it too."""
        try:
            if self._session is not None:
                self._session.execute("ROLLBACK")
        except psycopg.Error:
            self._drop()

    def _drop(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _why(self, error: psycopg.Error) -> str:
        return reason(error, self._address)


def sequence_of(row: tuple[Any, ...], place: str) -> Sequence:
    """The head row as a Sequence; StoreError when it is none."""
    size, leaf, ts, frontier = row[:4]
    try:
        return Sequence(leaf=leaf, ts=ts, frontier=Frontier.from_bytes(size, frontier))
    except Malformed as error:
        raise StoreError(f"the head row of {place} is damaged: {error}; {repair_of(place)}") from error
