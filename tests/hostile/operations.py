"""Against what operators use: the metrics port, the certificates' files, the log."""

import contextlib
import os
import shutil
import time

from attack import DATA, END_STREAM, HELLO, frame, message_prefix, open_call


def metrics_slow_clients(attack):
    """Requests on the metrics port that never end, renewed when they are closed."""
    connections = []
    while attack.goes_on():
        while len(connections) < 60:
            try:
                connections.append(attack.open(b"GET /metrics HTTP/1.1\r\nX-Slow: ", attack.metrics_address))
            except OSError:
                break
        for connection in list(connections):
            try:
                connection.setblocking(False)
                connection.send(b"a")
            except BlockingIOError:
                pass
            except OSError:
                connections.remove(connection)
                connection.close()
        time.sleep(0.2)


def metrics_replies_never_read(attack):
    """Scrapes without end on connections that read nothing."""
    connections = attack.open_many(40, address=attack.metrics_address)
    while attack.goes_on():
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        time.sleep(0.05)


def metrics_connect_storm(attack):
    attack.again(lambda: attack.open(address=attack.metrics_address).close())


def metrics_idle_connections(attack):
    attack.hold(attack.open_many(2000, address=attack.metrics_address))


def metrics_garbage(attack):
    attack.garbage(b"GET /", attack.metrics_address)


def certificates_rotated_wrongly(attack):
    """Files that are empty, cut off, no certificates, of another key, directories or gone; then good ones."""
    files = {name: attack.folder / f"server.{name}" for name in ("crt", "key")}
    good = {name: file.read_bytes() for name, file in files.items()}
    other = (attack.folder / "other.key").read_bytes()

    def put(file, content):
        if file.is_dir():
            shutil.rmtree(file)
        file.unlink(missing_ok=True)
        if content is None:
            file.mkdir()
        elif content is not False:
            file.write_bytes(content)

    while attack.goes_on():
        for name, bad in (("crt", b""), ("key", b""), ("key", other), ("crt", good["crt"][:300]), ("crt", os.urandom(500)),
                          ("crt", None), ("key", None), ("crt", False), ("key", False)):
            put(files[name], bad)
            time.sleep(min(2.5, max(0.0, attack.end - time.monotonic())))
            put(files[name], good[name])
    for name, file in files.items():
        put(file, good[name])


def log_that_hangs(attack):
    """Nobody reads the server's log; each of these calls is worth a line."""
    def attempt():
        with attack.open(HELLO) as connection:
            for stream in range(1, 200, 2):
                connection.sendall(open_call("Compute", stream) +
                                   frame(DATA, END_STREAM, stream, message_prefix(4) + b"\xff\xff\xff\xff"))
            connection.settimeout(1)
            connection.recv(1 << 16)
    attack.again(attempt)


OPERATIONS = (
    metrics_slow_clients, metrics_replies_never_read, metrics_connect_storm, metrics_idle_connections,
    metrics_garbage, certificates_rotated_wrongly, log_that_hangs)
