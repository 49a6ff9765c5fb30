"""The folder in which a program works: an empty one, a copy of a folder, or a git worktree whose changes are kept.

Always a folder of its own, removed afterwards, whatever happened in it. Git runs without anybody's hooks and without
the user's configuration, so that what is recorded does not depend on who ran it.
"""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import Event
from typing import Literal, assert_never, get_args

from hansard.domain.value import value
from hansard.errors import ProviderError, UsageError
from hansard.finishing import to_the_end
from hansard.providers.options import Options
from hansard.providers.programs.environment import passed_on
from hansard.providers.programs.process import Program, run
from hansard.providers.programs.temporary import PREFIX, REPOSITORY, new_folder, remove, unlist, worktree_name

MAX_BYTES = 512 * 1024 * 1024
MAX_DIFF_BYTES = 64 * 1024 * 1024
_GIT = (
    *("git", "-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false"),
    *(
        "-c",
        "core.quotePath=true",
        "-c",
        "gc.auto=0",
        "-c",
        "maintenance.auto=false",
        "-c",
        "advice.detachedHead=false",
    ),
)
_QUIET = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
}
_OF_ITS_PLACE = {b"core.bare", b"core.worktree", b"extensions.worktreeconfig", b"extensions.refstorage"}
_FOREIGN = "detected dubious ownership"
_threads: ThreadPoolExecutor

Kind = Literal["none", "copy", "worktree"]
OF_KIND: Mapping[str, tuple[Kind, ...]] = {
    "source": ("copy", "worktree"),
    "commit": ("worktree",),
    "max_workspace_bytes": ("copy",),
}
"""The options of a workspace, and the kinds that heed them."""


def _begin_threads() -> None:
    """A large folder takes its time, and none of the threads that everybody reads with. A forked child has none of its parent's."""
    global _threads
    _threads = ThreadPoolExecutor(4, "hansard-workspace")


_begin_threads()
os.register_at_fork(after_in_child=_begin_threads)


@value
class Workspace:
    """Where to work. `source` is the folder to copy, or the repository of which `commit` is checked out."""

    kind: Kind = "none"
    source: Path | None = None
    commit: str = "HEAD"
    max_bytes: int = MAX_BYTES
    max_diff_bytes: int = MAX_DIFF_BYTES

    def __post_init__(self) -> None:
        if self.kind not in ("none", "copy", "worktree"):
            raise UsageError(f"workspace {self.kind!r} is unknown: it is none, copy or worktree")
        if self.kind != "none" and self.source is None:
            raise UsageError(f"a workspace of kind {self.kind} needs `source`, the folder that it is made from")
        if self.commit.startswith("-"):
            raise UsageError(f"commit {self.commit!r} looks like an option of git; name a commit, a branch or a tag")


@value
class Place:
    """A prepared workspace. `beside` is a private folder next to it, for what the program shall read but not find."""

    folder: Path
    beside: Path
    changes: Callable[[], Awaitable[bytes | None]]


