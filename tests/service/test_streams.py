"""ComputeMany and Accumulate: ids, order, snapshots, half-closing; and what receipts say."""

import json
import queue
import subprocess
import time

import pytest

from harness import oracle
from harness.api import Client, pb
from harness.specs import BINNINGS, alphabet, random_bytes, with_everything

LETTERS = alphabet(ord("a"), 26, 6)


class Feed:
    """A request iterator that a test feeds while the call runs; None half-closes."""

    def __init__(self):
        self._messages = queue.Queue()

    def send(self, message):
        self._messages.put(message)

    def half_close(self):
        self._messages.put(None)

    def __iter__(self):
        return iter(self._messages.get, None)


def test_ids_are_echoed_unchecked(client):
    ids = [0, 1, 2**63, 2**64 - 1, 7, 7, 7]
    requests = [pb.ComputeManyRequest(request_id=value, request=pb.ComputeRequest(payload=b"x"))
                for value in ids]
    replies = list(client.stub.ComputeMany(iter(requests), timeout=60))
    assert sorted(reply.request_id for reply in replies) == sorted(ids)


def test_items_have_their_own_specs(client):
    items, wanted = [], {}
    for index, spec in enumerate(BINNINGS.values()):
        payload = random_bytes(100 + 997 * index, seed=index)
        wanted[index] = (payload, spec)
        items.append(pb.ComputeManyRequest(
            request_id=index, request=pb.ComputeRequest(payload=payload, spec=spec)))
    replies = list(client.stub.ComputeMany(iter(items), timeout=60))
    assert sorted(reply.request_id for reply in replies) == sorted(wanted)
    for reply in replies:
        oracle.check_histogram(reply.response.histogram, *wanted[reply.request_id])


def test_more_items_than_a_stream_may_have_open(client):
    limit = client.stub.Describe(pb.DescribeRequest()).limits.stream_payloads_max
    payloads = [random_bytes(index % 700, seed=index) for index in range(20 * limit)]
    for payload, response in zip(payloads, client.compute_many(payloads, LETTERS), strict=True):
        assert response.histogram.samples == len(payload)
    oracle.check_histogram(response.histogram, payload, LETTERS)


def test_no_reply_is_kept_back_however_many_are_waited_for(client):
    """Replies may be sent together; a client that waits for all of them must get them all."""
    feed = Feed()
    call = client.stub.ComputeMany(iter(feed), timeout=100)
    sent = 0
    for group in [*range(1, 41), 1, 2, 1, 40, 1, *[3] * 40, *[40] * 5, *[1] * 40]:
        wanted = {}
        for _ in range(group):
            payload = random_bytes(sent % 50 * 40, seed=sent)
            wanted[sent] = payload
            feed.send(pb.ComputeManyRequest(request_id=sent, request=pb.ComputeRequest(payload=payload)))
            sent += 1
        for reply in (next(call) for _ in range(group)):
            oracle.check_histogram(reply.response.histogram, wanted.pop(reply.request_id), pb.Spec())
        assert not wanted
    feed.half_close()
    assert list(call) == []


def test_no_reply_is_kept_back_that_comes_from_a_lane(start_server, client_bin):
    """gRPC is done with a stream's first write only when it is sent: it must not be kept for a second.

    The window is shorter than that, and longer than a busy machine takes for its first answer.
    """
    server = start_server("--inline-bytes-max", "0")
    for _ in range(10):
        command = [client_bin, "--server", server.address, "bench", "--api", "compute-many", "--in-flight", "64",
                   "--payload-bytes", "4096", "--warm-up", "0", "--duration", "0.7", "--format", "json"]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
        assert result["errors"] == 0 and result["requests_per_second"] > 0, result


def test_empty_streams(client):
    assert list(client.stub.ComputeMany(iter(()), timeout=60)) == []
    [reply] = client.stub.Accumulate(iter(()), timeout=60)
    assert reply.final and reply.chunks == 0
    oracle.check_histogram(reply.histogram, b"", pb.Spec())


def test_an_item_without_a_request_is_an_empty_payload(client):
    [reply] = client.stub.ComputeMany(iter([pb.ComputeManyRequest(request_id=4)]), timeout=60)
    assert reply.request_id == 4
    oracle.check_histogram(reply.response.histogram, b"", pb.Spec())


