"""Makes the channels to servers. No other module makes any."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import pathlib
import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

SERVICE = "histogram.v1.HistogramService"
# The largest payload of one message. Longer ones are a stream of chunks.
MESSAGE_BYTES_MAX = 4 << 20

# A server that vanishes during a call is noticed after the sum. Servers allow a ping each 10 s.
_KEEPALIVE_MS = 30_000
_KEEPALIVE_TIMEOUT_MS = 20_000
_CONNECT_MS = 5_000  # for one attempt to connect
# A connection that no call uses ends after this. gRPC makes, and reports, no more attempts then.
_IDLE_MS = 60_000
# The calls that are retried if a server is busy or goes away. Streams are not: their data is gone.
# A failed attempt costs one of ten tokens, and a success gives back a tenth of one. With five or
# fewer no call is retried: retries must not multiply the load of a server that answers nobody.
_SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [{"service": SERVICE, "method": name} for name in ("Compute", "Describe")],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.05s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
            },
        }
    ],
    "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
}
# What gRPC takes proxies from: http_proxy and its like, and GRPC_ADDRESS_HTTP_PROXY.
_NO_PROXY: list[tuple[str, int | str]] = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.address_http_proxy_enabled_addresses", ""),
]

_THREADS = 8  # that gRPC starts on a few cores, and two more
_UNIX_PATH_BYTES_MAX = 107
_NAME = re.compile(r"[\w-]{1,63}(\.[\w-]{1,63})*\.?", re.ASCII)


def grpc() -> Any:
    try:
        import grpc as module  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("server: needs the package grpcio; pip install grpcio") from error
    return module


def check_threads(wanted: int) -> None:
    """Fails where the system does not let the process have so many more threads. gRPC ends the
    process then, or never returns."""
    over = threading.Event()
    threads: list[threading.Thread] = []
    try:
        while len(threads) < wanted:
            thread = threading.Thread(target=over.wait)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        raise RuntimeError(
            f"server: the system lets this process have {len(threads)} more threads of the "
            f"{wanted} that gRPC needs: raise the limit of processes (ulimit -u), or the memory"
        ) from None
    finally:
        over.set()
        for thread in threads:
            thread.join()


def channel(
    address: str,
    ca: bytes | bool | None,
    certificate: tuple[bytes, bytes] | None,
    has_token: bool,
) -> Any:
    """A channel to the address. It has TLS unless `ca` is None."""
    target, hosts = _parsed(address)
    local = all(_is_loopback(host) for host in hosts)
    if has_token and ca is None and not local:
        raise ValueError(f"token: {address} is not this machine; pass ca=, so that it is encrypted")
    check_threads(_THREADS)
    options: list[tuple[str, int | str]] = [
        ("grpc.max_send_message_length", -1),  # the server has its own limits
        ("grpc.max_receive_message_length", -1),
        ("grpc.per_rpc_retry_buffer_size", MESSAGE_BYTES_MAX + (1 << 20)),
        ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", _KEEPALIVE_TIMEOUT_MS),  # of pings that measure as well
        ("grpc.http2.max_pings_without_data", 0),  # no limit: a call may wait long for its answer
        ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),
        ("grpc.client_idle_timeout_ms", _IDLE_MS),
    ]
    if local:  # only here a token goes without TLS, and no proxy may read it
        options += _NO_PROXY
    if ca is None:
        return grpc().insecure_channel(target, options)
    roots = ca if isinstance(ca, bytes) else None
    _check_tls(roots, certificate)
    chain, key = certificate or (None, None)
    credentials = grpc().ssl_channel_credentials(roots, key, chain)
    return grpc().secure_channel(target, credentials, options)


def _parsed(address: str) -> tuple[str, list[str]]:
    """The target for gRPC, and the hosts that it names: none for a unix socket."""

    def bad(why: str) -> ValueError:
        write = "write 'HOST:50051', '[IPV6]:50051' or 'unix:/PATH'"
        return ValueError(f"address: {address!r} {why}; {write}")

    scheme, _, rest = address.partition(":")
    if scheme in ("unix", "unix-abstract"):
        path = rest.removeprefix("//") if rest.startswith("///") else rest
        size = len(os.fsencode(path))
        if not path.strip("/") or path.startswith("//") or "\0" in path:
            raise bad("has no path")
        if size > _UNIX_PATH_BYTES_MAX:
            raise bad(f"has a path of {size} bytes, and at most {_UNIX_PATH_BYTES_MAX} are allowed")
        return f"{scheme}:{quote(os.fsencode(path))}", []
    if scheme == "dns":
        rest = rest.removeprefix("///")
    elif scheme not in ("ipv4", "ipv6"):
        scheme, rest = "dns", address
    if rest.startswith("//") or "://" in rest:
        raise bad("is a URL, and TLS is chosen by ca=")
    hosts = []
    for one in [rest] if scheme == "dns" else rest.split(","):
        host, colon, port = one.rpartition(":")
        if not colon or not port or port.endswith("]"):
            raise bad("has no port")
        if host in ("", "[]"):
            raise bad("has no host")
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= 65535):
            raise bad("has a port that is not a whole number from 1 to 65535")
        bare = host[1:-1] if host[0] == "[" and host[-1] == "]" else host
        version = 6 if ":" in host else 4 if _ends_in_number(host) else 0
        if version == 6 and bare == host:
            raise bad("is an IPv6 address without brackets")
        wanted = "a name or an address" if scheme == "dns" else f"an {scheme} address"
        fits = scheme in ("dns", f"ipv{version}") and _is_host(bare, version)
        if not fits or (bare != host and version != 6):
            raise bad(f"has a host that is not {wanted}")
        hosts.append(bare)
    return ("dns:///" if scheme == "dns" else f"{scheme}:") + rest.replace("%", "%25"), hosts


def _ends_in_number(host: str) -> bool:
    return host.rstrip(".").rpartition(".")[2].isdigit()


def _is_host(host: str, version: int) -> bool:
    """Whether the host is an IP address of the version, or for version 0 a name."""
    if version == 0:
        return len(host) <= 253 and _NAME.fullmatch(host) is not None
    try:
        return ipaddress.ip_address(host).version == version
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return host.lower().removesuffix(".") == "localhost"
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def roots_of(ca: Any) -> bytes | bool | None:
    """The authorities that `ca=` names: PEM text, True for gRPC's own, or None for no TLS."""
    if ca is None or isinstance(ca, bool):
        return ca or None
    if isinstance(ca, str) and "-----BEGIN" in ca:
        return ca.encode()
    if isinstance(ca, (str, os.PathLike)):
        try:
            return pathlib.Path(ca).read_bytes()
        except OSError as error:
            name = os.fspath(ca)
            raise type(error)(error.errno, f"ca: {error.strerror}", name[:200]) from None
    if isinstance(ca, bytes):
        return ca
    raise TypeError(f"ca: {type(ca).__name__}; must be a file, PEM text, True or None")


