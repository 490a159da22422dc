"""Where the API server is and who we are there: kubeconfig or the pod's service account.

kubernetes_asyncio reads the configuration and builds the TLS session; nothing else of it is used.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp

from shared.obs.logs import get_logger

log = get_logger(__name__)

_RELOAD_S = 60.0


class NoClusterError(Exception):
    """No API server can be derived from what the process was given."""


class Connection:
    """An HTTP session to one API server, and the Authorization header that goes with it, kept fresh.

    `options` are further arguments that each request of the session takes (proxy, TLS server name).
    """

    def __init__(
        self,
        server: str,
        session: aiohttp.ClientSession,
        options: Mapping[str, Any],
        load: Callable[[], Awaitable[str | None]],
        authorization: str | None,
    ) -> None:
        self.server = server.rstrip("/")
        self.session = session
        self.options = options
        self._load = load
        self._authorization = authorization
        self._due = time.monotonic() + _RELOAD_S

    async def headers(self) -> dict[str, str]:
        """The credentials as headers. Once a minute token files are read and exec plugins asked again."""
        if time.monotonic() >= self._due:
            # Set before the wait: one caller reloads while the others go on with what there is.
            self._due = time.monotonic() + _RELOAD_S
            try:
                self._authorization = await self._load()
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything; the old token may still be good
                log.warning("credentials not reloaded", error=error)
        return {} if self._authorization is None else {"Authorization": self._authorization}

    def refused(self) -> None:
        """Has the credentials reloaded for the next request: the server did not accept them."""
        self._due = time.monotonic()


async def open_connection(kubeconfig: str | None) -> Connection:
    """A connection as the kubeconfig file says, or with None as the service account of the pod we run in.

    Raises `NoClusterError`.
    """
    # Takes a second and 60 MiB, which a process that only wants `KubeClient` as a type need not pay.
    from kubernetes_asyncio import config  # noqa: PLC0415
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
    from kubernetes_asyncio.client.rest import RESTClientObject  # noqa: PLC0415

    configuration = Configuration()

    async def load_service_account() -> str | None:
        config.load_incluster_config(client_configuration=configuration, try_refresh_token=False)
        return _authorization(configuration)

    async def load_user() -> str | None:
        await loader.load_and_set(configuration)
        return _authorization(configuration)

    # Python 3.13 checks formalities of certificates that the authorities of EKS and others do not keep.
    # Signature, validity and name are verified all the same.
    configuration.disable_strict_ssl_verification = True
    try:
        if kubeconfig is None:
            load = load_service_account
        else:
            loader = await config.load_kube_config(kubeconfig, client_configuration=configuration, persist_config=False)
            load = load_user
        authorization = await load()
        session = RESTClientObject(configuration).pool_manager
    except Exception as error:  # a file that makes no sense comes out as whatever it made the library stumble over
        source = "the pod's service account" if kubeconfig is None else f"kubeconfig {kubeconfig!r}"
        fix = "set KUBECONFIG to a readable kubeconfig file, or run inside a pod with a service account token"
        raise NoClusterError(f"no cluster from {source}: {error}; {fix}") from error
    options = {"proxy": configuration.proxy, "server_hostname": configuration.tls_server_name}
    return Connection(
        server=configuration.host,
        session=session,
        options={key: value for key, value in options.items() if value},
        load=load,
        authorization=authorization,
    )


def _authorization(configuration: Any) -> str | None:
    token = configuration.api_key.get("BearerToken")
    return None if token is None else str(token).strip()
