"""The real binary's configuration: what it serves with, and how nonsense ends it (tests/config has the rest)."""

import subprocess

import pytest

from harness.api import Client, pb
from harness.server import clean_environment
from test_operations import run_to_the_end


def test_the_running_server_has_what_was_set(start_server, tmp_path):
    file = tmp_path / "server.conf"
    file.write_text("bin-count-max = 21\nstreams-max = 22\n")
    server = start_server("--config", file, env={"HISTSVC_STREAMS_MAX": "23", "HISTSVC_NO_SUCH_THING": "1"})
    assert "HISTSVC_NO_SUCH_THING" in server.stderr()  # it is served all the same
    with Client(server.address) as client:
        limits = client.stub.Describe(pb.DescribeRequest(), timeout=60).limits
    assert (limits.bin_count_max, limits.streams_max) == (21, 23)


def test_metrics_can_be_switched_off(start_server):
    server = start_server(metrics="off")
    assert server.metrics_address is None and "metrics listening" not in server.stderr()
    with Client(server.address) as client:
        client.compute(b"abc")


def test_every_size_goes_somewhere_and_describe_shows_where(start_server):
    server = start_server("--backend", "cpu")
    with Client(server.address) as client:
        reply = client.stub.Describe(pb.DescribeRequest(), timeout=60)
    assert [(p.payload_bytes_min, p.backend) for p in reply.placements] == [(0, "cpu")]
    assert reply.objective == "latency"


@pytest.mark.parametrize(("flags", "status", "mentioned"), (
    (("--queue-byte-max", "1"), 2, ("--queue-byte-max", "--queue-bytes-max")),
    # Kernels are only known once the processor is: not a mistake of the command line alone.
    (("--force-kernel", "fastest"), 1, ("fastest", "scalar"))))
def test_nonsense_is_refused_with_a_sentence(server_bin, flags, status, mentioned):
    done = run_to_the_end(server_bin, "--listen", "127.0.0.1:0", "--metrics-listen", "off", *flags)
    assert (done.returncode, done.stdout) == (status, "")
    assert all(part in done.stderr for part in mentioned), done.stderr


def test_a_gpu_that_is_required_and_missing(server_bin, client):
    backends = client.stub.Describe(pb.DescribeRequest()).backends
    if any(backend.name.startswith("cuda") for backend in backends):
        pytest.skip("this machine has a GPU")
    done = run_to_the_end(server_bin, "--backend", "cuda", "--listen", "127.0.0.1:0",
                          "--metrics-listen", "off")
    assert done.returncode != 0
    assert "cuda" in done.stderr.lower() or "gpu" in done.stderr.lower()


@pytest.mark.parametrize("flag", ("--help", "--print-config", "--version"))
def test_standard_output_that_is_full(server_bin, flag):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([server_bin, flag], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60,
                              env=clean_environment())
    assert done.returncode == 1
    assert done.stderr == b"histogram-server: cannot write to standard output: No space left on device\n"
    done = subprocess.run(["sh", "-c", 'exec "$0" "$1" >&-', server_bin, flag], stderr=subprocess.PIPE, check=False,
                          timeout=60, env=clean_environment())
    assert done.returncode == 1
    assert done.stderr == b"histogram-server: cannot write to standard output: Bad file descriptor\n"
