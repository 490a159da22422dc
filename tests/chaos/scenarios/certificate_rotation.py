"""The serving certificate is renewed under load: no create fails, and no webhook is distrusted for a moment."""

from __future__ import annotations

from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.e2e.creates import steady_creates
from tests.e2e.kube import until
from tests.e2e.trust import always_trusted, grow_old, secret_entry, serves_everywhere

_RENEWED_S = 60.0
_MORE = 8


def _rotation(scene: Scene) -> None:
    here, namespace = scene.pool(80, 80), scene.make_namespace()
    with steady_creates(namespace, here.name, callers=4, pause_s=0.1) as stream, always_trusted(scene.stage):
        before = secret_entry(scene.api, "tls.crt")
        grow_old(scene.stage)
        scene.tell("certificate near its end", "secret")
        until("a successor is made", lambda: secret_entry(scene.api, "next.crt"), within_s=_RENEWED_S)
        until("it comes into use", lambda: not secret_entry(scene.api, "next.crt"), within_s=_RENEWED_S)
        stored = secret_entry(scene.api, "tls.crt")
        assert stored != before
        until("every webhook serves it", lambda: serves_everywhere(scene.operator, stored))
        after = len(stream.creates)
        until("pods are created after that", lambda: len(stream.creates) > after + _MORE)
    scene.count(stream.creates)
    failed = [f"{one.name}: {one.said}" for one in stream.failed()]
    assert not failed, f"reviews failed: {'; '.join(failed[:3])}"


CERTIFICATE_ROTATION = Scenario("certificate-rotation", _rotation, 30.0, least_admitted=20, answers_all=True)
