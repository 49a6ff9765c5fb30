"""Reads which module of a source tree imports what, without importing any of it.

It knows Python's import statements and nothing about floors: the rules stand in test_boundaries.py.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

READERS = {"environ", "environb", "getenv", "getenvb"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import: `target` is the module it reaches, which for `from a import b` is `a.b` when that is a module."""

    target: str
    line: int
    relative: bool
    on_load: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRead:
    """One look at os.environ; `name` is the variable, or None when the code does not say it in place."""

    name: str | None
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    name: str
    imports: tuple[Import, ...]
    environment: tuple[EnvironmentRead, ...]
    bodies: tuple[int, ...]
    """The lines in which a store is asked for a body."""


Tree = Mapping[str, Module]


def read_tree(package: Path) -> Tree:
    """Every module under the package's folder, by dotted name."""
    files = {_dotted(path, package): path for path in sorted(package.rglob("*.py"))}
    return {name: _read_module(name, path, files) for name, path in files.items()}


def inside(name: str, *packages: str) -> bool:
    """Whether a module is one of these, or lies in one of them."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def parents(name: str) -> Iterator[str]:
    """The packages that a module lies in, from the inside out."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def circles(tree: Tree) -> list[tuple[str, ...]]:
    """Every group of modules that import each other in a ring, however late the import is made."""
    reach = {name: _reachable(name, tree) for name in tree}
    rings = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in tree}
    return sorted(ring for ring in rings if ring)


def rooms(tree: Tree, package: str) -> Tree:
    """What lies in one package, each folder in it taken for a single module."""
    height = package.count(".") + 2

    def room(name: str) -> str:
        return ".".join(name.split(".")[:height])

    members: dict[str, list[Import]] = {}
    for name, module in tree.items():
        if inside(name, package):
            targets = [replace(each, target=room(each.target)) for each in module.imports]
            members.setdefault(room(name), []).extend(each for each in targets if each.target != room(name))
    return {
        name: Module(name=name, imports=tuple(imports), environment=(), bodies=()) for name, imports in members.items()
    }


def loaded_by(start: str, tree: Tree) -> set[str]:
    """Every module, ours or not, that is loaded once `start` has been imported."""
    found, queue = set[str](), [start]
    while queue:
        name = queue.pop()
        if name in found:
            continue
        found.add(name)
        if name in tree:
            queue += [each.target for each in tree[name].imports if each.on_load]
            queue += [parent for parent in parents(name) if parent in tree]
    return found


def _reachable(start: str, tree: Tree) -> set[str]:
    found, queue = set[str](), [start]
    while queue:
        for each in tree[queue.pop()].imports:
            if each.target in tree and each.target not in found:
                found.add(each.target)
                queue.append(each.target)
    return found


def _dotted(path: Path, package: Path) -> str:
    parts = [package.name, *path.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read_module(name: str, path: Path, known: Mapping[str, Path]) -> Module:
    root = ast.parse(path.read_bytes(), filename=str(path))
    home = name if path.name == "__init__.py" else name.rpartition(".")[0]
    nodes = list(ast.walk(root))
    late = _late_nodes(nodes)
    found = [
        Import(target=target, line=node.lineno, relative=relative, on_load=id(node) not in late)
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
        for target, relative in _targets(node, home, known)
    ]
    return Module(
        name=name,
        imports=tuple(found),
        environment=tuple(_environment_reads(nodes)),
        bodies=tuple(_bodies_taken(nodes)),
    )


def _late_nodes(nodes: Iterable[ast.AST]) -> set[int]:
    """Nodes that do not run when the module is loaded: bodies of functions, and what is there for types only."""
    bodies: list[ast.AST] = []
    for node in nodes:
        match node:
            case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
                bodies += body
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), body=body):
                bodies += body
    return {id(inner) for body in bodies for inner in ast.walk(body)}


def _targets(
    node: ast.Import | ast.ImportFrom | ast.Call, home: str, known: Iterable[str]
) -> Iterator[tuple[str, bool]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, False) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parents = home.split(".")[: len(home.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*parents, *([node.module] if node.module else [])])
        for alias in node.names:
            target = f"{base}.{alias.name}"
            yield (target if target in known else base), node.level > 0
    else:
        match node:
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                # A folder that is zipped alone goes by its own last name: `ledger.command` is then hansard.ledger.command.
                itself = target.partition(".")[0] == home.rpartition(".")[2]
                yield (f"{home.rpartition('.')[0]}.{target}", True) if itself else (target, False)


def _bodies_taken(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """`store.body`, `self._store.body`, called or handed on."""
    for node in nodes:
        match node:
            case ast.Attribute(attr="body", value=ast.Name(id=of) | ast.Attribute(attr=of)) if of.endswith("store"):
                yield node.lineno


def _environment_reads(nodes: Iterable[ast.AST]) -> Iterator[EnvironmentRead]:
    above: dict[int, ast.AST] = {}
    for node in nodes:
        match node:
            case ast.ImportFrom(module="os", names=names) if READERS & {alias.name for alias in names}:
                yield EnvironmentRead(name=None, line=node.lineno)
            case ast.Attribute(value=ast.Name(id="os"), attr=attr) if attr in READERS:
                above = above or {id(child): each for each in nodes for child in ast.iter_child_nodes(each)}
                yield EnvironmentRead(name=_variable(node, above), line=node.lineno)


def _variable(node: ast.Attribute, above: Mapping[int, ast.AST]) -> str | None:
    """The literal name in os.environ["X"], os.environ.get("X"), os.getenv("X") or "X" in os.environ."""
    reader, user = node, above[id(node)]
    if isinstance(user, ast.Attribute) and user.attr == "get":
        reader, user = user, above[id(user)]
    match user:
        case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Load()):
            return name
        case ast.Call(func=called, args=[ast.Constant(value=str(name)), *_]) if called is reader:
            return name
        case ast.Compare(left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn()]):
            return name
        case _:
            return None
