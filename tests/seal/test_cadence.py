import pytest

from hansard.seal.cadence import due, passed, rotation_due, utc_day

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("size", "now_s", "last_size", "last_s", "expected"),
    [
        (10, NOW, 10, NOW - 3600, False),
        (10, NOW, 12, NOW - 3600, False),
        (10, NOW, 10, None, False),
        (11, NOW, 10, NOW - 9.9, False),
        (11, NOW, 10, NOW - 10, True),
        (265, NOW, 10, NOW - 1, False),
        (266, NOW, 10, NOW - 1, True),
        (11, NOW, 10, None, True),
        (11, NOW, 10, NOW + 60, True),
    ],
)
def test_a_checkpoint_is_due_after_256_entries_or_ten_seconds_and_never_without_news(
    size: int, now_s: float, last_size: int, last_s: float | None, expected: bool
) -> None:
    assert due(size, now_s, last_size, last_s) is expected


@pytest.mark.parametrize(
    ("size", "days", "expected"),
    [
        (100, 1, None),
        (101, 0, None),
        (101, 1, "day"),
        (101, 400, "day"),
        (101, -1, None),
        (10_099, 0, None),
        (10_100, 0, "size"),
        (10_100, 1, "size"),
    ],
)
def test_a_key_retires_each_active_day_and_each_ten_thousand_entries(
    size: int, days: int, expected: str | None
) -> None:
    assert rotation_due(size, NOW + days * 86_400, (100, utc_day(NOW))) == expected


def test_a_day_ends_at_midnight_utc() -> None:
    midnight = utc_day(NOW) * 86_400.0
    assert rotation_due(2, midnight - 0.001, (1, utc_day(NOW) - 1)) is None
    assert rotation_due(2, midnight, (1, utc_day(NOW) - 1)) == "day"


def test_a_clock_that_was_set_back_ends_a_wait() -> None:
    assert not passed(NOW, NOW, 5)
    assert not passed(NOW + 4.9, NOW, 5)
    assert passed(NOW + 5, NOW, 5)
    assert passed(NOW - 0.1, NOW, 5)