def _check_tls(roots: bytes | None, certificate: tuple[bytes, bytes] | None) -> None:
    """Checks the texts before gRPC gets them. For bad ones gRPC says only that no connection is
    made, and writes to standard error at each attempt."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")  # how strong keys must be is for the connection to say
    if roots is not None:
        try:
            context.load_verify_locations(cadata=roots.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(f"ca: holds no valid certificate in PEM; {error}") from None
    if certificate is None:
        return
    if not (
        isinstance(certificate, (tuple, list))
        and len(certificate) == 2
        and all(isinstance(part, bytes) for part in certificate)
    ):
        raise TypeError("certificate: must be the chain and the private key, both PEM as bytes")
    with _in_memory(certificate[0]) as chain, _in_memory(certificate[1]) as key:
        try:
            context.load_cert_chain(chain, key, password=lambda: "")  # asks nobody
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(
                "certificate: must be a chain and its private key, in PEM without a passphrase; "
                f"{error}"
            ) from None


@contextlib.contextmanager
def _in_memory(text: bytes) -> Iterator[str]:
    """The name of a file with the text. It lies in memory: the text may be a private key."""
    with os.fdopen(os.memfd_create("pem"), "wb", buffering=0) as file:
        file.write(text)
        yield f"/proc/self/fd/{file.fileno()}"
