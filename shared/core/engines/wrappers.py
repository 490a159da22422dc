"""Programs that start another program: where its command line begins behind theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.core.engines.words import Word

SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh"})


@dataclass(frozen=True, slots=True)
class Wrapper:
    """`valued` are flags that take the next word, `operands` the words that stand in front of the wrapped program."""

    valued: frozenset[str] = frozenset()
    operands: int = 0
    subcommands: frozenset[str] = frozenset()
    """One of these must follow, or the program wraps nothing."""


def _wrapper(valued: str = "", operands: int = 0, subcommands: str = "") -> Wrapper:
    return Wrapper(frozenset(valued.split()), operands, frozenset(subcommands.split()))


_MPI = _wrapper(
    "-n -np -c --n -N -npernode -H -host --host -hostfile --hostfile -machinefile --map-by -map-by --bind-to -bind-to "
    "-x -wdir --wdir --prefix"
)

WRAPPERS: dict[str, Wrapper] = {
    "exec": _wrapper("-a"),
    "command": _wrapper(),
    "nohup": _wrapper(),
    "setsid": _wrapper(),
    "time": _wrapper("-f -o"),
    "env": _wrapper("-u --unset -C --chdir"),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n"),
    "chrt": _wrapper("-p", 1),
    "taskset": _wrapper(operands=1),
    "timeout": _wrapper("-s --signal -k --kill-after", 1),
    "stdbuf": _wrapper("-i -o -e"),
    "numactl": _wrapper(
        "-N -m -C -i -p --cpunodebind --membind --interleave --physcpubind --preferred --localalloc-policy"
    ),
    "sudo": _wrapper("-u -g"),
    "gosu": _wrapper(operands=1),
    "su-exec": _wrapper(operands=1),
    "setpriv": _wrapper("--reuid --regid --groups"),
    "tini": _wrapper("-p -e"),
    "dumb-init": _wrapper("-r --rewrite"),
    "uv": _wrapper("--with --python -p --project --directory --extra --group --env-file --package", 0, "run"),
    "poetry": _wrapper("-C -P", 0, "run"),
    "pipenv": _wrapper("", 0, "run"),
    "pdm": _wrapper("", 0, "run"),
    "conda": _wrapper("-n --name -p --prefix --cwd", 0, "run"),
    "mamba": _wrapper("-n --name -p --prefix --cwd", 0, "run"),
    "micromamba": _wrapper("-n --name -p --prefix --cwd", 0, "run"),
    "nsys": _wrapper("-o -t -c -f -s -w --output --trace", 0, "profile"),
    "mpirun": _MPI,
    "mpiexec": _MPI,
    "srun": _wrapper("-n -N -c -w -p --mpi"),
    "trtllm-llmapi-launch": _wrapper(),
    "ddtrace-run": _wrapper(),
    "opentelemetry-instrument": _wrapper("--traces_exporter --metrics_exporter --logs_exporter --service_name"),
}


def basename(word: Word) -> str:
    """The program a word names, without its folder."""
    return word.text.rpartition("/")[2]


def unwrapped(words: Sequence[Word]) -> tuple[dict[str, Word], Sequence[Word]] | None:
    """The variables that a wrapper sets and the command line it starts, or None if `words` is no wrapper's."""
    wrapper = WRAPPERS.get(basename(words[0])) if words else None
    if wrapper is None:
        return None
    at = 1
    if wrapper.subcommands:
        if len(words) < 2 or words[1].text not in wrapper.subcommands:
            return None
        at = 2
    at = _behind_flags(words, at, wrapper) + wrapper.operands
    env: dict[str, Word] = {}
    if basename(words[0]) in {"env", "sudo"}:
        while at < len(words) and "=" in words[at].text.lstrip("="):
            name, _, value = words[at].text.partition("=")
            env[name] = Word(value, words[at].known)
            at += 1
    return env, words[at:]


def _behind_flags(words: Sequence[Word], at: int, wrapper: Wrapper) -> int:
    while at < len(words) and words[at].text.startswith("-"):
        flag = words[at].text
        at += 1
        if flag == "--":
            break
        if flag in wrapper.valued:
            at += 1
        elif flag.lstrip("-") == "mca":
            at += 2
    return at


def shell_text(words: Sequence[Word]) -> tuple[Word, Sequence[Word]] | None:
    """The text that `sh -c TEXT` runs and the words that are its `$0`, `$1`, ..., or None for anything else."""
    if words and basename(words[0]) == "busybox":
        words = words[1:]
    if not words or basename(words[0]) not in SHELLS:
        return None
    at = 1
    with_text = False
    while at < len(words) and words[at].text[:1] in {"-", "+"} and len(words[at].text) > 1:
        option = words[at].text
        at += 1
        if option == "--":
            break
        if not option.startswith("--"):
            with_text = with_text or "c" in option[1:]
            at += option[1:].count("o") + option[1:].count("O")
    if not with_text or at >= len(words):
        return None
    return words[at], words[at + 1 :]
