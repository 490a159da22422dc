"""Settings: read from the environment, and wrong ones named with the form they should have."""

from __future__ import annotations

import pytest

from shared.settings import SettingsError, common_settings, controller_settings, webhook_settings

LEAST = {"PLACEMENT_NAMESPACE": "placement-system", "PLACEMENT_IDENTITY": "controller-0"}


def test_what_is_not_set_is_what_the_chart_installs() -> None:
    webhook, controller = webhook_settings(LEAST), controller_settings(LEAST)
    common = webhook.common
    assert common == controller.common
    assert (common.namespace, common.tls_secret) == ("placement-system", "placement-operator-webhook-tls")
    assert (common.kubeconfig, common.exclusive, common.log_level) == (None, False, "info")
    assert (common.health_host, common.health_port) == ("", 8081)
    assert (webhook.listen_host, webhook.listen_port, webhook.runtime_class) == ("", 9443, None)
    assert not common.preemption
    assert controller.identity == "controller-0"
    assert controller.lease == "placement-operator-controller"
    assert controller.mutating_configuration == "zz-placement-operator"
    assert controller.validating_configuration == "placement-operator"
    assert controller.service == "placement-operator-webhook"
    assert controller.extra_sans == ()
    assert (controller.unconfirmed_ttl_s, controller.kept_seat_s) == (20.0, 30.0)
    assert (controller.stuck_after_s, controller.replace_stuck, controller.wake_kinds) == (60.0, True, {})
    assert not controller.read_logs


def test_an_empty_variable_is_as_good_as_none() -> None:
    empty = dict.fromkeys(
        (
            "KUBECONFIG",
            "PLACEMENT_TLS_SECRET",
            "PLACEMENT_EXCLUSIVE",
            "PLACEMENT_HEALTH_PORT",
            "PLACEMENT_OWNER_KINDS",
            "PLACEMENT_LISTEN_PORT",
            "PLACEMENT_RUNTIME_CLASS",
            "PLACEMENT_PREEMPTION",
            "PLACEMENT_EXTRA_SANS",
            "PLACEMENT_UNCONFIRMED_TTL_SECONDS",
            "PLACEMENT_STUCK_AFTER_SECONDS",
            "PLACEMENT_REPLACE_STUCK",
            "PLACEMENT_WAKE_KINDS",
            "PLACEMENT_READ_LOGS",
            "PLACEMENT_KEPT_SEAT_SECONDS",
        ),
        "",
    )
    assert webhook_settings(LEAST | empty) == webhook_settings(LEAST)
    assert controller_settings(LEAST | empty) == controller_settings(LEAST)


def test_everything_can_be_set() -> None:
    env = LEAST | {
        "KUBECONFIG": "/etc/kubeconfig",
        "PLACEMENT_EXCLUSIVE": "true",
        "PLACEMENT_LISTEN_HOST": "127.0.0.1",
        "PLACEMENT_LISTEN_PORT": "65535",
        "PLACEMENT_RUNTIME_CLASS": "nvidia",
        "PLACEMENT_PREEMPTION": "enabled",
        "PLACEMENT_EXTRA_SANS": " webhook.example.org, 192.0.2.7 ,",
        "PLACEMENT_UNCONFIRMED_TTL_SECONDS": "0.5",
        "PLACEMENT_KEPT_SEAT_SECONDS": "0",
        "PLACEMENT_CERTIFICATE_DAYS": "30",
        "PLACEMENT_STUCK_AFTER_SECONDS": "90",
        "PLACEMENT_REPLACE_STUCK": "false",
        "PLACEMENT_WAKE_KINDS": "ray.io/v1/RayCluster=rayclusters,",
        "PLACEMENT_READ_LOGS": "true",
        "PLACEMENT_LEASE": "lease",
        "PLACEMENT_OWNER_KINDS": "ray.io/v1/RayCluster=rayclusters, x.kubeflow.org/v1beta1/MPIJob=mpijobs,",
    }
    webhook, controller = webhook_settings(env), controller_settings(env)
    assert (webhook.common.kubeconfig, webhook.common.exclusive) == ("/etc/kubeconfig", True)
    assert (webhook.listen_host, webhook.listen_port, webhook.runtime_class) == ("127.0.0.1", 65535, "nvidia")
    assert webhook.common.preemption
    assert controller.extra_sans == ("webhook.example.org", "192.0.2.7")
    assert (controller.unconfirmed_ttl_s, controller.certificate_days) == (0.5, 30.0)
    assert controller.read_logs
    assert controller.kept_seat_s == 0.0
    assert controller.lease == "lease"
    assert (controller.stuck_after_s, controller.replace_stuck) == (90.0, False)
    assert controller.wake_kinds == {("ray.io/v1", "RayCluster"): "rayclusters"}
    assert webhook.common.owner_kinds == {
        ("ray.io/v1", "RayCluster"): "rayclusters",
        ("x.kubeflow.org/v1beta1", "MPIJob"): "mpijobs",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        "RayCluster",
        "RayCluster=rayclusters",
        "v1/RayCluster=rayclusters",
        "ray.io/v1/RayCluster",
        "ray.io/v1/RayCluster=",
        "ray.io/v1/RayCluster=ray/clusters",
        "ray.io/v1/rayclusters=rayclusters",
        "../v1/RayCluster=rayclusters",
        "ray.io/v1/x/RayCluster=rayclusters",
    ],
)
def test_a_wrong_owner_kind_is_named_among_right_ones(wrong: str) -> None:
    with pytest.raises(SettingsError) as error:
        common_settings(LEAST | {"PLACEMENT_OWNER_KINDS": f"a.b/v1/C=cs,{wrong}"})
    form = "<group>/<version>/<Kind>=<plural>, such as ray.io/v1/RayCluster=rayclusters"
    assert str(error.value) == f"PLACEMENT_OWNER_KINDS has {wrong!r}: write {form}"


