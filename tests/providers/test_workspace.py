"""Folders that programs work in: apart from everything, removed afterwards, and with real git where there is git."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hansard.errors import ProviderError, UsageError
from hansard.providers.options import Options
from hansard.providers.programs.temporary import PREFIX
from hansard.providers.programs.workspace import Workspace, prepared, workspace_of
from providers.programs import SEES

IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where workspaces are made. After every test there is nothing left but the empty folder of this process."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert [list(own.iterdir()) for own in folder.iterdir()] in ([], [[]])


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ("git", *IDENTITY, *arguments),
        cwd=folder,
        env={**SEES, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def apply(folder: Path, diff: bytes) -> None:
    subprocess.run(("git", "apply", "-"), cwd=folder, input=diff, env=SEES, check=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "a repository: with odd characters"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "kept.txt").write_text("one\ntwo\n")
    (folder / "gone.txt").write_text("going\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


async def test_none_is_an_empty_folder_that_is_removed() -> None:
    async with prepared(Workspace(), SEES) as place:
        assert list(place.folder.iterdir()) == []
        assert place.beside not in place.folder.parents
        (place.folder / "made").write_text("something")
        assert await place.changes() is None
    assert not place.folder.exists()


async def test_a_folder_is_removed_also_when_the_work_in_it_fails_or_is_cancelled() -> None:
    with pytest.raises(ZeroDivisionError):
        async with prepared(Workspace(), SEES):
            raise ZeroDivisionError
    started = asyncio.Event()

    async def work() -> None:
        async with prepared(Workspace(), SEES):
            started.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_a_program_protected_is_removed_all_the_same() -> None:
    async with prepared(Workspace(), SEES) as place:
        inner = place.folder / "locked"
        inner.mkdir()
        (inner / "file").write_text("x")
        inner.chmod(0o500)


async def test_a_copy_is_worked_on_and_the_original_stays(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file").write_text("original")
    (source / "link").symlink_to("deep/file")
    os.mkfifo(source / "pipe")
    async with prepared(Workspace(kind="copy", source=source), SEES) as place:
        copied = place.folder / "deep" / "file"
        assert copied.read_text() == "original"
        assert (place.folder / "link").readlink() == Path("deep/file")
        assert not (place.folder / "pipe").exists()
        copied.write_text("changed")
    assert (source / "deep" / "file").read_text() == "original"


async def test_a_copy_that_would_be_too_large_is_refused_before_it_is_made(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "big").write_bytes(b"x" * 2000)
    with pytest.raises(ProviderError, match=r"larger than 1000 bytes .*; raise max_workspace_bytes$"):
        async with prepared(Workspace(kind="copy", source=source, max_bytes=1000), SEES):
            pass


async def test_a_copy_of_many_files_ends_soon_when_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(1200):
        (source / str(number)).write_text("one of many")
    copy = shutil.copyfile

    def on_a_slow_disk(here: str, there: str, *, follow_symlinks: bool = True) -> str:
        time.sleep(0.05)
        return copy(here, there, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(shutil, "copyfile", on_a_slow_disk)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), prepared(Workspace(kind="copy", source=source), SEES):
            pytest.fail("the copy would take a minute")
    assert time.monotonic() - started < 30


async def test_a_folder_in_which_workspaces_are_made_is_copied_without_them(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x" * 60)
    source = Workspace(kind="copy", source=tmp_path, max_bytes=100)
    async with prepared(source, SEES), prepared(source, SEES) as place:
        assert sorted(place.folder.rglob("*")) == [place.folder / "file", place.folder / "temporary"]


@pytest.mark.parametrize("kind", ["copy", "worktree"])
async def test_a_source_that_is_no_folder_is_named(kind: str, tmp_path: Path) -> None:
    gone = tmp_path / "nowhere"
    gone.mkdir()
    workspace = workspace_of(Options("mine", {"workspace": kind, "source": str(gone)}))
    gone.rmdir()
    with pytest.raises(ProviderError, match="nowhere is no folder"):
        async with prepared(workspace, SEES):
            pass


async def test_a_worktree_gives_the_diff_of_everything_that_changed(repository: Path) -> None:
    binary = bytes(range(256))
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        (place.folder / "kept.txt").write_text("one\n2\n")
        (place.folder / "gone.txt").unlink()
        (place.folder / "new file.bin").write_bytes(binary)
        (place.folder / "noise.log").write_text("ignored")
        diff = await place.changes()
    assert diff is not None
    # The diff is all that is needed to do it again.
    apply(repository, diff)
    assert (repository / "kept.txt").read_text() == "one\n2\n"
    assert not (repository / "gone.txt").exists()
    assert (repository / "new file.bin").read_bytes() == binary
    assert not (repository / "noise.log").exists()


async def test_what_was_committed_in_a_worktree_is_in_its_diff(repository: Path) -> None:
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        (place.folder / "kept.txt").write_text("committed\n")
        git(place.folder, "commit", "-q", "-a", "-m", "by the program")
        diff = await place.changes()
    assert b"+committed" in (diff or b"")


async def test_an_unchanged_worktree_has_an_empty_diff(repository: Path) -> None:
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        assert await place.changes() == b""


async def test_an_index_that_hides_a_change_hides_nothing(repository: Path) -> None:
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        (place.folder / "kept.txt").write_text("hidden\n")
        git(place.folder, "update-index", "--assume-unchanged", "kept.txt")
        assert b"+hidden" in (await place.changes() or b"")


@pytest.mark.parametrize("its", ["begun", "committed", "elsewhere", "linked", "protected"])
async def test_the_files_of_a_repository_that_a_program_made_within_are_in_the_diff(
    repository: Path, its: str, tmp_path: Path
) -> None:
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        inner, elsewhere = place.folder / "inner", tmp_path / "elsewhere"
        inner.mkdir()
        apart = its in ("elsewhere", "linked", "protected")
        git(inner, "init", "-q", *([f"--separate-git-dir={elsewhere}"] if apart else []))
        if its == "linked":
            (inner / ".git").unlink()
            (inner / ".git").symlink_to(elsewhere)
        (inner / "new.txt").write_text("new\n")
        if its != "begun":
            git(inner, "add", ".")
            git(inner, "commit", "-q", "-m", "inner")
        if its == "protected":
            inner.chmod(0o500)
        diff = await place.changes()
    assert diff
    apply(repository, diff)
    assert (repository / "inner" / "new.txt").read_text() == "new\n"
    assert elsewhere.is_dir() is apart


async def test_a_commit_that_a_program_replaces_is_the_commit_that_it_was(repository: Path) -> None:
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        (place.folder / "kept.txt").write_text("hidden\n")
        git(place.folder, "commit", "-q", "-a", "-m", "hidden")
        git(place.folder, "replace", "-f", "HEAD~1", "HEAD")
        assert b"+hidden" in (await place.changes() or b"")
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        assert (place.folder / "kept.txt").read_text() != "hidden\n"


@pytest.mark.parametrize("hidden_by", ["filter", "exclude", "sparse"])
async def test_what_a_program_writes_into_the_repository_s_settings_hides_nothing(
    repository: Path, hidden_by: str, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        (place.folder / "kept.txt").write_text("hidden\n")
        (place.folder / "new.txt").write_text("hidden\n")
        info = repository / ".git" / "info"
        info.mkdir(exist_ok=True)
        if hidden_by == "filter":
            git(place.folder, "config", "filter.hide.clean", f"touch {ran}; git show HEAD:kept.txt")
            (info / "attributes").write_text("* filter=hide\n")
        elif hidden_by == "exclude":
            (info / "exclude").write_text("*\n")
        else:
            (place.folder / "gone.txt").unlink()
            (place.folder / "kept.txt").unlink()
            git(place.folder, "sparse-checkout", "set", "--no-cone", "/new.txt")
        diff = await place.changes() or b""
    changed = [line.split()[-1] for line in diff.splitlines() if line.startswith(b"diff ")]
    gone = [b"b/.gitignore", b"b/gone.txt"] if hidden_by == "sparse" else []
    assert changed == [*gone, b"b/kept.txt", b"b/new.txt"]
    assert not ran.exists()


async def test_attributes_that_are_no_file_are_passed_over_as_git_does(repository: Path) -> None:
    (repository / ".git" / "info" / "attributes").mkdir(parents=True)
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        (place.folder / "kept.txt").write_text("changed\n")
        assert b"+changed" in (await place.changes() or b"")


async def test_a_diff_that_cannot_be_looked_at_is_told(repository: Path) -> None:
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        place.beside.rmdir()
        with pytest.raises(ProviderError, match="cannot be looked at: No such file or directory"):
            await place.changes()


async def test_the_filters_and_settings_that_a_repository_had_before_are_obeyed(repository: Path) -> None:
    odd = 'one "two" \\ three # four\n; five'
    git(repository, "config", "filter.shout.clean", "tr a-z A-Z")
    git(repository, "config", "filter.shout.smudge", "cat")
    git(repository, "config", f"filter.{odd.replace(chr(10), '')}.clean", odd)
    git(repository, "config", "core.autocrlf", "input")
    settings = repository / ".git" / "config"
    settings.write_text(f"{settings.read_text()}[filter.shout]\n\trequired\n")
    (repository / ".git" / "info" / "attributes").write_text("*.loud filter=shout\n")
    (repository / "said.loud").write_text("quiet\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "loud")
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        assert (place.folder / "said.loud").read_text() == "QUIET\n"
        (place.folder / "said.loud").write_text("quiet\n")
        assert await place.changes() == b""
        (own,) = place.beside.glob("git-*")
        held = git(place.folder, "config", "--file", str(own / "config"), f"filter.{odd.replace(chr(10), '')}.clean")
    assert held.rstrip("\n") == odd


@pytest.mark.parametrize("put_in_place", ["nothing", "another repository"])
async def test_a_worktree_whose_link_to_its_repository_is_gone_has_its_diff(
    repository: Path, put_in_place: str
) -> None:
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        (place.folder / ".git").unlink()
        if put_in_place == "another repository":
            git(place.folder, "init", "-q")
        (place.folder / "gone.txt").unlink()
        diff = await place.changes()
    assert diff
    apply(repository, diff)
    assert not (repository / "gone.txt").exists()


async def test_a_worktree_that_a_program_removed_has_the_diff_of_that(repository: Path) -> None:
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        shutil.rmtree(place.folder)
        diff = await place.changes()
    assert diff
    assert diff.count(b"deleted file mode") == 3


async def test_a_link_in_place_of_a_worktree_is_not_followed(repository: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        shutil.rmtree(place.folder)
        place.folder.symlink_to(elsewhere)
        with pytest.raises(ProviderError, match="put a link in place of"):
            await place.changes()


async def test_of_a_sparse_checkout_only_what_changed_is_in_the_diff(repository: Path) -> None:
    for name in ("inside", "outside"):
        (repository / name).mkdir()
        (repository / name / "file").write_text("old\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "second")
    git(repository, "sparse-checkout", "set", "inside")
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        assert await place.changes() == b""
        assert not (place.folder / "outside").exists()
        (place.folder / "inside" / "file").unlink()
        (place.folder / "outside").mkdir()
        (place.folder / "outside" / "new").write_text("new\n")
        diff = await place.changes()
    assert diff
    changed = [line for line in diff.splitlines() if line.startswith(b"diff ")]
    assert changed == [
        b"diff --git a/inside/file b/inside/file",
        b"diff --git a/outside/new b/outside/new",
    ]


async def test_a_worktree_leaves_nothing_in_the_repository(repository: Path) -> None:
    before = git(repository, "count-objects", "-v"), git(repository, "status", "--porcelain")
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        (place.folder / "new.txt").write_text("new")
        await place.changes()
        assert len(git(repository, "worktree", "list").splitlines()) == 2
    assert (git(repository, "count-objects", "-v"), git(repository, "status", "--porcelain")) == before
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("locked", [False, True])
async def test_a_worktree_that_a_program_destroyed_is_forgotten(repository: Path, locked: bool) -> None:
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        if locked:
            git(repository, "worktree", "lock", str(place.folder))
        (place.folder / ".git").unlink()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


async def test_a_worktree_is_made_of_the_commit_that_is_named(repository: Path) -> None:
    git(repository, "tag", "old")
    (repository / "kept.txt").write_text("newer\n")
    git(repository, "commit", "-q", "-a", "-m", "second")
    async with prepared(Workspace(kind="worktree", source=repository, commit="old"), SEES) as place:
        assert (place.folder / "kept.txt").read_text() == "one\ntwo\n"


async def test_worktrees_of_one_repository_are_made_at_the_same_time(repository: Path) -> None:
    async def one(number: int) -> bytes | None:
        async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
            (place.folder / "mine").write_text(f"number {number}")
            return await place.changes()

    diffs = await asyncio.gather(*map(one, range(3)))
    assert [f"number {number}".encode() in (diff or b"") for number, diff in enumerate(diffs)] == [True] * 3


async def test_an_unfinished_worktree_is_forgotten_when_it_is_cancelled(repository: Path) -> None:
    async def work() -> None:
        async with prepared(Workspace(kind="worktree", source=repository), SEES):
            await asyncio.sleep(60)

    for pause_s in (0.0, 0.15, 0.3):
        task = asyncio.create_task(work())
        await asyncio.sleep(pause_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(git(repository, "worktree", "list").splitlines()) == 1


async def test_nobodys_hooks_run(repository: Path, tmp_path: Path) -> None:
    trace = tmp_path / "a-hook-ran"
    for name in ("post-checkout", "pre-commit", "reference-transaction", "post-index-change"):
        hook = repository / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch '{trace}'\n")
        hook.chmod(0o755)
    async with prepared(Workspace(kind="worktree", source=repository), SEES) as place:
        await place.changes()
    assert not trace.exists()


async def test_a_commit_that_does_not_exist_is_quoted_from_git(repository: Path) -> None:
    with pytest.raises(ProviderError, match="git rev-parse"):
        async with prepared(Workspace(kind="worktree", source=repository, commit="no-such-branch"), SEES):
            pass


@pytest.mark.needs_root
async def test_a_repository_of_another_user_is_refused_in_words_that_help(repository: Path) -> None:
    for each in (repository, repository / ".git"):
        os.chown(each, 4321, 4321)
    with pytest.raises(ProviderError, match=r"belongs to another user.*name a clone of your own") as refused:
        async with prepared(Workspace(kind="worktree", source=repository), SEES):
            pass
    # What git proposes would change nothing: the user's configuration is not read here.
    assert "git config" not in str(refused.value)


async def test_a_diff_that_is_too_large_is_refused_and_not_cut(repository: Path) -> None:
    async with prepared(Workspace(kind="worktree", source=repository, max_diff_bytes=500), SEES) as place:
        (place.folder / "big").write_bytes(os.urandom(5000))
        with pytest.raises(ProviderError, match="at most 500 are kept"):
            await place.changes()


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"workspace": "cloud"}, "one of none, copy, worktree"),
        ({"workspace": "copy"}, "needs `source`"),
        ({"workspace": "copy", "source": "/nowhere"}, "source /nowhere is no folder"),
        ({"workspace": "worktree", "source": __file__}, "is no folder"),
        ({"workspace": "worktree", "source": ".", "commit": "--upload-pack=x"}, "looks like an option"),
        ({"max_workspace_bytes": 0}, "max_workspace_bytes"),
        ({"source": "."}, 'source belongs to workspace = "copy" or workspace = "worktree"; add that'),
        ({"workspace": "copy", "source": ".", "commit": "HEAD"}, 'commit belongs to workspace = "worktree"'),
        ({"workspace": "worktree", "source": ".", "max_workspace_bytes": 9}, 'belongs to workspace = "copy"'),
    ],
)
def test_a_workspace_that_cannot_be_is_refused_when_it_is_configured(table: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        workspace_of(Options("mine", table))


WORKS = """
import asyncio, os, sys
from pathlib import Path
from hansard.providers.programs.workspace import Workspace, prepared

