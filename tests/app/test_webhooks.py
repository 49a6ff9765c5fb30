"""The secret that webhooks are signed with, and how far each receiver has heard."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from hansard.app.posting import check_url
from hansard.app.serving.marks import Marks
from hansard.app.serving.webhooks import webhook_secret
from hansard.errors import StoreError, UsageError
from ledgers import memory
from store.disks import make_space, tmpfs


@pytest.mark.needs_root
def test_a_full_disk_leaves_no_empty_secret_behind(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 16) as disk:
        (disk / "serve").mkdir()
        with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(512))
        with pytest.raises(StoreError, match="No space left"):
            webhook_secret(disk / "serve")
        assert [path.name for path in (disk / "serve").iterdir()] == ["lock"]
        make_space(disk)
        assert len(webhook_secret(disk / "serve")) == 32


def test_a_file_without_a_secret_signs_nothing(tmp_path: Path) -> None:
    (tmp_path / "webhook-secret").touch()
    with pytest.raises(StoreError, match="there is no webhook secret"):
        webhook_secret(tmp_path)


def test_daemons_that_start_at_once_share_one_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(lambda _: webhook_secret(tmp_path / "serve"), range(64)))
    assert len(found) == 1
    assert sorted(path.name for path in (tmp_path / "serve").iterdir()) == ["lock", "webhook-secret"]


def test_daemons_of_one_user_leave_each_others_marks_alone(tmp_path: Path) -> None:
    store = memory()
    one, other = Marks(tmp_path, store), Marks(tmp_path, store)
    one.move("http://127.0.0.1/one", 5)
    other.move("http://127.0.0.1/other", 7)
    again = Marks(tmp_path, store)
    assert (again.of("http://127.0.0.1/one"), again.of("http://127.0.0.1/other")) == (5, 7)


def test_daemons_that_move_their_marks_at_once_lose_none(tmp_path: Path) -> None:
    store = memory()

    def moved(number: int) -> None:
        marks = Marks(tmp_path, store)
        for seq in range(50):
            marks.move(f"http://127.0.0.1/{number}", seq)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(moved, range(4)))
    again = Marks(tmp_path, store)
    assert [again.of(f"http://127.0.0.1/{number}") for number in range(4)] == [49] * 4


@pytest.mark.parametrize("who", ["ann:hunter-two@", ":hunter-two@", "hunter-two@", "ann:hunter-two:@", "@"])
def test_a_url_with_a_password_is_refused_and_not_quoted(who: str) -> None:
    with pytest.raises(UsageError, match="before the @ of this URL") as refused:
        check_url(f"https://{who}example.org/hook", "--webhook")
    assert "hunter" not in str(refused.value)
    check_url("https://example.org/@ann", "--webhook")
