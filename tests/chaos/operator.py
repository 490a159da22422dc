"""The operator with a proxy between each of its processes and the API server, and one in front of its webhooks."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import yaml

from hack.devcluster.cluster import DevCluster
from hack.devcluster.operator import Operator
from hack.devcluster.processes import Process
from tests.chaos import clock
from tests.chaos.api_proxy import ApiProxy, Tls
from tests.chaos.clock import Clock
from tests.chaos.loop_thread import LoopThread
from tests.chaos.rules import Schedule
from tests.chaos.webhook_proxy import WebhookProxy
from tests.e2e.trouble import change_environment, revive


class ChaosOperator(Operator):
    """Controllers and webhooks whose connections and clocks are ours.

    `proxies` and `clocks` are by the name of the process: `webhook-0`, `controller-1`.
    """

    def __init__(
        self,
        cluster: DevCluster,
        loop: LoopThread,
        *,
        webhooks: int,
        controllers: int,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(cluster, webhooks=webhooks, controllers=controllers, via="tests.chaos.child", say=say)
        self.schedule = Schedule()
        self._loop = loop
        named = (*self.controllers, *self.webhooks)
        # The API server's certificate holds loopback, where the proxies listen too.
        tls = Tls(cluster.state_dir / "server.crt", cluster.state_dir / "server.key", cluster.ca_file)
        self.proxies = {each.name: ApiProxy(each.name, cluster.url, tls, self.schedule) for each in named}
        self.clocks = {each.name: Clock(self._state / f"{each.name}.clock") for each in named}
        assert self.forwarder is not None
        self.forwarder = None
        ports = [_listens_on(process) for process in self.webhooks]
        self.front = WebhookProxy(int(self.webhook_url.rpartition(":")[2]), ports, self.schedule)

    def install(self) -> None:
        """As always, with a kubeconfig for each process that leads through its proxy."""
        super().install()
        self._loop.run(self.front.start())
        for process in (*self.controllers, *self.webhooks):
            proxy = self.proxies[process.name]
            self._loop.run(proxy.start())
            kubeconfig = self._state / f"{process.name}.kubeconfig"
            _lead_through(proxy, self._kubeconfig(process.name.rpartition("-")[0]), kubeconfig)
            variables = {"KUBECONFIG": str(kubeconfig), clock.VARIABLE: str(self.clocks[process.name].path)}
            change_environment(process, **variables)

    def stop(self) -> None:
        """End the processes and the proxies."""
        self.calm()
        super().stop()
        for proxy in self.proxies.values():
            self._loop.run(proxy.stop())
        self._loop.run(self.front.stop())

    def calm(self) -> None:
        """No more faults on the way, and true clocks."""
        self.front.rules.clear()
        for proxy in self.proxies.values():
            proxy.rules.clear()
            proxy.release()
        for hand in self.clocks.values():
            hand.step(0.0)

    @contextlib.contextmanager
    def configured(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Its processes run with these environment variables while the context lasts."""
        before = {each.name: each.env for each in self.processes}
        if settings:
            for process in self.processes:
                change_environment(process, **settings)
            self._restart()
        try:
            yield
        finally:
            if settings:
                for process in self.processes:
                    process.env = before[process.name]
                self._restart()

    def _restart(self) -> None:
        for process in self.processes:
            process.kill()
        revive(*self.processes)

    def proxy_of(self, process: Process) -> ApiProxy:
        return self.proxies[process.name]


def _lead_through(proxy: ApiProxy, kubeconfig: Path, copy: Path) -> None:
    shutil.copy(kubeconfig, copy)
    config = yaml.safe_load(copy.read_text(encoding="utf-8"))
    config["clusters"][0]["cluster"]["server"] = proxy.url
    copy.write_text(yaml.safe_dump(config), encoding="utf-8")


def _listens_on(process: Process) -> int:
    assert process.env is not None
    return int(process.env["PLACEMENT_LISTEN_PORT"])
