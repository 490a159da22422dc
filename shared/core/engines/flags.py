"""An engine's argument list, read by its table the way the engine's own parser would read it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.core.engines.spec import Arity, EngineSpec, Flag, Setting
from shared.core.engines.values import NotUnderstood, Reader, Value, present
from shared.core.engines.values import name as name_of_model
from shared.core.engines.words import Word

_NEGATIVE = re.compile(r"-(?:[0-9]+\.?|[0-9]*\.[0-9]+)\Z")
_MOST_WORDS = 1024
_BOOLEAN = frozenset({"true", "false"})
_MODEL_VARIABLE = re.compile(r"\$[{(]?[A-Za-z0-9_]*MODEL", re.IGNORECASE)


@dataclass(slots=True)
class Reading:
    """What was read so far. A setting whose value is None was given, and cannot be known or names no value."""

    settings: dict[Setting, Value] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    hidden: bool = False

    def put(self, setting: Setting, read: Reader, word: Word, said_by: str) -> None:
        """Takes what `word` says of `setting`, or lists it as unread."""
        value: Value = None
        if not word.known and read is not present:
            self.unread.append(f"{said_by} {word.text}")
        else:
            try:
                value = read(word.text)
            except NotUnderstood:
                self.unread.append(f"{said_by} {word.text}")
        self.settings[setting] = value


def read_flags(words: Sequence[Word], spec: EngineSpec, reading: Reading) -> None:
    """Adds what the arguments `words` say to `reading`. Later flags beat earlier ones."""
    _Arguments(words, spec, reading).read()


class _Arguments:
    def __init__(self, words: Sequence[Word], spec: EngineSpec, reading: Reading) -> None:
        self._words = words
        self._spec = spec
        self._reading = reading
        self._at = 0
        self._model: Word | None = None

    def read(self) -> None:
        flags_end = False
        if len(self._words) > _MOST_WORDS:
            self._reading.unread.append(f"what follows the first {_MOST_WORDS} words")
            self._reading.hidden = True
            self._words = self._words[:_MOST_WORDS]
        while self._at < len(self._words):
            word = self._words[self._at]
            self._at += 1
            if word.text == "--":
                flags_end = True
            elif _is_flag(word) and not flags_end:
                self._flag(word)
            else:
                self._bare(word, first=self._at == 1)
        if self._model is not None:
            self._reading.put(Setting.MODEL, name_of_model, self._model, "model")

    def _flag(self, word: Word) -> None:
        spelling, equals, text = word.text.partition("=")
        if " " in spelling or (not word.known and "$" in spelling):
            self._reading.unread.append(word.text)
            self._reading.hidden = True
            return
        value = Word(text, word.known) if equals else None
        flag = find_flag(self._spec, spelling)
        if flag is None and (glued := self._glued(spelling)):
            flag, value = glued
        if flag is None:
            # A value may be a secret, so an unknown flag is listed without it.
            self._reading.unread.append(spelling)
            if value is None:
                self._skip_bare()
        elif flag.arity is Arity.SWITCH:
            self._switch(flag, spelling, value)
        else:
            self._with_value(flag, spelling, value)

    def _switch(self, flag: Flag, spelling: str, value: Word | None) -> None:
        if value is None and self._next_is_value() and self._words[self._at].text.lower() in _BOOLEAN:
            value = self._take()
        on = Word("true") if value is None else value
        if flag.setting is not None:
            self._reading.put(flag.setting, flag.read, on, spelling)

    def _with_value(self, flag: Flag, spelling: str, value: Word | None) -> None:
        if value is None and self._next_is_value():
            value = self._take()
            if flag.arity is Arity.MANY:
                self._skip_bare()
        if flag.setting is None:
            return
        if value is None:
            self._reading.unread.append(spelling)
        elif flag.setting is Setting.MORE_FLAGS:
            self._reading.unread.append(f"{spelling} {value.text}")
            self._reading.hidden = True
        else:
            self._reading.put(flag.setting, flag.read, value, spelling)

    def _bare(self, word: Word, *, first: bool) -> None:
        takes_model = self._spec.positional_model and self._model is None
        if word.known:
            if takes_model:
                self._model = word
            else:
                self._reading.unread.append(word.text)
        elif takes_model and first and (word.single or _MODEL_VARIABLE.match(word.text)):
            self._model = word
        else:
            self._reading.unread.append(word.text)
            self._reading.hidden = True

    def _glued(self, spelling: str) -> tuple[Flag, Word] | None:
        """`-O3` and `-qawq`: argparse lets a value stick to a flag of one letter."""
        if not self._spec.abbreviates or spelling.startswith("--") or len(spelling) < 3:
            return None
        flag = self._spec.flags.get(spelling[:2])
        return None if flag is None or flag.setting is not None else (flag, Word(spelling[2:]))

    def _next_is_value(self) -> bool:
        return self._at < len(self._words) and not _is_flag(self._words[self._at])

    def _take(self) -> Word:
        self._at += 1
        return self._words[self._at - 1]

    def _skip_bare(self) -> None:
        while self._next_is_value():
            self._at += 1


def stray_value(words: Sequence[Word], spec: EngineSpec, setting: Setting) -> Word | None:
    """What the last flag of `setting`, fully spelled, says among words that nobody has understood; empty if nothing."""
    texts = [part for word in words for part in word.text.split()]
    found = None
    for at, text in enumerate(texts):
        spelling, equals, value = text.partition("=")
        flag = spec.flags.get(spelling.replace("_", "-"))
        if flag is not None and flag.setting is setting:
            following = texts[at + 1] if at + 1 < len(texts) and not _is_flag(Word(texts[at + 1])) else ""
            found = Word(value if equals else following)
    return found


def find_flag(spec: EngineSpec, spelling: str) -> Flag | None:
    """The flag that a spelling stands for: underscores are dashes, and argparse takes an unambiguous beginning."""
    if not spelling.startswith("--"):
        return spec.flags.get(spelling)
    # `--compilation-config.level 3` is a value inside a flag that takes JSON.
    name, dot, _ = spelling.replace("_", "-").partition(".")
    flag = spec.flags.get(name) or _abbreviated(spec, name)
    if flag is None and name.startswith("--no-"):
        flag = spec.flags.get("--" + name[5:])
        return Flag(Arity.SWITCH) if flag is not None and flag.arity is Arity.SWITCH else None
    return Flag(Arity.ONE) if dot and flag is not None else flag


def _abbreviated(spec: EngineSpec, name: str) -> Flag | None:
    """An abbreviation that the engine finds ambiguous starts nothing, so a table need not be complete for this."""
    if not spec.abbreviates or len(name) < 4:
        return None
    meant = [flag for spelling, flag in spec.flags.items() if spelling.startswith(name)]
    return meant[0] if meant and all(flag is meant[0] for flag in meant) else None


def _is_flag(word: Word) -> bool:
    return word.text.startswith("-") and len(word.text) > 1 and not _NEGATIVE.match(word.text)


def environment_flags(variables: Mapping[str, Word], prefix: str) -> list[Word]:
    """`SM_VLLM_TENSOR_PARALLEL_SIZE=2` as `--tensor-parallel-size 2`."""
    words: list[Word] = []
    for variable, value in variables.items():
        if variable.startswith(prefix) and len(variable) > len(prefix):
            words.append(Word("--" + variable[len(prefix) :].lower().replace("_", "-")))
            words.append(value)
    return words
