"""Crash points: every place at which a process of the product waits, so that a test can kill it right there.

`python -m tests.chaos.crash_points` lists them. A point is named after its source text, not its line:

    shared/kube/ledger.py:Ledger._write:await self._client.merge_patch

Equal ones in a function are numbered: `...#2`. `async with` gives two points, of which the second, where the block
ends, begins with `leave`. Each point has two sides: `before` what is awaited begins, and `after` it has ended, well or
not.

Nothing in the product knows of them: `instrument` puts other code into the functions of its modules as they are
imported, and the same code tells a listener of every point as it is reached. In a process of its own:

    install(os.environ)  # then run the program; PLACEMENT_CRASH_AT=<name>[:before|:after][#<count>]

kills it with SIGKILL when it comes to the point for the `count`th time (`after` and 1 unless given).
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, TracebackType
from typing import Any, Final, Generic, TypeVar, cast

T = TypeVar("T")

CRASH_AT: Final = "PLACEMENT_CRASH_AT"
PROGRAMS: Final = ("webhook", "controller")
ROOT: Final = Path(__file__).parents[2]
_PACKAGES: Final = (*PROGRAMS, "shared")
_HOOK: Final = "__crash_points__"


class Side(StrEnum):
    """On which side of an await."""

    BEFORE = "before"
    AFTER = "after"


@cache
def every_point() -> tuple[str, ...]:
    """The names of all crash points of the product, in the order of its source."""
    files = sorted(path for package in _PACKAGES for path in (ROOT / package).rglob("*.py") if _waits(path))
    return tuple(name for path in files for name in _Marked(path).points)


def _waits(path: Path) -> bool:
    return "async" in path.read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class CrashAt:
    """Where a process is to be killed: the `count`th time that it comes to one side of a point."""

    point: str
    side: Side = Side.AFTER
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> CrashAt:
        """Reads `<name>[:before|:after][#<count>]`; a `#` before the side belongs to the name. ValueError if there is
        no such point.
        """
        match = re.fullmatch(r"(?P<point>.+?)(?::(?P<side>before|after)(?:#(?P<count>[1-9]\d*))?)?", text)
        assert match is not None, "any text matches but an empty one"
        found = cls(match["point"], Side(match["side"] or Side.AFTER), int(match["count"] or 1))
        if found.point not in every_point():
            raise ValueError(f"{CRASH_AT}={text}: no such point; `python -m tests.chaos.crash_points` lists them")
        return found


def install(environ: Mapping[str, str]) -> None:
    """Makes this process kill itself where `environ` says, if it says so. Call it before the program runs."""
    if not environ.get(CRASH_AT):
        return
    plan, seen = CrashAt.parse(environ[CRASH_AT]), Counter[tuple[str, Side]]()

    async def reached(point: str, side: Side) -> None:
        seen[point, side] += 1
        if (point, side, seen[point, side]) == (plan.point, plan.side, plan.count):
            os.kill(os.getpid(), signal.SIGKILL)

    instrument(reached)


Reached = Callable[[str, Side], Awaitable[None]]
"""Told of a point before the process goes on; it may never return."""


def instrument(reached: Reached) -> Callable[[], None]:
    """Has `reached` called at every point of the product in this process, until the returned function is called."""
    for program in PROGRAMS:
        importlib.import_module(f"{program}.__main__")
    old: list[tuple[FunctionType, CodeType]] = []
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] in _PACKAGES]
    for module in modules:
        path = Path(cast("str", module.__file__))
        if not _waits(path):
            continue
        marked = _Marked(path)
        vars(module)[_HOOK] = _Hook(reached)
        codes = dict(marked.codes())
        for function in _functions_of(module):
            code = codes.get(function.__code__.co_qualname)
            if code is not None:
                old.append((function, function.__code__))
                function.__code__ = code

    def restore() -> None:
        for function, code in old:
            function.__code__ = code

    return restore


@contextmanager
def instrumented(reached: Reached) -> Iterator[None]:
    """As `instrument`, while the context lasts."""
    restore = instrument(reached)
    try:
        yield
    finally:
        restore()


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that a module defines; those inside of them are part of their code."""
    classes = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__]
    for raw in [each for holder in (module, *classes) for each in vars(holder).values()]:
        function = inspect.unwrap(raw) if callable(raw) else getattr(raw, "fget", None)
        function = getattr(function, "__func__", function)
        if isinstance(function, FunctionType) and function.__code__.co_filename == module.__file__:
            yield function


