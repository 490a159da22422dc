"""Containers that serve models, written as a user would write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.core.containers import Container, Role
from shared.core.engines import Engine, read_engine

VLLM_IMAGE = "registry.example/vllm-openai:v0.11"


def serving(
    image: str = VLLM_IMAGE,
    *,
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    elsewhere: Sequence[str] = (),
) -> Container:
    """A container named `server`."""
    return Container(
        name="server",
        role=Role.APP,
        limits={},
        requests={},
        env=env or {},
        env_from_elsewhere=frozenset(elsewhere),
        image=image,
        command=tuple(command),
        args=tuple(args),
    )


def engine_of(container: Container) -> Engine:
    """The engine that `container` runs. Fails the test if it runs none."""
    engine = read_engine(container)
    assert engine is not None
    return engine


def in_shell(text: str, image: str = VLLM_IMAGE, **fields: Mapping[str, str]) -> Engine:
    """The engine that a shell text starts."""
    return engine_of(serving(image, command=["/bin/bash", "-c"], args=[text], env=fields.get("env")))


def with_args(*args: str, image: str = VLLM_IMAGE, **fields: Mapping[str, str]) -> Engine:
    """The engine of an image that is given arguments only."""
    return engine_of(serving(image, args=args, env=fields.get("env")))