async def work(kind, source, then):
    async with prepared(Workspace(kind=kind, source=Path(source)), os.environ) as place:
        (place.folder / "made").write_text("something")
        print(place.folder, flush=True)
        if then == "wait":
            sys.stdin.read()

asyncio.run(work(*sys.argv[1:]))
"""
FORKS = """
import os, sys
from hansard.providers.programs.temporary import new_folder

print(new_folder(), flush=True)
for then in ("end", "wait"):
    if (child := os.fork()) == 0:
        print(new_folder(), flush=True)
        if then == "wait":
            sys.stdin.read()
        sys.exit()
    os.waitpid(child, 0)
"""
WORKS_AND_FORKS = """
import asyncio, os, signal

from hansard.providers.programs.workspace import Workspace, prepared

async def work():
    async with prepared(Workspace(), {}):
        pass

asyncio.run(work())
if os.fork() == 0:
    signal.alarm(60)
    asyncio.run(work())
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
Working = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def working(temporary: Path, tmp_path: Path) -> Iterator[Working]:
    """Processes that work in a workspace until their input ends, or not even so long."""
    started: list[subprocess.Popen[str]] = []
    environment = {**os.environ, "TMPDIR": str(temporary)}

    def start(
        kind: str = "none", source: Path = tmp_path, *, then: str = "wait", code: str = WORKS
    ) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", code, kind, str(source), then]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(argv, env=environment, **pipes))  # type: ignore[call-overload]
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def place_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().rstrip("\n"))


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def end(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("kind", ["none", "copy", "worktree"])
def test_what_a_killed_process_left_is_removed_by_the_next(
    kind: str, working: Working, temporary: Path, repository: Path
) -> None:
    killed = working(kind, repository)
    place = place_of(killed)
    place.chmod(0o500)
    kill(killed)
    assert (place / "made").exists()
    end(working(then="end"))
    assert list(temporary.iterdir()) == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert git(repository, "status", "--porcelain") == ""


def test_other_worktrees_of_a_repository_stay_listed(working: Working, repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "on a disk"))
    shutil.rmtree(tmp_path / "on a disk")
    killed, lives = working("worktree", repository), working("worktree", repository)
    place_of(killed)
    there = place_of(lives)
    kill(killed)
    end(working(then="end"))
    listed = git(repository, "worktree", "list")
    assert len(listed.splitlines()) == 3
    assert "on a disk" in listed
    assert git(there, "status", "--porcelain") == "?? made\n"
    end(lives)


