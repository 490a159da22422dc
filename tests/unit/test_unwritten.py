"""What the log says where a `ModelPlacement` could not be written."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from shared.kube.errors import ApiError, Forbidden, Invalid, NotFound
from shared.kube.paths import InvalidName
from shared.kube.unwritten import Obstacle, Unwritten, obstacle

COUNT = "count/modelplacements.placement.kamiwaza.ai"
OBJECT = 'modelplacements.placement.kamiwaza.ai "deployment-late" is forbidden'


def quota(more: str = "", limit: str = "3") -> Forbidden:
    said = f"exceeded quota: few, requested: {more}{COUNT}=1, used: {more}{COUNT}=3, limited: {more}{COUNT}={limit}"
    return Forbidden(403, "Forbidden", f"{OBJECT}: {said}")


def caused(kind: type[ApiError], status: int, **cause: str) -> ApiError:
    return kind(status, kind.__name__, "no", {"details": {"causes": [cause]}})


@pytest.mark.parametrize(
    ("error", "field", "value"),
    [
        pytest.param(quota(), f"ResourceQuota few: spec.hard[{COUNT}]", "3", id="quota"),
        pytest.param(quota("count/pods=1,", "5"), f"ResourceQuota few: spec.hard[{COUNT}]", "5", id="of-more-than-one"),
        pytest.param(
            Forbidden(403, "Forbidden", "denied by policy"),
            "a write of the operator in this namespace",
            "denied by policy",
            id="policy",
        ),
        pytest.param(
            NotFound(404, "NotKubernetes", "404 page not found"),
            "CustomResourceDefinition modelplacements.placement.kamiwaza.ai",
            "missing",
            id="no-such-kind",
        ),
        pytest.param(caused(Invalid, 422, field="status.phase"), "status.phase", "no", id="another-schema"),
    ],
)
def test_what_an_admin_has_to_mend(error: ApiError, field: str, value: str) -> None:
    found = obstacle(error)
    assert isinstance(found, Obstacle)
    assert (found.field, found.value) == (field, value)
    assert found.fix


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(caused(Forbidden, 403, reason="NamespaceTerminating"), id="namespace-goes"),
        pytest.param(NotFound(404, "NotFound", 'namespaces "models" not found'), id="namespace-is-gone"),
        pytest.param(caused(Invalid, 422, field="metadata.ownerReferences[0].name"), id="made-up-owner"),
        pytest.param(Invalid(422, "Invalid", "no"), id="for-no-reason"),
        pytest.param(InvalidName("a/b"), id="made-up-name"),
    ],
)
def test_what_passes_by_itself_or_was_made_up(error: Exception) -> None:
    assert obstacle(error) is None


def test_equal_obstacles_of_a_namespace_are_a_warning_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    unwritten = Unwritten("not reported", lambda: now)

    def tell(namespace: str = "models", error: ApiError | None = None) -> tuple[str, dict[str, Any]]:
        caplog.clear()
        with caplog.at_level(logging.INFO):
            unwritten.tell(namespace, "Deployment/late", error or quota())
        (record,) = caplog.records
        fields: dict[str, Any] = record.__dict__["fields"]
        return record.levelname, fields

    level, fields = tell()
    assert level == "WARNING"
    assert {key: fields[key] for key in ("namespace", "workload", "field", "value")} == {
        "namespace": "models",
        "workload": "Deployment/late",
        "field": f"ResourceQuota few: spec.hard[{COUNT}]",
        "value": "3",
    }
    assert "raise it" in fields["fix"]
    assert tell()[0] == "INFO"
    assert tell("others")[0] == "WARNING"
    assert tell(error=Forbidden(403, "Forbidden", "denied"))[0] == "WARNING"
    now = 600.0
    assert tell()[0] == "WARNING"
