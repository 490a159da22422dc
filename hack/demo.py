"""`make demo`: the main job on a real control plane with simulated GPU nodes, each step checked as it is shown."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from hack.devcluster.binaries import BinariesError, find_binaries
from hack.devcluster.cluster import ROOT, DevCluster, KubectlError
from hack.devcluster.nodes import seed_nodes
from hack.devcluster.operator import Operator
from hack.devcluster.patience import looks
from hack.devcluster.processes import ProcessError
from hack.devcluster.spec import load_spec
from shared.api import names

NAMESPACE: Final = "models"
PLAIN: Final = "plain"
IMAGE: Final = "registry.example/vllm-openai:v0.11"
_PATIENCE_S: Final = 20.0
_LOOK_S: Final = 0.1
_BOLD, _GREEN, _RED, _DIM, _END = (
    ("\033[1m", "\033[32m", "\033[31m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("",) * 5
)


class StepFailedError(Exception):
    """Something the demo claims is not true."""


class Demo:
    """The scenes, played on one cluster."""

    def __init__(self, cluster: DevCluster) -> None:
        self._cluster = cluster
        self.steps = 0

    def play(self) -> None:
        self._cluster.kubectl("create", "namespace", NAMESPACE)
        self._cluster.kubectl("create", "namespace", PLAIN)
        self._cluster.kubectl("label", "namespace", NAMESPACE, f"{names.NAMESPACE_LABEL}={names.MODE_ENABLED}")
        self._share_a_card()
        self._free_a_card()
        self._mixed_cards()
        self._many_cards()
        self._vendor_and_version()
        self._anti_affinity()
        self._not_opted_in()
        self._tables()

    def _share_a_card(self) -> None:
        scene("a. Two models share a 16 GB card; a third is refused, with a reason")
        self._deploy("a", "t4", {names.VRAM: "6"})
        self._deploy("b", "t4", {names.VRAM: "6"})
        self._expect_on("a", "t4", {0: 6})
        self._expect_on("b", "t4", {0: 6})
        self._deploy("c", "t4", {names.VRAM: "6"})
        described = self._expect_refused("c", "insufficient_capacity")
        facts = ("needs 6 GB", "gpu-0 of t4", "4 of 16 GB free")
        self._check("and the facts: " + ", ".join(facts), lambda: all(fact in described for fact in facts))
        print(_events_of(described))
        resource = names.card_resource(0)
        about = [line.strip() for line in self._kubectl("describe", "node", "t4", shown=False).splitlines()]
        about = [line for line in about if line.startswith(resource)]
        print(indent("$ kubectl describe node t4 | grep " + resource + "\n" + "\n".join(about)))
        self._check(
            "`kubectl describe node t4` shows 12 of 16 allocated",
            lambda: [line.split()[1:] for line in about] == [["16"], ["16"], ["12", "12"]],
        )

    def _free_a_card(self) -> None:
        scene("b. Model a is deleted: c is placed by itself")
        self._kubectl("delete", "deployment", "a", "--wait=false")
        began = time.monotonic()
        self._expect_on("c", "t4", {0: 6}, within_s=10.0)
        print(f"    after {time.monotonic() - began:.1f} s, without anybody touching it")

    def _mixed_cards(self) -> None:
        scene("c. A 10 GB model goes to the 24 GB card of a node whose 8 GB card is idle")
        self._deploy("ten", "mixed", {names.VRAM: "10"})
        self._expect_on("ten", "mixed", {1: 10})

    def _many_cards(self) -> None:
        scene("d. A model on two cards of one node; and one that needs more cards than any node has")
        self._deploy("pair", "twin", {names.VRAM: "14", names.GPUS: "2"})
        self._check("pair is on two cards of one node", lambda: self._shares("pair") == [{0: 14, 1: 14}])
        self._deploy("quad", "twin", {names.VRAM: "14", names.GPUS: "4"})
        self._expect_refused("quad", "insufficient_gpu_count")

    def _vendor_and_version(self) -> None:
        scene("e. The wrong vendor, and a CUDA that no node has")
        self._deploy("nvidia-only", "amd", {names.VRAM: "8", names.VENDOR: "nvidia"})
        self._expect_refused("nvidia-only", "vendor_mismatch")
        self._deploy("newest-cuda", "mixed", {names.VRAM: "8", names.ACCEL_VERSION: "cuda>=13.0"})
        self._expect_refused("newest-cuda", "accel_version_unmet")

    def _anti_affinity(self) -> None:
        scene("f. Two replicas that must not share a node get two nodes, though one card would take both")
        apart = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        }
        self._deploy("apart", "twin", {names.VRAM: "4"}, replicas=2, affinity=apart)
        self._check("apart runs on twin and twin-b", lambda: self._nodes("apart") == ["twin", "twin-b"])

    def _not_opted_in(self) -> None:
        scene("g. A namespace that did not opt in is left alone, and cannot write shares by hand")
        self._deploy("untouched", "t4", {names.VRAM: "6"}, namespace=PLAIN)
        self._check(
            "its pod has no share and no pin",
            lambda: [_is_plain(pod) for pod in self._pods("untouched", PLAIN)] == [True],
        )
        by_hand = _pod("by-hand", PLAIN, {names.card_resource(0): "6"})
        refused = self._cluster.kubectl("apply", "-f", "-", input=json.dumps(by_hand), check=False)
        print(f"    {_DIM}{refused.stderr.strip()}{_END}")
        self._check("a hand-written per-card request is refused", lambda: names.NAMESPACE_LABEL in refused.stderr)

    def _tables(self) -> None:
        scene("The whole story in two tables")
        print(indent(self._kubectl("get", "gpunodes")))
        print(indent(self._kubectl("get", "modelplacements", "-A")))

    def _deploy(
        self,
        name: str,
        pool: str,
        annotations: Mapping[str, str],
        *,
        replicas: int = 1,
        affinity: Mapping[str, Any] | None = None,
        namespace: str = NAMESPACE,
    ) -> None:
        asks = ", ".join(f"{key.removeprefix(names.PREFIX)}: {value}" for key, value in annotations.items())
        print(f"  $ kubectl apply -f {name}.yaml    {_DIM}# {pool} pool, {asks}{_END}")
        template = {
            "metadata": {"labels": {"app": name}, "annotations": dict(annotations)},
            "spec": {
                "nodeSelector": {"pool": pool},
                "containers": [{"name": "server", "image": IMAGE}],
                **({"affinity": affinity} if affinity else {}),
            },
        }
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
        }
        self._cluster.kubectl("apply", "-f", "-", input=json.dumps(manifest))

    def _expect_on(self, name: str, node: str, shares: Mapping[int, int], *, within_s: float = _PATIENCE_S) -> None:
        words = ", ".join(f"{gb} GB of gpu-{index}" for index, gb in shares.items())
        self._check(
            f"{name} runs on {node} with {words}",
            lambda: self._shares(name) == [shares] and self._nodes(name) == [node],
            within_s=within_s,
        )

    def _expect_refused(self, name: str, reason: str) -> str:
        def placement() -> Mapping[str, Any]:
            return self._get("modelplacement", f"deployment-{name}").get("status") or {}

        self._check(f"{name} is refused with {reason}", lambda: placement().get("reason") == reason)
        self._check(f"no pod of {name} exists", lambda: not self._pods(name))
        self._check(
            f"`kubectl describe deployment {name}` gives the reason",
            lambda: reason in self._cluster.kubectl("describe", "deployment", name, "-n", NAMESPACE).stdout,
        )
        print(f"    {_DIM}{placement()['lastErrorMessage'].splitlines()[0]}{_END}")
        return self._cluster.kubectl("describe", "deployment", name, "-n", NAMESPACE).stdout

    def _shares(self, name: str) -> list[dict[int, int]]:
        running = [pod for pod in self._pods(name) if pod["status"].get("phase") == "Running"]
        return [_shares_of(pod) for pod in running]

    def _nodes(self, name: str) -> list[str]:
        running = [pod for pod in self._pods(name) if pod["status"].get("phase") == "Running"]
        return sorted(pod["spec"]["nodeName"] for pod in running)

    def _pods(self, name: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        listed = self._cluster.kubectl("get", "pods", "-n", namespace, "-l", f"app={name}", "-o", "json").stdout
        items: list[dict[str, Any]] = json.loads(listed)["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def _get(self, kind: str, name: str) -> dict[str, Any]:
        found = self._cluster.kubectl("get", kind, name, "-n", NAMESPACE, "-o", "json", check=False)
        return json.loads(found.stdout) if found.returncode == 0 else {}

    def _kubectl(self, *arguments: str, shown: bool = True) -> str:
        if shown:
            print(f"  $ kubectl {' '.join(arguments)}")
        scoped = arguments if "-A" in arguments else (*arguments, "-n", NAMESPACE)
        return self._cluster.kubectl(*scoped).stdout

    def _check(self, claim: str, true: Callable[[], bool], *, within_s: float = _PATIENCE_S) -> None:
        for _ in looks(within_s, _LOOK_S):
            if true():
                self.steps += 1
                print(f"  {_GREEN}ok{_END} {claim}")
                return
        print(f"  {_RED}not true after {within_s:.0f} s or more:{_END} {claim}")
        raise StepFailedError(claim)


def scene(title: str) -> None:
    print(f"\n{_BOLD}{title}{_END}", flush=True)


def indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())


def _events_of(described: str) -> str:
    events = described[described.index("Events:") :]
    return indent(f"$ kubectl describe deployment c\n...\n{events}")


def _shares_of(pod: Mapping[str, Any]) -> dict[int, int]:
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    found = {names.card_index(resource): int(amount) for resource, amount in limits.items()}
    return {index: gb for index, gb in found.items() if index is not None}


def _is_plain(pod: Mapping[str, Any]) -> bool:
    return not _shares_of(pod) and "affinity" not in pod["spec"]


def _pod(name: str, namespace: str, limits: Mapping[str, str]) -> dict[str, Any]:
    container = {"name": "server", "image": IMAGE, "resources": {"limits": dict(limits)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container]},
    }


def main() -> int:
    began = time.monotonic()
    try:
        binaries = find_binaries()
        scene(
            "A control plane (etcd, kube-apiserver, kube-scheduler, kube-controller-manager) with simulated GPU nodes"
        )
        with DevCluster(binaries=binaries, say=_say) as cluster, Operator(cluster, webhooks=2, say=_say):
            seed_nodes(cluster.api, load_spec(ROOT / "hack/clusters/demo.yaml").nodes)
            demo = Demo(cluster)
            demo.play()
    except StepFailedError as error:
        print(f"\n{_RED}demo failed:{_END} {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except (BinariesError, ProcessError, KubectlError) as error:
        print(f"\n{_RED}demo could not run:{_END} {error}", file=sys.stderr)
        return 1
    print(f"\n{_GREEN}{demo.steps} claims, all true{_END}, in {time.monotonic() - began:.0f} s")
    return 0


def _say(line: str) -> None:
    print(f"  {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