def workspace_of(options: Options) -> Workspace:
    """From `workspace`, `source`, `commit` and `max_workspace_bytes`; a relative source is meant from here, and is there."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    kind, source = options.one_of("workspace", kinds), options.text("source")
    commit, max_bytes = options.text("commit", "HEAD"), options.count("max_workspace_bytes", MAX_BYTES)
    for name, heeding in OF_KIND.items():
        if options.has(name) and kind not in heeding:
            wanted = " or ".join(f'workspace = "{each}"' for each in heeding)
            raise UsageError(f"{options.where}: {name} belongs to {wanted}; add that, or leave it out")
    folder = Path(source).absolute() if source else None
    try:
        made = Workspace(kind=kind, source=folder, commit=commit, max_bytes=max_bytes)
    except UsageError as error:
        raise UsageError(f"{options.where}: {error}") from error
    if kind != "none" and folder is not None and not folder.is_dir():
        raise UsageError(f"{options.where}: source {folder} is no folder; name the one that the workspace is made from")
    return made


@asynccontextmanager
async def prepared(workspace: Workspace, environment: Mapping[str, str]) -> AsyncIterator[Place]:
    """A workspace to work in, removed afterwards. ProviderError where it cannot be made."""
    try:
        top = new_folder()
    except OSError as error:
        raise ProviderError(
            f"no temporary folder could be made: {error.strerror or error}; set TMPDIR to a place with room"
        ) from error
    folder, beside = top / "work", top / "beside"
    try:
        beside.mkdir(mode=0o700)
        match workspace.kind:
            case "none":
                folder.mkdir()
                yield Place(folder=folder, beside=beside, changes=_no_changes)
            case "copy":
                await _copied(workspace, folder)
                yield Place(folder=folder, beside=beside, changes=_no_changes)
            case "worktree":
                async with _worktree(workspace, top, folder, beside, environment) as place:
                    yield place
            case never:
                assert_never(never)
    finally:
        await to_the_end(_aside(remove, top))


def _aside(work: Callable[..., None], *args: object) -> Awaitable[None]:
    return asyncio.get_running_loop().run_in_executor(_threads, work, *args)


async def _no_changes() -> None:
    return None


async def _copied(workspace: Workspace, folder: Path) -> None:
    """Copy aside. Many files take long, so a cancellation stops that at the next one, and waits no longer."""
    unwanted = Event()
    copying = asyncio.ensure_future(_aside(_copy, workspace, folder, unwanted))
    try:
        await asyncio.shield(copying)
    except asyncio.CancelledError:
        unwanted.set()
        with suppress(ProviderError):
            await to_the_end(copying)
        raise


def _copy(workspace: Workspace, folder: Path, unwanted: Event) -> None:
    """Copy files, folders and links; what is none of these is left out. Links are kept as links, wherever they point.

    The folders that programs work in are left out too: where they lie within the source, it would be copied into itself.
    """
    source = workspace.source
    assert source is not None
    if not source.is_dir():
        raise ProviderError(f"workspace: {source} is no folder that could be copied")
    left = workspace.max_bytes
    for path, size in _files(source):
        _go_on(unwanted)
        left -= size
        if left < 0:
            raise ProviderError(
                f"workspace: {source} is larger than {workspace.max_bytes} bytes (at {path}); raise max_workspace_bytes"
            )

    def copied(here: str, there: str) -> None:
        _go_on(unwanted)
        shutil.copy2(here, there)

    def skipped(here: str, names: list[str]) -> set[str]:
        _go_on(unwanted)
        return {name for name in names if name.startswith(PREFIX) or not _ordinary(os.path.join(here, name))}

    try:
        shutil.copytree(source, folder, symlinks=True, ignore=skipped, copy_function=copied)
    except (OSError, shutil.Error) as error:
        raise ProviderError(f"workspace: {source} could not be copied: {error}") from error


def _go_on(unwanted: Event) -> None:
    if unwanted.is_set():
        raise ProviderError("workspace: the copy is not wanted any more")


def _files(source: Path) -> Iterator[tuple[str, int]]:
    for here, folders, names in os.walk(source):
        folders[:] = [name for name in folders if not name.startswith(PREFIX)]
        for name in names:
            path = os.path.join(here, name)
            with suppress(OSError):
                yield path, os.lstat(path).st_size


def _ordinary(path: str) -> bool:
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


class _Git:
    """Git in one environment. Its output is bounded; a failure is a ProviderError that quotes it."""

    def __init__(self, environment: Mapping[str, str], *, max_bytes: int) -> None:
        self._environment = {**passed_on(environment), **_QUIET}
        self._max_bytes = max_bytes

    async def run(self, folder: Path, *arguments: str, **also: str) -> bytes:
        ran = await run(
            Program(
                argv=(*_GIT, *arguments),
                folder=folder,
                environment={**self._environment, **also},
                max_output_bytes=self._max_bytes,
            )
        )
        if ran.exit_code != 0:
            said = ran.stderr.decode("utf-8", "replace").strip()[-1000:]
            if _FOREIGN in said:
                raise ProviderError(
                    f"workspace: the repository of {folder} belongs to another user, and git would obey his configuration; "
                    "name a clone of your own as the source (safe.directory is not read here)"
                )
            raise ProviderError(f"workspace: git {arguments[0]} in {folder} {ran.ending}: {said}")
        if ran.truncated:
            raise ProviderError(
                f"workspace: git {arguments[0]} printed {ran.stdout_bytes} bytes; at most {self._max_bytes} are kept"
            )
        return ran.stdout


@asynccontextmanager
async def _worktree(
    workspace: Workspace, top: Path, folder: Path, beside: Path, environment: Mapping[str, str]
) -> AsyncIterator[Place]:
    source = workspace.source
    assert source is not None
    if not source.is_dir():
        raise ProviderError(f"workspace: {source} is no folder, and so no repository")
    git = _Git(environment, max_bytes=workspace.max_diff_bytes)
    asked = ("--path-format=absolute", "--git-common-dir", "--verify", "--end-of-options")
    named = await git.run(source, "rev-parse", *asked, f"{workspace.commit}^{{commit}}")
    repository, commit = os.fsdecode(named).rstrip("\n").rsplit("\n", 1)
    here = folder / worktree_name(top)
    # Whoever removes this folder after we were killed must know where the worktree is listed.
    os.symlink(repository, top / REPOSITORY)
    listed = Path(repository, "worktrees", here.name)
    try:
        await git.run(source, "worktree", "add", "--detach", "--quiet", str(here), commit)
        rules = await _rules(git, here, listed)
        yield Place(folder=here, beside=beside, changes=lambda: _changes(git, here, beside, rules, commit))
    finally:
        await to_the_end(_aside(unlist, top, Path(repository)))


@value
class _Rules:
    """What the repository said of its files before the program came, and where its objects lie.

    A worktree shares its repository's settings: a filter, an attribute or a file to be ignored that a program writes there
    would hide what it changed, and git would run the filter's command.
    """

    objects: Path
    files: Mapping[str, bytes]


async def _rules(git: _Git, here: Path, listed: Path) -> _Rules:
    repository = listed.parents[1]
    settings = await git.run(here, "config", "--list", "--null")
    files = {"config": b"".join(_settings(settings)), "HEAD": b"ref: refs/heads/none\n"}
    read = (repository, "info/attributes"), (repository, "info/exclude"), (listed, "info/sparse-checkout")
    for place, name in read:
        # Git passes over what it cannot read, too.
        with suppress(OSError):
            files[name] = (place / name).read_bytes()
    return _Rules(objects=repository / "objects", files=files)


def _settings(listed: bytes) -> Iterator[bytes]:
    """A file of settings, from git's own list of them; without what is true of that repository alone."""
    for entry in listed.split(b"\0")[:-1]:
        key, valued, text = entry.partition(b"\n")
        section, _, rest = key.partition(b".")
        subsection, _, name = rest.rpartition(b".")
        if section in (b"include", b"includeif") or key in _OF_ITS_PLACE:
            continue
        yield b"[%s%s]\n" % (section, b" " + _quoted(subsection) if subsection else b"")
        yield b"%s = %s\n" % (name, _quoted(text).replace(b"\n", b"\\n")) if valued else name + b"\n"


