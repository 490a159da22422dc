"""How many cards a pod needs by its server's arguments alone."""

from __future__ import annotations

from collections.abc import Iterable

from shared.core.engines.engine import Engine
from shared.core.engines.spec import EngineSpec, Setting
from shared.core.engines.tables import SPECS


def cards_on_this_pod(engine: Engine) -> int | None:
    """Cards that this pod needs, None where the arguments do not tell. A count in resources or annotations beats it.

    The parallel sizes of a group are divided by its pods. A size that does not divide evenly tells nothing.
    """
    spec = SPECS[engine.name]
    if not spec.axes:
        return engine.shards or None
    of_one_rank = _product(
        size
        for axis, size in (
            (Setting.TENSOR, engine.tensor_parallel),
            (Setting.PIPELINE, engine.pipeline_parallel),
            (Setting.CONTEXT_PARALLEL, engine.context_parallel),
        )
        if axis in spec.axes
    )
    if of_one_rank is None:
        return None
    cards = _product((of_one_rank, _ranks_with_cards(engine, spec)))
    if Setting.NNODES in spec.defaults_to_one:
        cards = _divided(cards, engine.nnodes)
    if engine.data_parallel_local is None:
        return cards
    local = of_one_rank * engine.data_parallel_local
    # Ranks that are themselves spread over pods leave less of each on this one.
    return (min(local, cards) if cards else local) or None


def _ranks_with_cards(engine: Engine, spec: EngineSpec) -> int | None:
    """By how much data parallelism multiplies the cards."""
    if engine.splits_tensor_group:
        return 1
    if Setting.DATA in spec.axes:
        return engine.data_parallel
    # Where ranks are started one by one (LMDeploy), this process may be any part of them.
    return 1 if engine.data_parallel in {None, 1} else None


def _product(sizes: Iterable[int | None]) -> int | None:
    product = 1
    for size in sizes:
        if size is None:
            return None
        product *= size
    return product


def _divided(cards: int | None, pods: int | None) -> int | None:
    if cards is None or pods is None or cards % pods:
        return None
    return cards // pods
