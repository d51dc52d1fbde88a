"""deploy/nginx in front of two real servers: calls are spread, TLS works, a restart loses nothing."""

import re
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from harness.certificates import self_signed
from processes import Load, Process, check_http_through, free_port, two_servers, wait_for_calls, wait_until

pytestmark = [pytest.mark.live]

@pytest.fixture
def servers(server_bin, tmp_path):
    with two_servers(server_bin, tmp_path, "2s") as servers:
        yield servers


@pytest.fixture
def proxy(proxies, servers, tmp_path):
    """(plaintext address, TLS address, CA file) of nginx with the configuration of deploy/nginx."""
    try:
        proxies.nginx_program()
    except SystemExit as missing:
        pytest.skip(str(missing))
    folder = tmp_path / "nginx"
    folder.mkdir()
    self_signed(folder)
    plain, tls = free_port(), free_port()
    # The file as it stands, but for the places that need root or another machine.
    command = proxies.nginx_with(folder, ("listen 443 ssl http2;", f"listen 127.0.0.1:{tls} ssl http2;"),
                                 ("listen 127.0.0.1:50050 http2;", f"listen 127.0.0.1:{plain} http2;"),
                                 ("server 127.0.0.1:8080;", f"server {servers[0].http_address};"),
                                 ("/etc/nginx/tls/", f"{folder}/"))

    def list_servers(down=None):
        proxies.nginx_servers(folder, [(server.listen, " down" if server is down else "") for server in servers])

    list_servers()
    subprocess.run([*command, "-t"], check=True)
    with Process(command, folder / "output") as process:
        process.wait_until_listening(tls)

        def set_down(down):
            """As scaling.md says: changes the list of servers and has nginx read it again."""
            list_servers(down)
            process.send(signal.SIGHUP)
        yield f"127.0.0.1:{plain}", f"localhost:{tls}", folder / "tls.crt", set_down


def wait_until_left(server):
    """Until nginx sends it nothing any more: its counter stands still for a second."""
    seen = [(time.monotonic(), server.answered())]

    def still():
        now, answered = time.monotonic(), server.answered()
        if answered != seen[-1][1]:
            seen.append((now, answered))
        return now - seen[-1][0] > 1
    wait_until(still, 60, "nginx to leave the server", interval_s=0.1)


def test_restarts_behind_nginx_lose_nothing(proxy, servers, load_bin, tmp_path):
    set_down = proxy[3]
    with Load(load_bin, tmp_path / "load.log", proxy[0], 64 << 10, 4) as load:
        wait_for_calls(servers)
        for server in servers:
            set_down(server)
            wait_until_left(server)
            server.stop()
            server.start()
            set_down(None)
            wait_for_calls(servers)
        load.finish_without_loss(calls_min=200)


def test_large_payloads_pass(proxy, servers, load_bin, tmp_path):
    with Load(load_bin, tmp_path / "load.log", proxy[0], 48 << 20, 2) as load:
        wait_until(lambda: sum(server.answered() for server in servers) >= 6, 120, "large payloads")
        load.finish_without_loss(calls_min=6)


def test_tls_ends_at_nginx(proxy, client_bin, tmp_path):
    payload = tmp_path / "payload"
    payload.write_bytes(bytes(range(256)) * 1000)
    done = subprocess.run([client_bin, "compute", payload, "--server", proxy[1], "--tls", "--tls-ca",
                           proxy[2], "--format", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r'"samples": ?"?256000', done.stdout), done.stdout[:2000]
    # Another CA is not trusted.
    done = subprocess.run([client_bin, "compute", payload, "--server", proxy[1], "--tls",
                           "--timeout", "5"], capture_output=True, text=True, check=False)
    assert done.returncode != 0


def test_strangers_get_the_service_and_nothing_else(proxy):
    context = ssl.create_default_context(cafile=str(proxy[2]))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                         urllib.request.HTTPSHandler(context=context))
    for path, status in (("/histogram.v1.HistogramService/Describe", 403), ("/", 405), ("/v1/describe", 404),
                         ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", 404)):
        with pytest.raises(urllib.error.HTTPError) as caught:
            opener.open(f"https://{proxy[1]}{path}", data=b"", timeout=10)
        assert caught.value.code == status, path


def test_curl_and_connect_pass(proxy, tmp_path):
    payload = tmp_path / "payload"
    payload.write_bytes(bytes(range(256)) * 10_000)
    check_http_through(proxy[1], proxy[2], payload)
