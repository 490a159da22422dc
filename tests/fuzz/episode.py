"""One cluster, and so many reviews of pods in it. The same seed and number give the same reviews and answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import orjson

from tests.fuzz import answers, reviews, words
from tests.fuzz.answers import require, reservation_of
from tests.fuzz.clusters import ClusterJson
from tests.fuzz.dice import Dice
from tests.fuzz.pods import a_pod
from tests.fuzz.tally import Tally
from tests.fuzz.words import Json
from tests.fuzz.world import MutatorClass, Post, Replica, World
from tests.scheduler_model import Model
from webhook.mutate import Mutator

_MOST_AT_ONCE = 6
_TIMEOUTS = {"10s": 10.0, "5s": 5.0, "1s": 1.0, "30s": 30.0, "": 10.0, "soon": 10.0, "-1s": 10.0, "nans": 10.0}
_MOVES = {"create": 70, "dry run": 8, "copy": 7, "forged": 5, "validate": 4, "hostile": 6, "no review": 3, "other": 2}
_ROUNDING_S = 1e-6

SECOND_RUN = "the second run changes nothing"
FITS = "kube-scheduler's filters admit a placed pod"


class Answer:
    """What a webhook said to a review of `pod`. `final` is the pod as it is then, None where it is refused or none."""

    __slots__ = ("allowed", "final", "message", "patched", "pod", "verdict")

    def __init__(self, pod: Json, path: str, response: Json) -> None:
        ops = answers.ops_of(response)
        self.pod = pod
        self.allowed = response["allowed"]
        self.final = answers.patched(pod, ops) if self.allowed else None
        self.patched = bool(ops)
        self.message = "" if self.allowed else response["status"]["message"]
        self.verdict = self._verdict(response)
        if path == "/validate":
            require(not ops, "the validating webhook patches nothing", ops)
            self.verdict = "validate: passed" if self.allowed else f"validate: {self.verdict}"

    def _verdict(self, response: Json) -> str:
        if not self.allowed:
            status = response["status"]
            return "unavailable" if status["code"] == 503 else str(status["details"]["causes"][0]["reason"])
        if not self.patched or self.final is None:
            return "untouched"
        return "placed" if reservation_of(self.final) not in (None, reservation_of(self.pod)) else "hidden"


class Episode:
    """Sends reviews to the webhooks of one world, and checks every answer.

    `sent` are the reviews that are under way, path and body, and `batches` how many times such were sent.
    """

    def __init__(self, dice: Dice, cluster: ClusterJson, make_mutator: MutatorClass = Mutator) -> None:
        self._dice = dice
        self._world = World(dice, cluster, make_mutator)
        self._reviews = 0
        self._alone = True
        self._promised: dict[str, Json] = {}
        self._loud = _Loud()
        self.cluster = cluster
        self.tally = Tally()
        self.sent: list[tuple[str, bytes]] = []
        self.batches = 0

    async def run(self, least: int, *, until: int | None = None) -> None:
        """At least so many reviews, or all before the batch `until`. Raises `BrokenLawError`, or what a handler
        raised.
        """
        writing = [asyncio.ensure_future(replica.refusals.run()) for replica in self._world.replicas]
        logging.getLogger().addHandler(self._loud)
        try:
            while self.tally.reviews < least and self.batches != until:
                self.batches += 1
                await self._batch()
                self._world.live()
        finally:
            logging.getLogger().removeHandler(self._loud)
            for task in writing:
                task.cancel()
            await asyncio.gather(*writing, return_exceptions=True)

    async def play(self, sent: Sequence[tuple[str, bytes]]) -> list[str]:
        """Sends recorded reviews one after the other. Returns the answers; raises as `run` does."""
        told = []
        for path, body in sent:
            status, answer, seconds = await self._post(self._world.replicas[0], path, Post(body), 10.0)
            told.append(f"{path}: {status} {answer.decode()}")
            if status == 200:
                self._look_at(path, body, status, answer, seconds, honest=False)
            self._judge()
        return told

    async def _batch(self) -> None:
        """Reviews that are under way at the same time; often several pods are made from one template."""
        dice = self._dice
        self.sent.clear()
        self._world.api.troubled = dice.chance(0.05)
        count = 1 if dice.chance(0.6) else dice.number(2, _MOST_AT_ONCE)
        self._alone = count == 1 and self._world.is_settled and not self._world.api.troubled
        template = a_pod(dice)
        pods = [template if index == 0 or dice.chance(0.4) else a_pod(dice) for index in range(count)]
        for error in await asyncio.gather(*map(self._move, pods), return_exceptions=True):
            if error is not None:
                raise error
        self._judge()

    def _judge(self) -> None:
        broken = self._world.api.broken
        require(not broken, "no two reservations above a budget", *broken)
        require(not self._loud.records, "nothing is logged as an error", *self._loud.records)

    async def _move(self, pod: Json) -> None:
        dice = self._dice
        replica = dice.one(self._world.replicas)
        namespace = "auto" if dice.chance(0.2) else "models"
        match dice.weighted(list(_MOVES), list(_MOVES.values())):
            case "create":
                await self._admit(replica, pod, namespace)
            case "dry run":
                await self._admit(replica, pod, namespace, dryRun=True)
            case "copy":
                stored = dice.one([*self._world.cluster.pods.values()] or [pod])
                await self._admit_copy(replica, stored, stored["metadata"].get("namespace", namespace))
            case "forged":
                path = dice.one(("/mutate", "/validate"))
                await self._ask(replica, path, reviews.forged(dice, pod), namespace)
            case "validate":
                await self._ask(replica, "/validate", pod, namespace, dryRun=dice.chance(0.2))
            case "hostile":
                path = dice.one(("/mutate", "/mutate", "/validate"))
                pod = reviews.hostile(dice, pod)
                await self._ask(replica, path, pod, namespace, honest=False, dryRun=dice.chance(0.3))
            case "no review":
                await self._send_nonsense(replica, pod)
            case _:
                more = reviews.another_request(dice)
                answer = await self._ask(replica, "/mutate", pod, more.pop("namespace", namespace), **more)
                require(answer.allowed and not answer.patched, "other requests pass untouched", more)

    async def _admit(self, replica: Replica, pod: Json, namespace: str, **more: Any) -> None:
        """A CREATE through both webhooks, as the API server does it, with the laws about the two of them."""
        dice, dry_run = self._dice, bool(more.get("dryRun"))
        running = list(self.cluster.pods.values()) if self._alone else None
        answer = await self._ask(replica, "/mutate", pod, namespace, **more)
        if answer.final is None:
            return
        placed = answer.verdict == "placed"
        if placed:
            self._check_place(answer.final, namespace, dry_run=dry_run, running=running)
        if (placed or dice.chance(0.15)) and not (dry_run and placed):
            await self._review_again(answer.final, namespace, **more)
        if dice.chance(0.15):
            return
        second = await self._ask(dice.one(self._world.replicas), "/validate", answer.final, namespace, **more)
        # A dry run is recorded nowhere, so nothing tells one replica that another knew more of the cards.
        may_differ = self._was_replaced(answer.final) or (dry_run and not self._alone)
        if second.final is None and not may_differ:
            why = "what the mutating webhook admits, the validating one lets in"
            require(second.verdict == "validate: unavailable", why, second.message)
        elif second.final is not None and placed and not dry_run and dice.chance(0.85):
            self._world.create(answer.final, namespace)

    async def _review_again(self, final: Json, namespace: str, **more: Any) -> None:
        """The second run of the mutating webhook on its own output, in whatever replica."""
        self.tally.checks[SECOND_RUN] += 1
        again = await self._ask(self._dice.one(self._world.replicas), "/mutate", final, namespace, **more)
        if not self._was_replaced(final):
            require(again.verdict in {"untouched", "unavailable"}, SECOND_RUN, again.verdict, again.message)

    def _was_replaced(self, final: Json) -> bool:
        """Whether its place was recorded, and a later attempt of its owner has it now, as if its create had failed."""
        owners = {owner["name"] for owner in final["metadata"].get("ownerReferences") or ()}
        kinds = {owner["kind"] for owner in final["metadata"].get("ownerReferences") or ()}
        reservation = reservation_of(final)
        gone = not any(reservation in raw["status"]["reservations"] for raw in self.cluster.gpu_nodes.values())
        return (
            gone
            and reservation in self._world.api.recorded
            and (words.ONE_AT_A_TIME in owners or bool(kinds & words.BY_NAME))
        )

    async def _admit_copy(self, replica: Replica, stored: Json, namespace: str) -> None:
        """A stored pod, sent again: if it is placed, then anew, under an id of its own."""
        copy = reviews.copied(self._dice, stored)
        known = stored["metadata"].get("uid") in self._world.api.known_pods
        answer = await self._ask(replica, "/mutate", copy, namespace, honest=False)
        if known and namespace != "other" and answer.final is not None:
            old, new = reservation_of(stored), reservation_of(answer.final)
            require(new is None or new != old, "two pods never carry one id", old)

    def _check_place(self, final: Json, namespace: str, *, dry_run: bool, running: list[Json] | None) -> None:
        """A placed pod agrees with the ledger, and an independent scheduler would put it there."""
        record = orjson.loads(final["metadata"]["annotations"][answers.PLACED])
        reservation, node = str(reservation_of(final)), record["node"]
        require(record["id"] == reservation, "the record tells the id", record)
        entry = self._world.reservation(node, reservation)
        if not dry_run and entry is None and self._was_replaced(final):
            return
        require((entry is None) == dry_run, "a placement is recorded, unless it is a dry run", entry)
        answers.check_placed(final, entry, node)
        pod = {**final, "metadata": {**final["metadata"], "namespace": namespace}}
        if running is not None:
            self.tally.checks[FITS] += 1
            reasons = self._reasons(pod, node, running)
            if "pod_affinity" in reasons:
                # To be near a pod that is promised and not there yet is right: kube-scheduler would wait for it.
                reasons &= self._reasons(pod, node, [*running, *self._still_promised(but=reservation)])
            require(not reasons, FITS, node, sorted(reasons))

    def _reasons(self, pod: Json, node: str, running: list[Json]) -> set[str]:
        """Why kube-scheduler would not put a pod on a node."""
        model = Model(list(self.cluster.nodes.values()), running, pod, self.cluster.namespaces)
        return model.reasons(self.cluster.nodes[node])

    def _still_promised(self, but: str) -> list[Json]:
        """The pods that were placed and are recorded still, whether they exist or not, `but` the one with that id."""
        recorded = {key for raw in self.cluster.gpu_nodes.values() for key in raw["status"]["reservations"]}
        self._promised = {key: pod for key, pod in self._promised.items() if key in recorded}
        return [pod for key, pod in self._promised.items() if key != but]

    async def _send_nonsense(self, replica: Replica, pod: Json) -> None:
        body = reviews.no_review(self._dice, pod)
        path = self._dice.one(("/mutate", "/validate"))
        content_type = "text/plain" if self._dice.chance(0.05) else "application/json"
        status, answer, seconds = await self._post(replica, path, Post(body, content_type=content_type), 10.0)
        if status == 200:
            answers.check_answer(orjson.loads(body)["request"]["uid"], status, answer)
        else:
            answers.check_refused_body(status, answer)
        self.tally.answered(f"http {status}" if status != 200 else "nonsense that is a review", seconds)

    async def _ask(
        self, replica: Replica, path: str, pod: Json, namespace: str, *, honest: bool = True, **more: Any
    ) -> Answer:
        """Sends a review of a pod, and checks what is to be said of every answer."""
        self._reviews += 1
        timeout = self._dice.one(list(_TIMEOUTS))
        body = orjson.dumps(reviews.a_review(pod, f"uid-{self._reviews}", namespace, **more))
        post = Post(body, {"timeout": timeout} if timeout else {})
        status, answer, seconds = await self._post(replica, path, post, _TIMEOUTS[timeout])
        return self._look_at(path, body, status, answer, seconds, honest=honest)

    def _look_at(self, path: str, body: bytes, status: int, answer: bytes, seconds: float, *, honest: bool) -> Answer:
        request = orjson.loads(body)["request"]
        response = answers.check_answer(request["uid"], status, answer)
        told = Answer(request["object"], path, response)
        if told.patched and told.final is not None:
            if honest:
                answers.check_patch(told.pod, told.final)
            if self._dice.chance(0.02):
                self.tally.checks[answers.SAME_PATCH] += 1
                answers.check_by_library(told.pod, answers.ops_of(response), told.final)
            if told.verdict == "placed" and not request.get("dryRun"):
                metadata = {**told.final["metadata"], "namespace": request["namespace"]}
                self._promised[str(reservation_of(told.final))] = {**told.final, "metadata": metadata}
        if told.verdict.endswith("unavailable"):
            require(self._world.api.troubled, "unavailable means that the API server is in trouble", response)
        self.tally.answered(told.verdict, seconds)
        return told

    async def _post(self, replica: Replica, path: str, post: Post, timeout_s: float) -> tuple[int, bytes, float]:
        """The answer, and the seconds of the processor that it took. The time of the API server is the loop's own."""
        loop = asyncio.get_running_loop()
        began, began_work = loop.time(), time.thread_time()
        self.sent.append((path, post.body))
        status, body = await replica.post(path, post)
        worked_s, waited_s = time.thread_time() - began_work, loop.time() - began
        limit_s = answers.PART_OF_TIMEOUT * timeout_s + _ROUNDING_S
        require(max(worked_s, waited_s) <= limit_s, "no answer is slower than the timeout", worked_s, waited_s, limit_s)
        return status, body, worked_s


class _Loud(logging.Handler):
    """Keeps what is logged as an error: work that fails behind an answer is found only there."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(logging.Formatter().format(record))