def test_what_a_living_process_works_in_stays_until_it_ends(working: Working, temporary: Path) -> None:
    lives = working()
    place = place_of(lives)
    end(working(then="end"))
    assert (place / "made").exists()
    end(lives)
    assert list(temporary.iterdir()) == []


def test_a_forked_child_neither_removes_what_its_parent_has_nor_keeps_it_locked(
    working: Working, temporary: Path
) -> None:
    parent = working(code=FORKS)
    of_parent, of_ended, of_waiting = place_of(parent), place_of(parent), place_of(parent)
    assert (of_parent.exists(), of_ended.exists(), of_waiting.exists()) == (True, False, True)
    kill(parent)
    end(working(then="end"))
    assert (of_parent.exists(), of_waiting.exists()) == (False, True)
    # The end of its input ends the child, and its end that of the output.
    parent.communicate(timeout=60)
    assert list(temporary.iterdir()) == []


def test_a_forked_child_works_in_a_workspace_as_its_parent_did(working: Working) -> None:
    parent = working(code=WORKS_AND_FORKS)
    parent.communicate(timeout=120)
    assert parent.returncode == 0


def test_many_processes_that_sweep_at_once_do_no_harm(working: Working, temporary: Path, repository: Path) -> None:
    left = [working("worktree", repository) for _ in range(4)]
    for each in left:
        place_of(each)
        kill(each)
    for each in [working(then="end") for _ in range(8)]:
        end(each)
    assert list(temporary.iterdir()) == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_only_folders_of_killed_processes_are_swept_and_never_through_a_link(
    working: Working, temporary: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    (kept / "inner").mkdir(parents=True)
    (kept / "file").write_text("mine")
    killed = working()
    own = place_of(killed).parents[1]
    kill(killed)
    (own / "link").symlink_to(kept)
    (own / "1" / "repository").symlink_to(kept)
    strangers = [temporary / "hansard-demo-x", temporary / f"{PREFIX}link", temporary / f"{PREFIX}file"]
    strangers[0].mkdir()
    strangers[1].symlink_to(kept)
    strangers[2].write_text("no folder")
    end(working(then="end"))
    assert sorted(temporary.iterdir()) == sorted(strangers)
    assert sorted(kept.iterdir()) == [kept / "file", kept / "inner"]
    strangers[0].rmdir()
    strangers[1].unlink()
    strangers[2].unlink()


async def test_work_goes_on_when_somebody_tidies_the_temporary_folder(temporary: Path) -> None:
    async with prepared(Workspace(), SEES):
        pass
    shutil.rmtree(temporary)
    for _ in range(2):
        with pytest.raises(ProviderError, match="no temporary folder could be made: No such file"):
            async with prepared(Workspace(), SEES):
                pass
    os.mkdir(temporary)
    async with prepared(Workspace(), SEES) as place:
        assert place.folder.is_dir()
