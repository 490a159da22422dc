"""A container read as a model server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.api import names
from shared.core.containers import Container
from shared.core.engines.command_line import CommandLine, Invocation, Started, command_line, started_by
from shared.core.engines.engine import Engine
from shared.core.engines.flags import Reading, environment_flags, read_flags, stray_value
from shared.core.engines.groups import pods_of_group
from shared.core.engines.images import Image, read_image
from shared.core.engines.shell import read_script
from shared.core.engines.spec import EngineSpec, Setting
from shared.core.engines.values import NotUnderstood, Value, devices_length, fraction
from shared.core.engines.words import Word, variables_of
from shared.core.engines.wrappers import SHELLS, basename

DEVICE_VARIABLES = (names.CUDA_VISIBLE_DEVICES, names.HIP_VISIBLE_DEVICES, names.ROCR_VISIBLE_DEVICES)

_MOST_UNREAD = 32
_LONGEST_UNREAD = 80


def read_engine(container: Container) -> Engine | None:
    """The model server that `container` runs, or None if it runs none that we know. Never raises.

    Of several servers in one script the last one counts. Where no program of the command line is known, the image
    decides, and what the command line may say is unknown, but for the memory fraction, whose flag no other program has.
    """
    image = read_image(container.image)
    variables = variables_of(container)
    line = command_line(container, image.spec, variables)
    started = [server for invocation in line.invocations if (server := started_by(invocation))]
    servers = [server for server in started if not server.client]
    if servers:
        return _Described(image, line, variables).server(servers[-1])
    if image.spec is None or any(server.client for server in started):
        return None
    return _Described(image, line, variables).image_only(image.spec)


class _Described:
    """Puts together what image, variables and arguments say."""

    def __init__(self, image: Image, line: CommandLine, variables: Mapping[str, str | None]) -> None:
        self._image = image
        self._line = line
        self._variables = variables

    def server(self, started: Started) -> Engine:
        helpers = [other for other in self._line.invocations if other is not started.invocation]
        reading = Reading(unread=list(self._line.unread), hidden=bool(self._line.unread))
        environment = self._environment(started.invocation.env)
        _read_environment(started.spec, environment, reading)
        read_flags(started.arguments, started.spec, reading)
        _look_for_fraction([Word(text) for text in reading.unread], started.spec, reading)
        return self._engine(
            started.spec, reading, helpers, environment, started.invocation.env, appendable=started.invocation.plain
        )

    def image_only(self, spec: EngineSpec) -> Engine:
        """Nothing of the command line is known to be the engine's."""
        reading = Reading(unread=list(self._line.unread), hidden=True)
        environment = self._environment({})
        _read_environment(spec, environment, reading)
        reading.unread.extend(_program(invocation) for invocation in self._line.invocations)
        words = [word for invocation in self._line.invocations for word in invocation.words]
        _look_for_fraction([*map(Word, self._line.unread), *words], spec, reading)
        return self._engine(spec, reading, self._line.invocations, environment, {}, appendable=False)

    def _environment(self, env: Mapping[str, Word]) -> dict[str, Word]:
        """The engine's variables: the container's, and over them those of the command line."""
        known = {
            name: Word(f"$({name})" if value is None else value, known=value is not None)
            for name, value in self._variables.items()
        }
        return {**known, **env}

    def _engine(
        self,
        spec: EngineSpec,
        reading: Reading,
        helpers: Sequence[Invocation],
        environment: Mapping[str, Word],
        env: Mapping[str, Word],
        *,
        appendable: bool,
    ) -> Engine:
        sizes = _Sizes(spec, reading)
        tensor, data = sizes.of(Setting.TENSOR), sizes.of(Setting.DATA)
        one_rank = reading.settings.get(Setting.DATA_ONE_RANK) is True
        grouped = Setting.NNODES in spec.defaults_to_one
        return Engine(
            name=spec.name,
            version=self._image.version if self._image.spec is spec else None,
            model=_text(reading.settings.get(Setting.MODEL, self._image.model)),
            tensor_parallel=tensor,
            pipeline_parallel=sizes.of(Setting.PIPELINE),
            data_parallel=data,
            data_parallel_local=1 if one_rank else sizes.of(Setting.DATA_LOCAL),
            context_parallel=sizes.of(Setting.CONTEXT_PARALLEL),
            expert_parallel=_experts(reading, sizes, tensor, data),
            shards=_shards(spec, reading, environment, sizes),
            nnodes=pods_of_group(reading.settings, helpers, self._variables) if grouped else None,
            splits_tensor_group=reading.settings.get(Setting.TENSOR_GROUP_SPLIT) is True,
            context_length=_whole(reading.settings.get(Setting.CONTEXT)),
            memory_fraction=_fraction(reading.settings.get(Setting.FRACTION)),
            fraction_unknown=reading.settings.get(Setting.FRACTION, 0.0) is None,
            kv_cache_bytes=_whole(reading.settings.get(Setting.KV_BYTES)),
            devices=tuple((name, env[name].text) for name in DEVICE_VARIABLES if name in env),
            unread=_shown(reading.unread),
            hidden=reading.hidden,
            appendable=appendable,
        )


