"""deploy/envoy in front of two real servers: accepted as it stands, TLS works, a drain loses nothing."""

import contextlib
import copy
import json
import re
import subprocess

import pytest
from harness.certificates import self_signed
from processes import Load, Process, check_http_through, free_port, two_servers, wait_for_calls

pytestmark = [pytest.mark.live]


@pytest.fixture
def servers(server_bin, tmp_path):
    # A drain that is announced for longer than Envoy takes to ask.
    with two_servers(server_bin, tmp_path, "6s") as servers:
        yield servers


@contextlib.contextmanager
def envoy(proxies, configuration, port, folder):
    path = folder / "envoy.json"
    path.write_text(json.dumps(configuration))
    with Process([proxies.envoy_program(), "-c", path, "--concurrency", "1", "-l", "warn",
                  "--disable-hot-restart"], folder / "envoy.log") as process:
        process.wait_until_listening(port)
        yield


def for_both(configuration, servers):
    calls, http = configuration["static_resources"]["clusters"]
    for cluster, addresses in ((calls, [server.listen for server in servers]),
                               (http, [server.http_address for server in servers])):
        endpoints = cluster["load_assignment"]["endpoints"][0]
        one = endpoints["lb_endpoints"][0]
        endpoints["lb_endpoints"] = [copy.deepcopy(one) for _ in addresses]
        for endpoint, address in zip(endpoints["lb_endpoints"], addresses, strict=True):
            endpoint["endpoint"]["address"]["socket_address"]["port_value"] = int(
                address.rsplit(":", 1)[1])
    return configuration


def test_restarts_behind_envoy_lose_nothing(proxies, servers, load_bin, tmp_path):
    port = free_port()
    configuration = for_both(proxies.envoy_configuration("127.0.0.1:1", port), servers)
    with envoy(proxies, configuration, port, tmp_path), \
            Load(load_bin, tmp_path / "load.log", f"127.0.0.1:{port}", 64 << 10, 4) as load:
        wait_for_calls(servers)
        for server in servers:
            server.stop()
            server.start()
            wait_for_calls(servers)
        load.finish_without_loss(calls_min=200)


def test_strangers_get_the_service_over_tls_and_nothing_else(
        root, proxies, servers, client_bin, tmp_path):
    self_signed(tmp_path)
    # The file as it stands, but for the places that need root or another machine.
    import yaml
    text = proxies.replaced((root / "deploy/envoy/histogram.yaml").read_text(),
                            ("/etc/envoy/tls/", f"{tmp_path}/"))
    configuration = for_both(yaml.safe_load(text), servers)
    port = free_port()
    listener = configuration["static_resources"]["listeners"][0]
    listener["address"]["socket_address"].update(address="127.0.0.1", port_value=port)
    payload = tmp_path / "payload"
    payload.write_bytes(bytes(range(256)) * 1000)
    with envoy(proxies, configuration, port, tmp_path):
        done = subprocess.run(
            [client_bin, "compute", payload, "--server", f"localhost:{port}", "--tls", "--tls-ca",
             tmp_path / "tls.crt", "--format", "json"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert re.search(r'"samples": ?"?256000', done.stdout), done.stdout[:2000]
        check_http_through(f"localhost:{port}", tmp_path / "tls.crt", payload)
        # A call whose path is not the service's is answered by Envoy itself.
        for method, reason in (("histogram.v1.HistogramService/Describe", "403"),
                               ("grpc.reflection.v1alpha.ServerReflection/Info", "404")):
            assert status_of(f"https://localhost:{port}/{method}", tmp_path / "tls.crt") == reason


def status_of(url, authority):
    """The status by curl, since urllib speaks no HTTP/2."""
    done = subprocess.run(["curl", "--silent", "--noproxy", "*", "--http2", "--cacert", authority,
                           "--request", "POST", "--output", "/dev/null", "--write-out",
                           "%{http_code}", url], capture_output=True, text=True, check=True)
    return done.stdout