@pytest.mark.parametrize("name", sorted(LEAST))
def test_a_variable_that_has_to_be_set_is_asked_for(name: str) -> None:
    env = {other: value for other, value in LEAST.items() if other != name}
    with pytest.raises(SettingsError, match=f"{name} is not set: give "):
        controller_settings(env)


@pytest.mark.parametrize(
    ("name", "value", "form"),
    [
        ("PLACEMENT_EXCLUSIVE", "yes", "write true or false"),
        ("PLACEMENT_EXCLUSIVE", "True", "write true or false"),
        ("PLACEMENT_HEALTH_PORT", "0", "write a port"),
        ("PLACEMENT_HEALTH_PORT", "65536", "write a port"),
        ("PLACEMENT_HEALTH_PORT", "-1", "write a port"),
        ("PLACEMENT_HEALTH_PORT", "80.5", "write a port"),
        ("PLACEMENT_HEALTH_PORT", "٨٠", "write a port"),
        ("PLACEMENT_HEALTH_PORT", "808080", "write a port"),
        ("PLACEMENT_REPLACE_STUCK", "no", "write true or false"),
        ("PLACEMENT_STUCK_AFTER_SECONDS", "0", "write a number above 0"),
        ("PLACEMENT_UNCONFIRMED_TTL_SECONDS", "soon", "write a number above 0"),
        ("PLACEMENT_UNCONFIRMED_TTL_SECONDS", "0", "write a number above 0"),
        ("PLACEMENT_UNCONFIRMED_TTL_SECONDS", "-1", "write a number above 0"),
        ("PLACEMENT_UNCONFIRMED_TTL_SECONDS", "nan", "write a number above 0"),
        ("PLACEMENT_UNCONFIRMED_TTL_SECONDS", "inf", "write a number above 0"),
        ("PLACEMENT_KEPT_SEAT_SECONDS", "never", "write 0 or a number above 0"),
        ("PLACEMENT_KEPT_SEAT_SECONDS", "-1", "write 0 or a number above 0"),
    ],
)
def test_a_wrong_value_is_named_with_the_form_it_should_have(name: str, value: str, form: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is .*: {form}"):
        controller_settings(LEAST | {name: value})


def test_a_wrong_port_of_the_webhook_is_named() -> None:
    with pytest.raises(SettingsError, match="PLACEMENT_LISTEN_PORT"):
        webhook_settings(LEAST | {"PLACEMENT_LISTEN_PORT": "https"})


def test_the_common_ones_need_the_namespace_only() -> None:
    assert common_settings({"PLACEMENT_NAMESPACE": "sys"}).namespace == "sys"


def test_a_wrong_word_for_preemption_is_named() -> None:
    with pytest.raises(SettingsError, match="PLACEMENT_PREEMPTION is 'true': write enabled or disabled"):
        common_settings(LEAST | {"PLACEMENT_PREEMPTION": "true"})