def _program(invocation: Invocation) -> str:
    """A program without its arguments, which may hold secrets. Of a shell, the file that it runs."""
    first, *rest = invocation.words
    return f"{first.text} {rest[0].text}" if rest and basename(first) in SHELLS else first.text


def _look_for_fraction(unread: Sequence[Word], spec: EngineSpec, reading: Reading) -> None:
    """Takes the memory fraction from words that were not understood, where nothing else has told it."""
    value = stray_value(unread, spec, Setting.FRACTION)
    if value is None or Setting.FRACTION in reading.settings:
        return
    try:
        reading.settings[Setting.FRACTION] = fraction(value.text)
    except NotUnderstood:
        reading.settings[Setting.FRACTION] = None


def _read_environment(spec: EngineSpec, environment: Mapping[str, Word], reading: Reading) -> None:
    for row in spec.environment:
        if row.variable in environment:
            reading.put(row.setting, row.read, environment[row.variable], row.variable)
    for prefix in spec.variable_prefixes:
        read_flags(environment_flags(environment, prefix), spec, reading)
    if spec.flags_variable in environment:
        further = environment[spec.flags_variable]
        if further.known:
            for command in read_script(further.text, {}).commands:
                read_flags(command.words, spec, reading)
        else:
            reading.unread.append(spec.flags_variable)
            reading.hidden = True


class _Sizes:
    """Parallel sizes: as given, or the engine's own 1 where nothing could say otherwise unseen."""

    def __init__(self, spec: EngineSpec, reading: Reading) -> None:
        self._settings = reading.settings
        # A given tensor size is taken as the plan: a file then seldom adds another axis.
        planned = Setting.TENSOR in reading.settings and reading.settings[Setting.TENSOR] is not None
        self._defaults = spec.defaults_to_one if planned or not reading.hidden else frozenset[Setting]()

    def of(self, setting: Setting) -> int | None:
        if setting in self._settings:
            return _whole(self._settings[setting])
        return 1 if setting in self._defaults else None


def _experts(reading: Reading, sizes: _Sizes, tensor: int | None, data: int | None) -> int | None:
    if reading.settings.get(Setting.EXPERT_OVER_ALL) is True:
        return tensor * data if tensor and data else None
    return sizes.of(Setting.EXPERT)


def _shards(spec: EngineSpec, reading: Reading, environment: Mapping[str, Word], sizes: _Sizes) -> int | None:
    shards = sizes.of(Setting.SHARDS)
    if Setting.SHARDS in reading.settings:
        return shards
    if reading.settings.get(Setting.ONE_CARD) is True:
        return 1
    if spec.spreads_over_visible:
        for variable in DEVICE_VARIABLES:
            if variable in environment:
                seen = environment[variable]
                return _whole(devices_length(seen.text)) if seen.known else None
    return shards


def _shown(unread: Sequence[str]) -> tuple[str, ...]:
    """Each thing once and of a length that fits into a message."""
    short = [text if len(text) <= _LONGEST_UNREAD else text[: _LONGEST_UNREAD - 3] + "..." for text in unread]
    return tuple(dict.fromkeys(short))[:_MOST_UNREAD]


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Value) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _fraction(value: Value) -> float | None:
    return value if isinstance(value, float) else None