class _Marked(ast.NodeTransformer):
    """A source file with its points: their names, and the code that tells of them."""

    def __init__(self, path: Path) -> None:
        self.points: list[str] = []
        self._path = path
        self._file = path.relative_to(ROOT).as_posix()
        self._scope: list[str] = []
        self._seen = Counter[str]()
        self._tree = ast.fix_missing_locations(self.visit(ast.parse(path.read_text(encoding="utf-8"))))

    def codes(self) -> Iterator[tuple[str, CodeType]]:
        """The code of each function by its qualified name."""
        waiting = [compile(self._tree, str(self._path), "exec", dont_inherit=True)]
        while waiting:
            inside = [each for each in waiting.pop().co_consts if isinstance(each, CodeType)]
            waiting += inside
            yield from ((code.co_qualname, code) for code in inside)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        scope = [node.name] if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else []
        self._scope += scope
        super().generic_visit(node)
        del self._scope[len(self._scope) - len(scope) :]
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        name = self._named("await", node.value)
        self.generic_visit(node)
        node.value = _hooked("ended", node.value, name)
        return node

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        for item in node.items:
            enter, leave = self._named("async with", item.context_expr), self._named("leave", item.context_expr)
            item.context_expr = _hooked("context", self.visit(item.context_expr), enter, leave)
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        name = self._named("async for", node.iter)
        self.generic_visit(node)
        node.iter = _hooked("items", node.iter, name)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        name = self._named("async for", node.iter) if node.is_async else None
        self.generic_visit(node)
        if name is not None:
            node.iter = _hooked("items", node.iter, name)
        return node

    def _named(self, kind: str, awaited: ast.expr) -> str:
        name = f"{self._file}:{'.'.join(self._scope)}:{kind} {ast.unparse(_Short().visit(deepcopy(awaited)))}"
        name = name.removesuffix("()")
        self._seen[name] += 1
        self.points.append(name if self._seen[name] == 1 else f"{name}#{self._seen[name]}")
        return self.points[-1]


class _Short(ast.NodeTransformer):
    """An expression without the arguments of its calls."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.args, node.keywords = [], []
        return self.generic_visit(node)


def _hooked(method: str, awaited: ast.expr, *names: str) -> ast.expr:
    function = ast.Attribute(ast.Name(_HOOK, ast.Load()), method, ast.Load())
    return ast.copy_location(ast.Call(function, [awaited, *map(ast.Constant, names)], []), awaited)


@dataclass(frozen=True, slots=True)
class _Hook:
    """What the functions of an instrumented module call at their points."""

    reached: Reached

    async def ended(self, awaited: Awaitable[T], name: str) -> T:
        try:
            await self.reached(name, Side.BEFORE)
        except BaseException:
            if inspect.iscoroutine(awaited):
                awaited.close()
            raise
        try:
            result = await awaited
        except (Exception, asyncio.CancelledError):
            await self.reached(name, Side.AFTER)
            raise
        await self.reached(name, Side.AFTER)
        return result

    def context(self, manager: AbstractAsyncContextManager[T], enter: str, leave: str) -> _Context[T]:
        return _Context(self, manager, enter, leave)

    async def items(self, items: AsyncIterator[T], name: str) -> AsyncIterator[T]:
        iterator = aiter(items)
        while True:
            try:
                item = await self.ended(anext(iterator), name)
            except StopAsyncIteration:
                return
            yield item


@dataclass(frozen=True, slots=True)
class _Context(Generic[T]):
    hook: _Hook
    manager: AbstractAsyncContextManager[T]
    enter: str
    leave: str

    async def __aenter__(self) -> T:
        return await self.hook.ended(self.manager.__aenter__(), self.enter)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        leaving: Any = self.manager.__aexit__(kind, error, traceback)
        return await self.hook.ended(leaving, self.leave)


if __name__ == "__main__":
    print(*every_point(), sep="\n")  # noqa: T201 - it is a list for a person
