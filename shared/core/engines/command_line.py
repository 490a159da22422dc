"""The programs that a container starts, each with its own words: shells, wrappers and entrypoints taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shared.core.containers import Container
from shared.core.engines.shell import read_script
from shared.core.engines.spec import EngineSpec
from shared.core.engines.tables import SPECS
from shared.core.engines.words import LONGEST_TEXT, Variables, Word, expand_all
from shared.core.engines.wrappers import SHELLS, WRAPPERS, basename, shell_text, unwrapped

_DEEPEST = 6
_MOST_SHELLS = 64
_MOST_SHELL_TEXT = LONGEST_TEXT
"""Characters in all: texts that start shells with texts of theirs multiply each other."""
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*\Z")
_PYTHON_VALUED = frozenset({"-X", "-W"})
_PROGRAMS = frozenset(program for spec in SPECS.values() for program in (*spec.programs, *spec.direct_programs))
_PACKAGES = "|".join(
    re.escape(module.replace(".", "/")) for spec in SPECS.values() for module in spec.modules if "." in module
)
_MODULE_FILE = re.compile(rf"(?:{_PACKAGES})(?:/[A-Za-z0-9_/]*)?[.]py$")


@dataclass(frozen=True, slots=True)
class Invocation:
    """One program with its words. `plain` if these end where the container's argument list ends.

    `env` are the variables that the command line sets for it.
    """

    words: tuple[Word, ...]
    env: Mapping[str, Word] = field(default_factory=dict)
    plain: bool = True


@dataclass(frozen=True, slots=True)
class CommandLine:
    """All programs that a container starts, in order, and what could not be read."""

    invocations: tuple[Invocation, ...]
    unread: tuple[str, ...]


def command_line(container: Container, entrypoint: EngineSpec | None, variables: Variables) -> CommandLine:
    """The programs of `container`. `entrypoint` is the engine of its image, which runs where no command is given."""
    expanded = expand_all((*container.command, *container.args), variables)
    words = expanded if container.command else _behind_entrypoint(expanded, entrypoint)
    unread: list[str] = []
    found = tuple(_Taken(variables, unread).apart(words, {}, plain=True, depth=0)) if words else ()
    return CommandLine(found, tuple(unread))


def _behind_entrypoint(args: list[Word], spec: EngineSpec | None) -> list[Word]:
    """What runs without a command: the entrypoint of the engine's image, unless `args` name a program themselves."""
    if spec is None or (args and _names_program(args) and not _is_subcommand(args[0], spec)):
        return args
    entrypoint = [Word(text) for text in spec.entrypoint]
    if not args:
        return entrypoint
    if _is_subcommand(args[0], spec):
        return [*entrypoint[:1], *args] if entrypoint else [Word(spec.programs[0]), *args]
    if entrypoint:
        return [*entrypoint, *args]
    # An image that runs its arguments. Flags alone can only be meant for its engine.
    starts = [Word(spec.programs[0]), *(Word(text) for text in spec.serving[0])] if spec.serving else []
    return [*starts, *args] if args[0].text.startswith("-") else args


def _is_subcommand(word: Word, spec: EngineSpec) -> bool:
    return word.text in spec.clients or any(word.text == serving[0] for serving in spec.serving if serving)


def _names_program(args: Sequence[Word]) -> bool:
    program = basename(args[0])
    known = program in _PROGRAMS or program in SHELLS or program in WRAPPERS or bool(_PYTHON.match(program))
    return known or program.endswith(".sh") or (_is_one_text(args) and not program.startswith("-"))


def _is_one_text(words: Sequence[Word]) -> bool:
    """Whether a whole command line was written as one item. No container runtime splits it, some entrypoints do."""
    return len(words) == 1 and any(blank in words[0].text.strip() for blank in " \n\t")