def _quoted(text: bytes) -> bytes:
    return b'"%s"' % text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


async def _changes(git: _Git, here: Path, beside: Path, rules: _Rules, commit: str) -> bytes:
    """Everything that differs from the commit, committed or not, new files included; what is ignored is left out.

    Seen from a repository of our own, which has the other's objects and what that said at first: looking leaves nothing
    there, and neither an index nor a setting nor another repository that a program put in its place hides anything.
    """
    await to_the_end(_aside(_make_plain, here, beside.parent))
    try:
        own = Path(mkdtemp(prefix="git-", dir=beside))
        for name in ("objects", "refs", "info"):
            (own / name).mkdir()
        for name, content in rules.files.items():
            (own / name).write_bytes(content)
    except OSError as error:
        raise ProviderError(f"workspace: what changed in {here} cannot be looked at: {error.strerror}") from error
    objects = str(rules.objects).replace("\\", "\\\\").replace('"', '\\"')
    apart = {
        "GIT_DIR": str(own),
        "GIT_WORK_TREE": str(here),
        # In quotes: a colon would separate.
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"',
    }
    await git.run(here, "read-tree", commit, **apart)
    # In two steps: what a sparse checkout never had here is not removed, and what the program put there is new.
    await git.run(here, "add", "--ignore-removal", "--sparse", ".", **apart)
    await git.run(here, "add", "--update", ".", **apart)
    shown = ("--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-renames")
    return await git.run(here, "diff-index", "--cached", "-p", *shown, commit, "--", **apart)


def _make_plain(here: Path, top: Path) -> None:
    """A worktree without the repositories that were made within it, and empty where all of it was removed.

    Of each of them git would keep the name of a commit that is about to be removed, or refuse everything where it has none.
    """
    if here.resolve() != top.resolve() / here.relative_to(top):
        raise ProviderError(f"workspace: the program put a link in place of {here}; what it changed is not known")
    here.mkdir(parents=True, exist_ok=True)
    for folder, folders, names in os.walk(here):
        if ".git" in folders:
            folders.remove(".git")
        elif ".git" not in names:
            continue
        if folder != str(here):
            # Where a program protected it, too. A file or a link names one that lies elsewhere, as worktrees and submodules have it.
            os.chmod(folder, 0o700)
            own = Path(folder, ".git")
            if own.is_symlink() or not own.is_dir():
                own.unlink()
            else:
                remove(own)