def test_snapshots_come_where_asked_and_include_their_chunk(client):
    spec = with_everything(LETTERS)
    chunks = [b"abc", b"", b"xyz0", b"m" * 70_000, b"!"]
    replies = client.accumulate(chunks, spec, snapshots=(0, 2, 3))
    assert [(reply.final, reply.chunks) for reply in replies] == [
        (False, 1), (False, 3), (False, 4), (True, 5)]
    for reply in replies:
        oracle.check_histogram(reply.histogram, b"".join(chunks[:reply.chunks]), spec)


def test_snapshots_hold_what_came_before_while_chunks_overlap(start_server):
    """Small chunks overtake large ones on their way through the lanes, but not in the sums."""
    server = start_server("--cpu-lanes", "4", "--inline-bytes-max", "0", "--split-bytes-min", "1048576")
    chunks = [random_bytes((1 << 20) + 7 if index % 3 == 0 else 11 * index, seed=index) for index in range(30)]
    with Client(server.address) as client:
        replies = client.accumulate(chunks, LETTERS, snapshots=range(len(chunks)))
    assert [reply.chunks for reply in replies] == [*range(1, len(chunks) + 1), len(chunks)]
    for reply in replies:
        oracle.check_histogram(reply.histogram, b"".join(chunks[:reply.chunks]), LETTERS)


@pytest.mark.parametrize("first", (b"abc", b""))
def test_the_spec_of_the_first_message_holds(client, first):
    messages = [pb.AccumulateRequest(spec=LETTERS, chunk=first), pb.AccumulateRequest(chunk=b"xyz"),
                pb.AccumulateRequest(spec=BINNINGS["even-7"], chunk=b"...")]
    [reply] = client.stub.Accumulate(iter(messages), timeout=60)
    oracle.check_histogram(reply.histogram, first + b"xyz...", LETTERS)


@pytest.mark.parametrize("size", (0, 1, 1000, 65536, 200_000, 5 << 20))
def test_receipts_make_sense(client, size):
    kernels = {kernel.name for kernel in client.stub.Describe(pb.DescribeRequest()).kernels
               if kernel.backend == "cpu"}
    payload = random_bytes(size)
    for call, overlap in ((lambda: [client.compute(payload)], 1),
                          (lambda: client.accumulate([payload] * 3, snapshots=(0, 1)), 3),
                          (lambda: client.compute_many([payload] * 20), 1)):
        began = time.monotonic_ns()
        receipts = [answer.receipt for answer in call()]
        elapsed_ns = time.monotonic_ns() - began
        for receipt in receipts:
            assert receipt.backend == "cpu"
            if size:
                assert receipt.kernel in kernels and receipt.kernel_ns > 0 and receipt.batch_payloads >= 1
            assert 0 < receipt.total_ns <= elapsed_ns
            assert receipt.queue_ns <= overlap * receipt.total_ns
            assert receipt.transfer_ns == 0  # the cpu reads host memory in place
        for name in ("total_ns", "kernel_ns", "queue_ns") if overlap > 1 else ():  # sums over the chunks
            values = [getattr(receipt, name) for receipt in receipts]
            assert values == sorted(values), name


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_accumulate_past_four_gibibytes(start_server, sanitized):
    """More bytes than 32 bits hold, one value alone past them, in memory that does not grow."""
    chunk = b"\x00" * (16 << 20)
    last = bytes(range(256))
    chunk_count = 257  # 4.02 GiB
    server = start_server()
    with Client(server.address) as client:
        feed = Feed()
        call = client.stub.Accumulate(iter(feed), timeout=280)
        for index in range(chunk_count):
            feed.send(pb.AccumulateRequest(chunk=chunk, snapshot=True))
            reply = next(call)  # one chunk at a time: the client's memory stays small too
            assert reply.histogram.counts[0] == (index + 1) * len(chunk)
            if index == 15:
                early_bytes = server.memory_bytes("VmHWM")
        feed.send(pb.AccumulateRequest(chunk=last))
        feed.half_close()
        [reply] = call
    total = chunk_count * len(chunk) + len(last)
    assert total > 2**32 and reply.histogram.samples == total
    assert list(reply.histogram.counts) == [chunk_count * len(chunk) + 1] + [1] * 255
    assert reply.chunks == chunk_count + 1
    if not sanitized:
        grown = server.memory_bytes("VmHWM") - early_bytes
        assert grown < 64 << 20, f"grew by {grown >> 20} MiB over 4 GiB"
