"""Three real servers in network namespaces, and a client that balances over them by itself.

Each server has a namespace with a link of its own (veth) to this machine's: killing one, restarting one
and cutting its link are what they are in a cluster. Needs root.
"""

import contextlib
import os
import signal
import subprocess
import time

import pytest
from processes import Load, Server, wait_for_calls, wait_until

pytestmark = [pytest.mark.live, pytest.mark.root]

COUNT = 3
MIB = 1 << 20
FLAGS = ("--allow-plaintext", "--drain-delay", "2s")


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Cluster:
    """Namespaces hsN.0 to .2; server i listens on 10.213.i.2, this side of its link is 10.213.i.1."""

    def __init__(self, binary, folder):
        self.prefix = f"hs{os.getpid() % 100000}"
        self.servers = []
        for i in range(COUNT):
            self._link(i)
            self.servers.append(Server(binary, folder, f"server{i}", f"10.213.{i}.2:50051",
                                       f"10.213.{i}.2:9464", self.namespace(i), FLAGS))

    def namespace(self, i):
        return f"{self.prefix}n{i}"

    def device(self, i):
        return f"{self.prefix}v{i}"

    def _link(self, i):
        namespace, near, far = self.namespace(i), self.device(i), f"{self.prefix}p{i}"
        ip("netns", "add", namespace)
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", namespace)
        ip("address", "add", f"10.213.{i}.1/30", "dev", near)
        ip("link", "set", near, "up")
        ip("-n", namespace, "address", "add", f"10.213.{i}.2/30", "dev", far)
        ip("-n", namespace, "link", "set", far, "up")
        ip("-n", namespace, "link", "set", "lo", "up")

    def cut(self, i):
        """From now on packets vanish: no RST, no ICMP, as when a switch dies."""
        ip("-n", self.namespace(i), "link", "set", f"{self.prefix}p{i}", "down")

    def mend(self, i):
        ip("-n", self.namespace(i), "link", "set", f"{self.prefix}p{i}", "up")

    @property
    def target(self):
        return "ipv4:" + ",".join(server.listen for server in self.servers)

    def remove(self):
        for server in self.servers:
            server.end()
        for i in range(COUNT):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("link", "delete", self.device(i))
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "delete", self.namespace(i))


@pytest.fixture
def cluster(server_bin, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    cluster = Cluster(server_bin, tmp_path)
    try:
        for server in cluster.servers:
            server.start()
        yield cluster
    finally:
        cluster.remove()


def test_rolling_restart_loses_nothing(cluster, load_bin, tmp_path):
    with Load(load_bin, tmp_path / "load.log", cluster.target, 64 << 10, 4) as load:
        wait_for_calls(cluster.servers)
        for server in cluster.servers:
            server.stop()
            others = [each for each in cluster.servers if each is not server]
            wait_for_calls(others)
            server.start()
            wait_for_calls(cluster.servers)
        load.finish_without_loss(calls_min=300)


def test_a_server_killed_in_the_middle_of_large_requests(cluster, load_bin, tmp_path):
    with Load(load_bin, tmp_path / "load.log", cluster.target, 16 * MIB, 6) as load:
        for victim in cluster.servers:
            wait_for_calls(cluster.servers, more=3)
            # In the middle: it holds requests at the moment at which it dies.
            wait_until(lambda: (victim.metric("histsvc_charged_bytes") or 0) >= 16 * MIB, 60,
                       "a request in the server", interval_s=0)
            victim.kill()
            others = [each for each in cluster.servers if each is not victim]
            wait_for_calls(others, more=5)
            victim.start()
        wait_for_calls(cluster.servers, more=3)
        load.finish_without_loss(calls_min=50)


def test_a_server_that_is_cut_off(cluster, load_bin, tmp_path):
    """Calls that were on it end by their deadline (20 s) or are retried; all others go on."""
    threads = 4
    with Load(load_bin, tmp_path / "load.log", cluster.target, 64 << 10, threads) as load:
        wait_for_calls(cluster.servers)
        cluster.cut(0)
        begin = time.monotonic()
        others = cluster.servers[1:]
        # The client notices by itself: keepalive, or the kernel's own timeout.
        wait_until(lambda: time.monotonic() > begin + 45, 120, "the cut to last", interval_s=1)
        wait_for_calls(others, more=100)
        cluster.mend(0)
        wait_for_calls(cluster.servers, timeout_s=120)
        counted = load.finish()
    # Each thread can have met the dead server before it was given up; no more than that.
    assert counted["failed"] <= 2 * threads, (counted, load.log.read_text())
    assert counted["wrong"] == 0
    assert counted["calls"] >= 300


def test_a_frozen_server_is_left_and_comes_back(cluster, load_bin, tmp_path):
    """The process hangs (SIGSTOP): its connections stay open and nothing answers."""
    frozen = cluster.servers[0]
    threads = 4
    with Load(load_bin, tmp_path / "load.log", cluster.target, 16 << 10, threads) as load:
        wait_for_calls(cluster.servers)
        frozen.send(signal.SIGSTOP)
        try:
            wait_for_calls(cluster.servers[1:], more=200, timeout_s=120)
        finally:
            frozen.send(signal.SIGCONT)
        wait_for_calls(cluster.servers, timeout_s=120)
        counted = load.finish()
    assert counted["failed"] <= 2 * threads and counted["wrong"] == 0
