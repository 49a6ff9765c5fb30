"""Our side for a stranger: the ledger floor under an interpreter that sees the standard library alone (-E -S)."""

import json
import sqlite3
import sys
from contextlib import closing
from hashlib import sha256

from bench.measure import Answer, Asked, serve, timed, timed_often


def verify(asked: Asked) -> Answer:
    """Full verification in one process."""
    sys.path.insert(0, asked["source"])
    from hansard.ledger.verify import Options
    from hansard.ledger.verify import verify as verify_ledger

    answer: Answer = {"count": 1}
    with timed(answer):
        report = verify_ledger(asked["ledger"], Options(jobs=1))
    if not report.ok:
        raise SystemExit(f"{report.verdict}: {report.first_bad}")
    return answer


def bare(asked: Asked) -> Answer:
    """What any verifier must do at the least: read each line, parse it, hash it."""
    answer: Answer = {"count": 1}
    with timed(answer), closing(sqlite3.connect(f"file:{asked['ledger']}?mode=ro", uri=True)) as connection:
        connection.text_factory = bytes
        for (line,) in connection.execute("SELECT line FROM entries ORDER BY seq"):
            json.loads(line)
            sha256(b"\x00" + line).digest()
    return answer


def receipt(asked: Asked) -> Answer:
    """Verify a receipt again and again."""
    sys.path.insert(0, asked["source"])
    from hansard.ledger.verify import verify as verify_receipt

    report = verify_receipt(asked["receipt"])
    if not report.ok or report.signed.checked != 2:
        raise SystemExit(f"{report.verdict}, {report.signed.checked} signatures: {report.first_bad}")
    return timed_often(lambda: verify_receipt(asked["receipt"]), asked["times"])


if __name__ == "__main__":
    serve({"verify": verify, "bare": bare, "receipt": receipt})
