"""This version and another: clients and servers of either answer each other, and an upgrade under load can
be taken back. The programs of the other version are in the folder that HISTOGRAM_OTHER_BIN_DIR names;
scripts/compat-check builds them.
"""

import contextlib
import itertools
import json
import os
import random
import re
import subprocess
import threading

import pytest
from conftest import binary
from processes import Load, Process, Server, clean_environment, free_port, wait_until

pytestmark = [pytest.mark.live]

VERSIONS = ("this", "other")
PAIRS = (("this", "other"), ("other", "this"))  # client, server


def program(version, name):
    if version == "other" and not os.environ.get("HISTOGRAM_OTHER_BIN_DIR"):
        pytest.exit("name the programs of the other version with HISTOGRAM_OTHER_BIN_DIR, or use "
                    "scripts/compat-check", 2)
    return binary(name, "HISTOGRAM_OTHER_BIN_DIR" if version == "other" else "HISTOGRAM_BIN_DIR")


def make_server(version, folder, name):
    return Server(program(version, "histogram-server"), folder, name, f"127.0.0.1:{free_port()}",
                  f"127.0.0.1:{free_port()}", flags=("--drain-delay-us", "2s"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compat")
    made = {version: make_server(version, folder, version) for version in VERSIONS}
    try:
        yield {version: server.start() for version, server in made.items()}
    finally:
        for server in made.values():
            server.end()


def client(version, server, *arguments, status=0, **options):
    done = subprocess.run([program(version, "histogram-client"), "--server", server.listen, "--timeout", "60",
                           *map(str, arguments)], capture_output=True, check=False, timeout=120,
                          env=clean_environment(), **options)
    assert done.returncode == status, (version, arguments, done.stderr.decode())
    return done.stdout.decode()


def payloads(folder):
    chosen = random.Random(6)
    for size in (0, 1, 1000, 300_000, 5 << 20):
        path = folder / f"payload-{size}"
        path.write_bytes(chosen.randbytes(size))
        yield path


def counted(data, bin_of, bins):
    counts = [0] * bins
    for value in range(256):
        where = bin_of(value)
        if where is not None:
            counts[where] += data.count(value)
    return counts


EDGES = (0, 10, 100, 255)
BINNINGS = {
    (): (lambda value: value, 256),
    ("--bins", 16): (lambda value: value // 16, 16),
    ("--edges", ",".join(map(str, EDGES))): (
        lambda value: 0 if value < 10 else 1 if value < 100 else 2, 3),
    ("--alphabet", "a:26:13"): (
        lambda value: (value - 97) // 13 if 97 <= value < 123 else None, 2),
}


@pytest.mark.parametrize(("caller", "answerer"), PAIRS)
@pytest.mark.parametrize("options", BINNINGS, ids=lambda options: options[0] if options else "identity")
def test_histograms_are_right(servers, tmp_path, caller, answerer, options):
    for path in payloads(tmp_path):
        data = path.read_bytes()
        want = counted(data, *BINNINGS[options])
        files = json.loads(client(caller, servers[answerer], "compute", path, *options, "--format", "json"))
        assert counts_of(files) == [want], (path, options)
        # Standard input goes over Accumulate.
        piped = json.loads(client(caller, servers[answerer], "compute", "-", *options, "--format", "json",
                                  input=data))
        assert counts_of(piped) == [want], (path, options)


def counts_of(document):
    """Every list of counts within a JSON document."""
    if isinstance(document, list):
        return [each for item in document for each in counts_of(item)]
    if isinstance(document, dict):
        here = [list(map(int, document["counts"]))] if "counts" in document else []
        return here + [each for item in document.values() for each in counts_of(item)]
    return []


@pytest.mark.parametrize(("caller", "answerer"), PAIRS)
def test_statistics_and_many_files(servers, tmp_path, caller, answerer):
    files = list(payloads(tmp_path))
    text = client(caller, servers[answerer], "compute", *files, "--statistics", "--quantiles", "0.5,0.99",
                  "--format", "json")
    # What the same program says to a server of its own version.
    own = client(caller, servers[caller], "compute", *files, "--statistics", "--quantiles", "0.5,0.99",
                 "--format", "json")
    without_times = [re.sub(r'"(receipt|server|timing)[^}]*}', "", each) for each in (text, own)]
    assert counts_of(json.loads(text)) == counts_of(json.loads(own))
    for key in ("mean", "median", "entropy"):
        values = [re.findall(rf'"{key}\w*": ?([^,\n}}]+)', each) for each in without_times]
        assert values[0] == values[1] and len(values[0]) >= len(files) - 1, key


@pytest.mark.parametrize(("caller", "answerer"), PAIRS)
def test_other_commands(servers, caller, answerer):
    assert "cpu" in client(caller, servers[answerer], "describe")
    assert client(caller, servers[answerer], "health") == "SERVING\n"
    for api in ("compute", "compute-many", "accumulate"):
        client(caller, servers[answerer], "bench", "--api", api, "--payload-bytes", "64KiB", "--duration", "1")


class Callers:
    """A thread that runs the client program of one version over and over, until the with-block ends."""

    def __init__(self, version, target, folder):
        self.calls, self.faults = 0, []
        self.stop = threading.Event()
        path = folder / f"{version}.payload"
        path.write_bytes(random.Random(version).randbytes(200_000))
        command = [program(version, "histogram-client"), "--server", target, "--timeout", "20", "compute", path,
                   "--format", "csv"]
        self.thread = threading.Thread(target=self._run, args=(command,))

    def _run(self, command):
        expected = None
        while not self.stop.is_set():
            done = subprocess.run(command, capture_output=True, check=False, env=clean_environment())
            self.calls += 1
            expected = expected or done.stdout
            if done.returncode != 0 or done.stdout != expected:
                self.faults.append((done.returncode, done.stderr.decode()))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def test_an_upgrade_under_load_and_its_roll_back(load_bin, tmp_path):
    """Three servers of the other version become this one, one after the other, and the other one again."""
    cluster = [make_server("other", tmp_path, f"server{i}") for i in range(3)]
    target = "ipv4:" + ",".join(server.listen for server in cluster)

    def all_answer(more=10):
        begin = [server.answered() for server in cluster]
        wait_until(lambda: all(server.answered() >= before + more
                               for server, before in zip(cluster, begin, strict=True)), 60, "calls on each server")

    try:
        for server in cluster:
            server.start()
        with contextlib.ExitStack() as stack:
            load = stack.enter_context(Load(load_bin, tmp_path / "load.log", target, 64 << 10, 3))
            callers = [stack.enter_context(Callers(version, target, tmp_path)) for version in VERSIONS]
            all_answer()
            for version, server in itertools.product(VERSIONS, cluster):
                server.stop()
                server.binary = program(version, "histogram-server")
                server.start()
                all_answer()
            for caller in callers:
                wait_until(lambda caller=caller: caller.calls >= 20, 60, "calls of either client")
            totals = load.finish_without_loss(calls_min=200)
        for caller in callers:
            assert not caller.faults
        print(totals, *(caller.calls for caller in callers))
    finally:
        for server in cluster:
            server.end()


@contextlib.contextmanager
def started(version, folder, name, *flags, env=None):
    ports = folder / f"{name}.ports"
    with Process([program(version, "histogram-server"), "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
                  "--backend", "cpu", "--port-file", ports, *flags], folder / f"{name}.log", env=env) as process:
        def ready():
            assert process.running(), process.output()
            return ports.exists()
        wait_until(ready, 60, name)
        yield process


def test_the_environment_may_stay_as_it_is(tmp_path):
    """All settings of one version, as variables, are no obstacle to the other."""
    for ours, theirs in PAIRS:
        printed = subprocess.run([program(ours, "histogram-server"), "--print-config"], check=True,
                                 capture_output=True, text=True, env=clean_environment()).stdout
        settings = re.findall(r'^([a-z0-9-]+) *= *"?([^"\n]*)"?$', printed, re.M)
        assert len(settings) > 20, printed
        variables = {"HISTSVC_" + name.upper().replace("-", "_"): value for name, value in settings
                     if value and "listen" not in name and name not in ("port-file", "backend")}
        variables["HISTSVC_SETTING_OF_ANOTHER_VERSION"] = "1"
        with started(theirs, tmp_path, f"environment-{theirs}", env=variables) as process:
            assert "SETTING_OF_ANOTHER_VERSION" in process.output()
