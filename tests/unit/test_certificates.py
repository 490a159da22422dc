"""The serving Secret and the caBundles: made, repaired and renewed without a failed handshake, whatever breaks."""

from __future__ import annotations

import asyncio
import base64
import copy
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from controller.authority import Issued, issue, server_names
from controller.certificates import Certificates
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.errors import Conflict, Unavailable
from shared.settings import CommonSettings, ControllerSettings, SettingsError
from tests.fakes.apiserver import FakeApiServer, place_of
from tests.fakes.faults import Act, Fault, Proceed, drop, lose_answer
from tests.fakes.objects import RefusalError
from tests.fakes.serving import serving
from tests.unit.test_authority import handshake

SETTINGS: Final = ControllerSettings(CommonSettings(namespace="placement-system"), identity="controller-0")
SECRET: Final = paths.secrets("placement-system", SETTINGS.common.tls_secret)
MUTATING: Final = paths.mutating_webhooks(SETTINGS.mutating_configuration)
VALIDATING: Final = paths.validating_webhooks(SETTINGS.validating_configuration)
HOST: Final = "placement-operator-webhook.placement-system.svc"
NAMES: Final = server_names(SETTINGS.service, "placement-system")
LIFETIME: Final = timedelta(days=90)
SETTLE: Final = timedelta(seconds=5)
NOW: Final = datetime.now(UTC).replace(microsecond=0)
"""Real, since OpenSSL judges by the real clock: what is due for renewal was made 61 days before."""
MADE: Final = NOW - timedelta(days=61)
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def webhook(name: str, **config: str) -> dict[str, Any]:
    service = {"namespace": "placement-system", "name": SETTINGS.service, "path": f"/{name}", "port": 443}
    return {
        "name": f"{name}.placement.kamiwaza.ai",
        "clientConfig": {"service": service, **config},
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "matchConditions": [{"name": "not-a-mirror-pod", "expression": "!has(object.metadata.annotations)"}],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }


