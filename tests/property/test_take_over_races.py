"""Replicas of one ReplicaSet that are created side by side, fail, are stored and are seen late share no entry."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.api import names
from shared.kube import paths
from tests.builders import a_node, a_pod
from tests.fakes.serving import serving
from tests.unit.admission import Webhook, gpu_node, patched, reservations, store
from webhook.outcome import Admitted

rounds = st.lists(
    st.lists(st.sampled_from(["stored", "seen", "failed"]), min_size=1, max_size=4), min_size=1, max_size=6
)


@settings(max_examples=40)
@example(wanted=3, ends=[["stored", "failed"], ["stored", "stored"]], seconds=0, two=True)
@given(wanted=st.integers(1, 4), ends=rounds, seconds=st.sampled_from([0, 1, 5]), two=st.booleans())
def test_attempts_of_one_owner(wanted: int, ends: list[list[str]], seconds: int, *, two: bool) -> None:
    """Each round creates what lacks, side by side; each create ends as drawn."""
    asyncio.run(_play(wanted, ends, seconds, two=two))


async def _play(wanted: int, ends: list[list[str]], seconds: int, *, two: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder)) as served:
            objects = served.server.objects
            replica_sets = "/apis/apps/v1/namespaces/models/replicasets"
            raw = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "chat"}}
            uid = store(objects, replica_sets, {**raw, "spec": {"replicas": wanted}})["metadata"]["uid"]
            processes = [Webhook(served), Webhook(served, first_id=1000)][: 2 if two else 1]
            await processes[0].see(a_node("n1"), gpu_node("n1", 400))
            for process in processes[1:]:
                await process.see_stored(a_node("n1"))
            alive: dict[str, str] = {}
            unseen: list[tuple[Any, str]] = []
            for number, drawn in enumerate(ends):
                for process in processes:
                    process.time += seconds
                    await process.ledger.refresh("n1")
                creates = drawn[: wanted - len(alive)]
                outcomes = await asyncio.gather(*(
                    processes[(number + place) % len(processes)].mutate(
                        a_pod("").annotated(names.VRAM, "6").owned_by("ReplicaSet", "chat", uid)
                    )
                    for place, _ in enumerate(creates)
                ))  # fmt: skip
                ids = [outcome.reservation for outcome in outcomes if isinstance(outcome, Admitted)]
                assert len(set(ids)) == len(creates), "each has an entry of its own"
                assert set(ids) <= set(reservations(objects, "n1")), "which is in the ledger"
                for place, (fate, outcome) in enumerate(zip(creates, outcomes, strict=True)):
                    if fate == "failed":
                        continue
                    name = f"chat-{number}-{place}"
                    pod = patched(a_pod("").annotated(names.VRAM, "6").owned_by("ReplicaSet", "chat", uid), outcome)
                    pod["metadata"]["name"] = name
                    store(objects, paths.pods("models"), pod)
                    alive[name] = pod["metadata"]["labels"][names.RESERVATION]
                    unseen.append((pod, name))
                    if fate == "seen":
                        for seen, of in unseen:
                            for process in processes:
                                process.see_pod(seen, uid=f"uid-{of}")
                        unseen.clear()
                held = reservations(objects, "n1")
                assert set(alive.values()) <= set(held), "no pod that exists loses its entry"
                assert len(held) <= wanted, "and the owner holds no more than it wants"