class _Taken:
    """Takes command lines apart."""

    def __init__(self, variables: Variables, unread: list[str]) -> None:
        self._variables = variables
        self._unread = unread
        self._shells = 0
        self._shell_text = 0

    def apart(self, words: Sequence[Word], env: Mapping[str, Word], *, plain: bool, depth: int) -> Iterator[Invocation]:
        """The programs that `words` start in the end."""
        if not words:
            return
        if depth == _DEEPEST:
            self._unread.append(words[0].text)
        elif shell := shell_text(words):
            yield from self._script(shell[0].text, shell[1], env, depth)
        elif basename(words[0]) == "eval":
            yield from self._script(" ".join(word.text for word in words[1:]), (), env, depth)
        elif _is_one_text(words):
            yield from self._script(words[0].text, (), env, depth)
        elif wrapped := unwrapped(words):
            yield from self.apart(wrapped[1], {**env, **wrapped[0]}, plain=plain, depth=depth + 1)
        elif len(words) > 1 and _runs_its_arguments(words):
            yield from self.apart(words[1:], env, plain=plain, depth=depth + 1)
        else:
            yield Invocation(tuple(words), env, plain)

    def _script(
        self, text: str, parameters: Sequence[Word], env: Mapping[str, Word], depth: int
    ) -> Iterator[Invocation]:
        self._shells += 1
        self._shell_text += len(text)
        if self._shells > _MOST_SHELLS or self._shell_text > _MOST_SHELL_TEXT:
            self._unread.append("more shell texts than are read of one container")
            return
        variables = dict(self._variables)
        variables.update({name: word.text if word.known else None for name, word in env.items()})
        script = read_script(text, variables, parameters)
        self._unread.extend(script.unread)
        for command in script.commands:
            yield from self.apart(
                command.words, {**env, **command.env} if env else command.env, plain=False, depth=depth + 1
            )


def _runs_its_arguments(words: Sequence[Word]) -> bool:
    """`/opt/nvidia/entrypoint.sh vllm serve ...`: a program that nobody knows in front of one that is known."""
    program = basename(words[0])
    unknown = not (program in _PROGRAMS or _PYTHON.match(program) or words[0].text.startswith("-"))
    following = basename(words[1])
    return unknown and "/" in words[0].text and (following in _PROGRAMS or bool(_PYTHON.match(following)))


@dataclass(frozen=True, slots=True)
class Started:
    """An engine that an invocation starts, with the arguments behind program and subcommand."""

    spec: EngineSpec
    arguments: tuple[Word, ...]
    invocation: Invocation
    client: bool = False
    """A program of the engine that uses no card, such as `ollama pull`."""


def started_by(invocation: Invocation) -> Started | None:
    """The engine that a program is, or None for any other program."""
    program = basename(invocation.words[0])
    rest = invocation.words[1:]
    module = ""
    if _PYTHON.match(program):
        program, module, rest = _python(rest)
    for spec in SPECS.values():
        if program in spec.client_programs or module in spec.client_programs:
            return Started(spec, rest, invocation, client=True)
        if any(f"{module}.".startswith(f"{known}.") for known in spec.modules):
            behind = _behind(rest, spec)
            return Started(spec, rest if behind is None else behind, invocation)
        if program in spec.direct_programs:
            return Started(spec, rest, invocation)
        if program in spec.programs:
            return _subcommand(spec, rest, invocation)
    return None


def _subcommand(spec: EngineSpec, rest: tuple[Word, ...], invocation: Invocation) -> Started | None:
    if rest and rest[0].text in spec.clients:
        return Started(spec, rest, invocation, client=True)
    behind = _behind(rest, spec)
    if behind is None and spec.serving:
        return None
    return Started(spec, rest if behind is None else behind, invocation)


def _behind(rest: tuple[Word, ...], spec: EngineSpec) -> tuple[Word, ...] | None:
    for serving in spec.serving:
        if tuple(word.text for word in rest[: len(serving)]) == serving:
            return rest[len(serving) :]
    return None


def _python(rest: tuple[Word, ...]) -> tuple[str, str, tuple[Word, ...]]:
    """The program and the module that Python runs, and the words behind it."""
    at = 0
    while at < len(rest) and rest[at].text.startswith("-"):
        option = rest[at].text
        at += 1
        if option == "-m" and at < len(rest):
            return "", rest[at].text, rest[at + 1 :]
        if option == "-c":
            return "", "", ()
        if option in _PYTHON_VALUED:
            at += 1
    if at >= len(rest):
        return "", "", ()
    # A module may be started by the path of its file: .../vllm/entrypoints/openai/api_server.py
    file = _MODULE_FILE.search(rest[at].text)
    module = file[0].removesuffix(".py").replace("/", ".") if file else ""
    return basename(rest[at]), module, rest[at + 1 :]