def untrusting(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without its caBundles and what the server counts."""
    rest = copy.deepcopy(dict(configuration))
    rest["metadata"] = {"name": rest["metadata"]["name"]}
    for entry in rest["webhooks"]:
        entry["clientConfig"].pop("caBundle", None)
    return rest


@dataclass
class World:
    """A cluster with our three objects, seen from outside: what is served, and who would accept it."""

    server: FakeApiServer
    client: KubeClient
    folder: Path
    time: datetime = NOW
    refusals: list[str] = field(default_factory=list)

    def certificates(self, settings: ControllerSettings = SETTINGS) -> Certificates:
        return Certificates(self.client, settings, now=lambda: self.time)

    def add(self, path: str, body: dict[str, Any]) -> None:
        collection, _, name = path.rpartition("/")
        self.server.objects.create(place_of(collection), {"metadata": {"name": name}, **body})

    def add_configurations(self) -> None:
        for path in (MUTATING, VALIDATING):
            self.add(path, {"webhooks": [webhook("enabled"), webhook("auto")]})

    def add_secret(self, entries: Mapping[str, bytes]) -> None:
        data = {key: base64.b64encode(value).decode() for key, value in entries.items()}
        self.add(SECRET, {"type": "kubernetes.io/tls", "data": data})

    def get(self, path: str) -> dict[str, Any]:
        return copy.deepcopy(self.server.objects.get(place_of(path)))

    def has(self, path: str) -> bool:
        try:
            self.get(path)
        except RefusalError:
            return False
        return True

    def change(self, path: str, change: Callable[[dict[str, Any]], object]) -> None:
        def changed(old: dict[str, Any]) -> dict[str, Any]:
            change(old)
            return old

        self.server.objects.update(place_of(path), changed)

    def trust(self, bundle: bytes) -> None:
        """Puts `bundle` into every webhook of the configurations."""

        def change(configuration: dict[str, Any]) -> None:
            for entry in configuration["webhooks"]:
                entry["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()

        for path in (MUTATING, VALIDATING):
            self.change(path, change)

    def secret(self) -> dict[str, bytes]:
        return {key: base64.b64decode(value) for key, value in self.get(SECRET)["data"].items()}

    def bundles(self) -> list[bytes]:
        """The caBundle of each of the four webhooks."""
        return [
            base64.b64decode(entry["clientConfig"].get("caBundle", ""))
            for path in (MUTATING, VALIDATING)
            for entry in self.get(path)["webhooks"]
        ]

    def accepts(self, pair: Mapping[str, bytes]) -> None:
        """The API server connects to a webhook that serves the pair, by each of the distinct bundles."""
        for bundle in set(self.bundles()):
            handshake(pair["tls.crt"], pair["tls.key"], bundle, HOST, self.folder)

    def watch_handshakes(self, *served: Mapping[str, bytes]) -> None:
        """After each write of the controller, notes whether what is served, now or by `served`, is refused."""

        async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
            answer = await proceed(request)
            if request.method in WRITES:
                for pair in (self.secret(), *served):
                    try:
                        self.accepts(pair)
                    except ssl.SSLError as error:
                        self.refusals.append(f"after {request.method} {request.path}: {error}")
            return answer

        self.server.faults.append(Fault(act, times=1_000_000))

    def writes(self) -> list[str]:
        return [line for line in self.server.requests if line.split()[0] in WRITES]


@asynccontextmanager
async def world(folder: Path, *, configured: bool = True) -> AsyncIterator[World]:
    async with serving(folder) as served:
        made = World(served.server, served.client, folder)
        if configured:
            made.add_configurations()
        yield made


def stored(pair: Issued, *before: Issued) -> dict[str, bytes]:
    """The entries of a Secret with `pair` in use, and the authorities of earlier ones."""
    bundle = b"".join(each.authority for each in (*before, pair))
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": bundle}


def made(at: datetime = MADE, names: Iterable[x509.GeneralName] = NAMES) -> Issued:
    return issue(names, at, LIFETIME)


GOOD: Final = made(NOW)
OTHER: Final = made(NOW)


async def converge(certificates: Certificates, world: World) -> None:
    """Follows the advice when to look again, with the clock of `world`, until there is nothing left to do."""
    for _ in range(10):
        wait = await certificates.reconcile()
        if wait > SETTLE:
            return
        world.time += wait
    raise AssertionError("still work to do after ten steps")


async def test_the_first_look_makes_a_secret_that_both_configurations_trust(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        certificates = cluster.certificates()
        before = [untrusting(cluster.get(path)) for path in (MUTATING, VALIDATING)]
        assert certificates.expiry is None

        await certificates.reconcile()

        secret = cluster.get(SECRET)
        assert secret["type"] == "kubernetes.io/tls"
        assert set(secret["data"]) == {"tls.crt", "tls.key", "ca.crt"}
        assert cluster.bundles() == [cluster.secret()["ca.crt"]] * 4
        assert [untrusting(cluster.get(path)) for path in (MUTATING, VALIDATING)] == before
        assert certificates.expiry == NOW + LIFETIME
        cluster.accepts(cluster.secret())


async def test_when_all_is_well_nothing_is_written_and_the_next_look_is_minutes_away(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        await cluster.certificates().reconcile()
        cluster.server.requests.clear()

        assert await cluster.certificates().reconcile() == timedelta(minutes=5)
        assert cluster.writes() == []


async def test_the_next_look_is_not_later_than_the_renewal(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        short = replace(SETTINGS, certificate_days=timedelta(minutes=3) / timedelta(days=1))
        assert await cluster.certificates(short).reconcile() == timedelta(minutes=2)


def wipe(configuration: dict[str, Any]) -> None:
    for entry in configuration["webhooks"]:
        del entry["clientConfig"]["caBundle"]


def break_one(configuration: dict[str, Any]) -> None:
    configuration["webhooks"][1]["clientConfig"]["caBundle"] = base64.b64encode(made().authority).decode()


def add_one(configuration: dict[str, Any]) -> None:
    configuration["webhooks"].append(webhook("another"))


@pytest.mark.parametrize("path", [MUTATING, VALIDATING])
@pytest.mark.parametrize("damage", [wipe, break_one, add_one])
async def test_a_wrong_bundle_is_repaired_and_nothing_else_touched(
    damage: Callable[[dict[str, Any]], None], path: str, tmp_path: Path
) -> None:
    async with world(tmp_path) as cluster:
        certificates = cluster.certificates()
        await certificates.reconcile()
        cluster.change(path, damage)
        damaged = cluster.get(path)
        cluster.server.requests.clear()

        await certificates.reconcile()

        assert set(cluster.bundles()) == {cluster.secret()["ca.crt"]}
        assert untrusting(cluster.get(path)) == untrusting(damaged)
        assert cluster.writes() == [f"PATCH {path}"]


async def test_a_change_that_somebody_makes_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    def raise_timeout(configuration: dict[str, Any]) -> None:
        configuration["webhooks"][0]["timeoutSeconds"] = 7

    async def meanwhile(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        cluster.change(MUTATING, raise_timeout)
        return await proceed(request)

    async with world(tmp_path) as cluster:
        certificates = cluster.certificates()
        cluster.server.fail(meanwhile, method="PATCH", path=MUTATING)
        with pytest.raises(Conflict):
            await certificates.reconcile()

        await certificates.reconcile()

        assert cluster.get(MUTATING)["webhooks"][0]["timeoutSeconds"] == 7
        assert set(cluster.bundles()) == {cluster.secret()["ca.crt"]}


async def test_a_secret_that_somebody_changes_meanwhile_is_read_again_before_it_is_written(tmp_path: Path) -> None:
    async def meanwhile(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        cluster.change(SECRET, lambda secret: secret["metadata"].update(labels={"team": "models"}))
        return await proceed(request)

    async with world(tmp_path) as cluster:
        old = made()
        cluster.add_secret(stored(old))
        certificates = cluster.certificates()
        cluster.server.fail(meanwhile, method="PATCH", path=SECRET)
        with pytest.raises(Conflict):
            await certificates.reconcile()
        assert cluster.secret() == stored(old)

        await converge(certificates, cluster)

        assert cluster.secret()["tls.crt"] != old.certificate
        assert cluster.get(SECRET)["metadata"]["labels"] == {"team": "models"}


async def test_a_renewal_trusts_the_new_authority_before_it_serves_the_new_pair(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        old = made()
        cluster.add_secret(stored(old))
        certificates = cluster.certificates()

        await certificates.reconcile()
        prepared = cluster.secret()
        assert prepared["tls.crt"] == old.certificate
        assert prepared["ca.crt"].startswith(old.authority)
        assert await certificates.reconcile() == SETTLE
        assert set(cluster.bundles()) == {prepared["ca.crt"]}
        assert certificates.expiry == MADE + LIFETIME

        cluster.time += SETTLE - timedelta(seconds=1)
        assert await certificates.reconcile() == timedelta(seconds=1)
        assert cluster.secret() == prepared

        cluster.time += timedelta(seconds=1)
        await certificates.reconcile()
        assert cluster.secret() == {
            "tls.crt": prepared["next.crt"],
            "tls.key": prepared["next.key"],
            "ca.crt": prepared["ca.crt"],
        }
        await certificates.reconcile()
        assert certificates.expiry == NOW + LIFETIME
        assert prepared["next.crt"] != old.certificate


async def test_a_bundle_that_was_wrong_for_a_moment_settles_anew(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        old = made()
        cluster.add_secret(stored(old))
        certificates = cluster.certificates()
        await certificates.reconcile()
        await certificates.reconcile()

        cluster.time += SETTLE
        cluster.change(VALIDATING, wipe)
        cluster.server.fail(lose_answer(), method="PATCH", path=VALIDATING)
        with pytest.raises(Unavailable):
            await certificates.reconcile()

        assert await certificates.reconcile() == SETTLE
        assert cluster.secret()["tls.crt"] == old.certificate


async def test_a_bundle_that_another_controller_published_settles_as_well(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        cluster.add_secret(stored(GOOD))
        early, late = cluster.certificates(), cluster.certificates()
        await early.reconcile()
        cluster.time += timedelta(days=61)
        await late.reconcile()
        await late.reconcile()

        assert await early.reconcile() == SETTLE
        assert cluster.secret()["tls.crt"] == GOOD.certificate


async def test_a_renewal_takes_four_writes_and_no_handshake_fails_between_them(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        old = stored(made())
        cluster.add_secret(old)
        cluster.trust(old["ca.crt"])
        cluster.watch_handshakes(old)

        await converge(cluster.certificates(), cluster)

        assert cluster.writes() == [f"PATCH {path}" for path in (SECRET, MUTATING, VALIDATING, SECRET)]
        assert cluster.refusals == []
        assert cluster.secret()["tls.crt"] != old["tls.crt"]


def at_write(number: int, how: Act) -> Act:
    """Lets requests through, but for the `number`th write and those after it."""
    count = 0

    async def act(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        nonlocal count
        count += request.method in WRITES
        if count < number or request.method not in WRITES:
            return await proceed(request)
        return await (how if count == number else drop())(request, proceed)

    return act


@pytest.mark.parametrize("how", [drop(), lose_answer()], ids=["write-never-arrives", "write-arrives-unanswered"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("usable", [True, False], ids=["renewal", "pair-expired"])
async def test_a_controller_that_takes_over_at_any_write_finishes_the_renewal(
    usable: bool, number: int, how: Act, tmp_path: Path
) -> None:
    async with world(tmp_path) as cluster:
        old = stored(made(MADE if usable else NOW - timedelta(days=91)))
        cluster.add_secret(old)
        cluster.trust(old["ca.crt"])
        crash = Fault(at_write(number, how), times=1_000_000)
        cluster.server.faults.append(crash)
        with pytest.raises(Unavailable):
            await converge(cluster.certificates(), cluster)
        crash.times = 0
        if usable:
            cluster.accepts(old)
            cluster.accepts(cluster.secret())
            cluster.watch_handshakes(old)

        await converge(cluster.certificates(), cluster)

        assert cluster.refusals == []
        assert set(cluster.secret()) == {"tls.crt", "tls.key", "ca.crt"}
        assert cluster.secret()["tls.crt"] != old["tls.crt"]
        assert set(cluster.bundles()) == {cluster.secret()["ca.crt"]}
        cluster.accepts(cluster.secret())


@pytest.mark.parametrize("how", [drop(), lose_answer()], ids=["write-never-arrives", "write-arrives-unanswered"])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_controller_that_takes_over_at_any_write_finishes_the_first_creation(
    number: int, how: Act, tmp_path: Path
) -> None:
    async with world(tmp_path) as cluster:
        crash = Fault(at_write(number, how), times=1_000_000)
        cluster.server.faults.append(crash)
        with pytest.raises(Unavailable):
            await converge(cluster.certificates(), cluster)
        crash.times = 0

        await converge(cluster.certificates(), cluster)

        assert set(cluster.bundles()) == {cluster.secret()["ca.crt"]}
        cluster.accepts(cluster.secret())


async def test_two_controllers_at_once_agree_on_one_renewal(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        old = stored(made())
        cluster.add_secret(old)
        cluster.trust(old["ca.crt"])
        cluster.watch_handshakes(old)
        both = cluster.certificates(), cluster.certificates()

        for _ in range(10):
            outcomes = await asyncio.gather(*(each.reconcile() for each in both), return_exceptions=True)
            assert all(isinstance(outcome, timedelta | Conflict) for outcome in outcomes)
            cluster.time += SETTLE

        assert cluster.refusals == []
        assert set(cluster.secret()) == {"tls.crt", "tls.key", "ca.crt"}
        assert cluster.secret()["ca.crt"].count(b"BEGIN CERTIFICATE") == 2


async def test_a_secret_that_another_controller_creates_first_is_taken_over(tmp_path: Path) -> None:
    async def meanwhile(request: web.Request, proceed: Proceed) -> web.StreamResponse:
        cluster.add_secret(stored(GOOD))
        return await proceed(request)

    async with world(tmp_path) as cluster:
        cluster.server.fail(meanwhile, method="POST")

        await converge(cluster.certificates(), cluster)

        assert cluster.secret() == stored(GOOD)
        assert cluster.bundles() == [GOOD.authority] * 4


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param({**stored(GOOD), "tls.key": OTHER.key}, id="key-of-another"),
        pytest.param({**stored(GOOD), "tls.crt": GOOD.certificate[:200]}, id="half-a-certificate"),
        pytest.param({**stored(GOOD), "tls.crt": b"", "tls.key": b""}, id="empty-entries"),
        pytest.param({"tls.crt": GOOD.certificate}, id="missing-entries"),
        pytest.param({}, id="no-entries"),
        pytest.param({**stored(GOOD), "ca.crt": OTHER.authority}, id="authority-of-another"),
        pytest.param({**stored(GOOD), "ca.crt": b"junk"}, id="bundle-is-junk"),
        pytest.param(stored(made(NOW - timedelta(days=91))), id="expired"),
        pytest.param(stored(made(NOW + timedelta(days=3))), id="made-by-a-clock-that-was-wrong"),
    ],
)
async def test_a_pair_that_cannot_be_served_is_replaced_without_waiting(
    entries: dict[str, bytes], tmp_path: Path
) -> None:
    async with world(tmp_path) as cluster:
        cluster.add_secret(entries)

        await converge(cluster.certificates(), cluster)

        assert cluster.time == NOW
        assert set(cluster.secret()) == {"tls.crt", "tls.key", "ca.crt"}
        assert set(cluster.bundles()) == {cluster.secret()["ca.crt"]}
        cluster.accepts(cluster.secret())


async def test_a_bundle_that_was_lost_is_not_published_as_an_empty_one(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        cluster.add_secret({**stored(GOOD), "ca.crt": b""})
        cluster.trust(GOOD.authority)

        await cluster.certificates().reconcile()

        assert cluster.bundles() == [GOOD.authority] * 4


async def test_a_webhook_that_still_holds_the_good_half_of_a_broken_pair_stays_trusted(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        good = stored(GOOD)
        cluster.add_secret({**good, "tls.key": OTHER.key})
        cluster.trust(good["ca.crt"])

        await converge(cluster.certificates(), cluster)

        cluster.accepts(good)
        cluster.accepts(cluster.secret())


@pytest.mark.parametrize(
    "following",
    [
        pytest.param({"next.crt": OTHER.certificate, "next.key": GOOD.key}, id="mismatched"),
        pytest.param({"next.crt": OTHER.certificate, "next.key": OTHER.key}, id="authority-not-in-the-bundle"),
        pytest.param({"next.key": OTHER.key}, id="without-certificate"),
        pytest.param({"next.crt": OTHER.certificate}, id="without-key"),
    ],
)
@pytest.mark.parametrize("due", [True, False], ids=["renewal-due", "not-due"])
async def test_a_broken_next_pair_never_comes_into_use(due: bool, following: dict[str, bytes], tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        current = stored(made() if due else GOOD)
        cluster.add_secret({**current, **following})
        cluster.trust(current["ca.crt"])
        cluster.watch_handshakes(current)

        await converge(cluster.certificates(), cluster)

        assert cluster.refusals == []
        assert set(cluster.secret()) == {"tls.crt", "tls.key", "ca.crt"}
        assert (cluster.secret()["tls.crt"] != current["tls.crt"]) == due


@pytest.mark.parametrize("name", ["webhook.example.org", "192.0.2.7"])
async def test_a_name_that_the_settings_add_renews_with_overlap(name: str, tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        old = stored(GOOD)
        cluster.add_secret(old)
        cluster.trust(old["ca.crt"])
        cluster.watch_handshakes(old)

        await converge(cluster.certificates(replace(SETTINGS, extra_sans=(name,))), cluster)

        renewed = cluster.secret()
        handshake(renewed["tls.crt"], renewed["tls.key"], renewed["ca.crt"], name, tmp_path)
        assert cluster.refusals == []


async def test_names_that_change_during_a_renewal_drop_the_pair_that_was_to_come(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        before, old = made(NOW - timedelta(days=80)), made()
        cluster.add_secret(stored(old, before))
        cluster.trust(stored(old, before)["ca.crt"])
        cluster.watch_handshakes(stored(before), stored(old))
        await cluster.certificates().reconcile()
        dropped = cluster.secret()["ca.crt"].removeprefix(before.authority + old.authority)

        await converge(cluster.certificates(replace(SETTINGS, extra_sans=("a.example.org",))), cluster)

        bundle = cluster.secret()["ca.crt"]
        assert cluster.refusals == []
        assert bundle.startswith(before.authority + old.authority)
        assert bundle.count(b"BEGIN CERTIFICATE") == 3
        assert dropped not in bundle


async def test_without_configurations_the_pair_is_kept_and_they_are_served_when_they_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="controller.certificates")
    async with world(tmp_path, configured=False) as cluster:
        cluster.add_secret(stored(made()))
        certificates = cluster.certificates()
        await converge(certificates, cluster)
        await certificates.reconcile()
        assert caplog.messages == ["no such webhook configuration; waiting for it"] * 2

        cluster.add_configurations()
        await certificates.reconcile()

        cluster.accepts(cluster.secret())
        assert cluster.secret()["ca.crt"] == cluster.bundles()[0]
        cluster.server.objects.delete(place_of(VALIDATING), {})
        await certificates.reconcile()
        assert len(caplog.messages) == 3


async def test_an_authority_leaves_the_bundle_when_it_expires(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        expired = made(NOW - timedelta(days=100))
        cluster.add_secret(stored(GOOD, expired))

        await converge(cluster.certificates(), cluster)

        assert cluster.secret() == stored(GOOD)
        assert set(cluster.bundles()) == {GOOD.authority}


async def test_over_two_years_every_pair_is_accepted_and_the_bundle_stays_small(tmp_path: Path) -> None:
    def verify(leaf: bytes) -> None:
        for bundle in set(cluster.bundles()):
            store = Store(x509.load_pem_x509_certificates(bundle))
            verifier = PolicyBuilder().store(store).time(cluster.time).build_server_verifier(x509.DNSName(HOST))
            verifier.verify(x509.load_pem_x509_certificate(leaf), [])

    async with world(tmp_path) as cluster:
        certificates = cluster.certificates()
        served: list[bytes] = []
        for _ in range(37):
            await converge(certificates, cluster)
            served.append(cluster.secret()["tls.crt"])
            for leaf in served[-2:]:
                verify(leaf)
            assert cluster.secret()["ca.crt"].count(b"BEGIN CERTIFICATE") <= 2
            cluster.time += timedelta(days=20)
        assert len(set(served)) == 13


@asynccontextmanager
async def running(certificates: Certificates) -> AsyncIterator[None]:
    task = asyncio.create_task(certificates.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not true():  # noqa: ASYNC110 - what the fake server stores tells nobody
            await asyncio.sleep(0.01)


async def test_running_it_repairs_at_once_whatever_is_deleted_or_overwritten(tmp_path: Path) -> None:
    def healthy() -> bool:
        return cluster.has(SECRET) and set(cluster.bundles()) == {cluster.secret()["ca.crt"]}

    async with world(tmp_path) as cluster, running(cluster.certificates()):
        await eventually(healthy)
        cluster.change(MUTATING, wipe)
        await eventually(healthy)
        cluster.server.objects.delete(place_of(SECRET), {})
        await eventually(healthy)
        cluster.change(SECRET, lambda secret: secret["data"].pop("tls.key"))
        await eventually(lambda: healthy() and "tls.key" in cluster.secret())
        cluster.accepts(cluster.secret())


async def test_running_it_renews_by_itself_once_the_bundle_has_settled(tmp_path: Path) -> None:
    async with world(tmp_path) as cluster:
        old = stored(made())
        cluster.add_secret(old)
        cluster.trust(old["ca.crt"])
        cluster.watch_handshakes(old)
        settle = timedelta(milliseconds=100)
        async with running(Certificates(cluster.client, SETTINGS, now=lambda: datetime.now(UTC), settle=settle)):
            await eventually(lambda: cluster.secret()["tls.crt"] != old["tls.crt"])
        assert cluster.refusals == []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (replace(SETTINGS, extra_sans=("two words",)), "'two words': write a DNS name"),
        (replace(SETTINGS, certificate_days=0.0001), "make it 0:01:00 or more"),
    ],
)
async def test_settings_that_no_certificate_can_follow_are_refused_at_once(
    settings: ControllerSettings, says: str, tmp_path: Path
) -> None:
    async with world(tmp_path, configured=False) as cluster:
        with pytest.raises(SettingsError, match=says):
            cluster.certificates(settings)
