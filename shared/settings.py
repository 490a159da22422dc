"""What an installation decides, read once from the environment; see the chart's values for what sets it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_OWNER_KIND: Final = re.compile(
    r"""
    (?P<api_version> [a-z0-9]([a-z0-9.-]*[a-z0-9])? / v[0-9][a-z0-9]*) / (?P<kind> [A-Z][A-Za-z0-9]*)
    = (?P<plural> [a-z][a-z0-9]*)
    """,
    re.VERBOSE | re.ASCII,
)


class SettingsError(ValueError):
    """An environment variable that cannot be used: names the variable, its value and the form it should have."""


@dataclass(frozen=True, slots=True)
class CommonSettings:
    """What both processes need."""

    namespace: str
    kubeconfig: str | None = None
    tls_secret: str = "placement-operator-webhook-tls"  # noqa: S105 - the name of a Secret
    exclusive: bool = False
    preemption: bool = False
    log_level: str = "info"
    health_host: str = ""
    """Empty: all addresses, of IPv4 and of IPv6. The kubelet probes the pod's."""
    health_port: int = 8081
    owner_kinds: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """API version and kind to plural of the custom kinds that own model pods and may be read."""


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The webhook's own."""

    common: CommonSettings
    listen_host: str = ""
    """Empty: all addresses, of IPv4 and of IPv6. The API server calls the pod's."""
    listen_port: int = 9443
    runtime_class: str | None = None


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The controller's own. Seconds are named as such."""

    common: CommonSettings
    identity: str
    lease: str = "placement-operator-controller"
    mutating_configuration: str = "zz-placement-operator"
    validating_configuration: str = "placement-operator"
    service: str = "placement-operator-webhook"
    extra_sans: tuple[str, ...] = field(default=())
    unconfirmed_ttl_s: float = 20.0
    kept_seat_s: float = 30.0
    """How long a seat is kept for the next pod of its owner; 0 keeps none."""
    certificate_days: float = 90.0
    stuck_after_s: float = 60.0
    replace_stuck: bool = True
    wake_kinds: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Those of `owner_kinds` that may be touched as well."""
    read_logs: bool = False
    """Whether the logs of crashed containers may be read, to find out whether memory was short."""


def webhook_settings(env: Mapping[str, str]) -> WebhookSettings:
    """The webhook's settings. Raises `SettingsError`."""
    defaults = WebhookSettings(common_settings(env))
    return WebhookSettings(
        common=defaults.common,
        listen_host=env.get("PLACEMENT_LISTEN_HOST") or defaults.listen_host,
        listen_port=_port(env, "PLACEMENT_LISTEN_PORT", defaults.listen_port),
        runtime_class=env.get("PLACEMENT_RUNTIME_CLASS") or None,
    )


def controller_settings(env: Mapping[str, str]) -> ControllerSettings:
    """The controller's settings. Raises `SettingsError`."""
    defaults = ControllerSettings(common_settings(env), identity="")
    return ControllerSettings(
        common=defaults.common,
        identity=_required(env, "PLACEMENT_IDENTITY", "the pod's name"),
        lease=env.get("PLACEMENT_LEASE") or defaults.lease,
        mutating_configuration=env.get("PLACEMENT_MUTATING_CONFIGURATION") or defaults.mutating_configuration,
        validating_configuration=env.get("PLACEMENT_VALIDATING_CONFIGURATION") or defaults.validating_configuration,
        service=env.get("PLACEMENT_SERVICE") or defaults.service,
        extra_sans=tuple(name.strip() for name in env.get("PLACEMENT_EXTRA_SANS", "").split(",") if name.strip()),
        unconfirmed_ttl_s=_seconds(env, "PLACEMENT_UNCONFIRMED_TTL_SECONDS", defaults.unconfirmed_ttl_s),
        kept_seat_s=_seconds(env, "PLACEMENT_KEPT_SEAT_SECONDS", defaults.kept_seat_s, may_be_zero=True),
        certificate_days=_seconds(env, "PLACEMENT_CERTIFICATE_DAYS", defaults.certificate_days),
        stuck_after_s=_seconds(env, "PLACEMENT_STUCK_AFTER_SECONDS", defaults.stuck_after_s),
        replace_stuck=_flag(env, "PLACEMENT_REPLACE_STUCK", "true"),
        wake_kinds=_owner_kinds(env, "PLACEMENT_WAKE_KINDS"),
        read_logs=_flag(env, "PLACEMENT_READ_LOGS"),
    )


def common_settings(env: Mapping[str, str]) -> CommonSettings:
    """The settings of both processes. Raises `SettingsError`."""
    defaults = CommonSettings(namespace="")
    return CommonSettings(
        namespace=_required(env, "PLACEMENT_NAMESPACE", "the namespace the operator runs in"),
        kubeconfig=env.get("KUBECONFIG") or None,
        tls_secret=env.get("PLACEMENT_TLS_SECRET") or defaults.tls_secret,
        exclusive=_flag(env, "PLACEMENT_EXCLUSIVE"),
        preemption=_enabled(env, "PLACEMENT_PREEMPTION"),
        log_level=env.get("PLACEMENT_LOG_LEVEL") or defaults.log_level,
        health_host=env.get("PLACEMENT_HEALTH_HOST") or defaults.health_host,
        health_port=_port(env, "PLACEMENT_HEALTH_PORT", defaults.health_port),
        owner_kinds=_owner_kinds(env, "PLACEMENT_OWNER_KINDS"),
    )


def _required(env: Mapping[str, str], name: str, what: str) -> str:
    value = env.get(name, "")
    if not value:
        raise SettingsError(f"{name} is not set: give {what}")
    return value


def _flag(env: Mapping[str, str], name: str, default: str = "false") -> bool:
    value = env.get(name) or default
    if value not in {"true", "false"}:
        raise SettingsError(f"{name} is {value!r}: write true or false")
    return value == "true"


def _enabled(env: Mapping[str, str], name: str) -> bool:
    value = env.get(name) or "disabled"
    if value not in {"enabled", "disabled"}:
        raise SettingsError(f"{name} is {value!r}: write enabled or disabled")
    return value == "enabled"


def _owner_kinds(env: Mapping[str, str], name: str) -> dict[tuple[str, str], str]:
    kinds = {}
    for part in filter(None, map(str.strip, env.get(name, "").split(","))):
        match = _OWNER_KIND.fullmatch(part)
        if match is None:
            form = "<group>/<version>/<Kind>=<plural>, such as ray.io/v1/RayCluster=rayclusters"
            raise SettingsError(f"{name} has {part!r}: write {form}")
        kinds[match["api_version"], match["kind"]] = match["plural"]
    return kinds


def _port(env: Mapping[str, str], name: str, default: int) -> int:
    value = env.get(name) or str(default)
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 65535:
        raise SettingsError(f"{name} is {value!r}: write a port from 1 to 65535")
    return int(value)


def _seconds(env: Mapping[str, str], name: str, default: float, *, may_be_zero: bool = False) -> float:
    value = env.get(name) or str(default)
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not (0 < number < 1e6 or (may_be_zero and number == 0)):
        raise SettingsError(f"{name} is {value!r}: write {'0 or ' if may_be_zero else ''}a number above 0")
    return number
