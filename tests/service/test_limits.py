"""What gRPC itself limits on an open port, and who gets how much of a server that has too little."""

import struct
import threading
from concurrent.futures import ThreadPoolExecutor

from harness import http2, oracle
from harness.api import Client, bearer, pb
from harness.specs import random_bytes
from harness.waiting import wait_until

MIB = 1 << 20
NO_ERROR, ENHANCE_YOUR_CALM = 0, 11
ALICE, BOB = "token-of-alice-0123456789", "token-of-bob-0123456789"


def still_right(client, **options):
    payload = random_bytes(3000)
    oracle.check_histogram(client.compute(payload, **options).histogram, payload, pb.Spec())


def wait_for_goaway(connection):
    """The error code of the first GOAWAY."""
    while True:
        have = connection.next_frame()
        assert have is not None, "the server closed the connection without a word"
        if have[0] == http2.GOAWAY:
            return struct.unpack(">I", have[3][4:8])[0]


def test_a_client_that_pings_too_often_is_sent_away(server, client):
    with http2.RawConnection(server.address) as connection:
        connection.settle()
        # One segment: a ping of its own could meet the connection's end, and the reset would take the GOAWAY along.
        connection.socket.sendall(b"".join(http2.frame(http2.PING, 0, 0, struct.pack(">Q", number)) for number in range(8)))
        assert wait_for_goaway(connection) == ENHANCE_YOUR_CALM
    still_right(client)


def test_an_old_connection_is_sent_away_and_its_stream_is_not_cut(start_server):
    """The age ends a connection only once its calls are over, however long an Accumulate takes."""
    with start_server("--connection-age-max", "1s") as server, Client(server.address) as client:
        chunks = [random_bytes(50_000, seed=index) for index in range(3)]
        may_go_on = threading.Event()

        def requests():
            yield pb.AccumulateRequest(chunk=chunks[0], snapshot=True)
            assert may_go_on.wait(60)
            yield pb.AccumulateRequest(chunk=chunks[1])
            yield pb.AccumulateRequest(chunk=chunks[2])

        replies = client.stub.Accumulate(requests(), timeout=60)
        assert not next(replies).final
        for _ in range(2):  # the age is jittered by a tenth: two of them are longer than one
            with http2.RawConnection(server.address) as young:
                assert wait_for_goaway(young) == NO_ERROR
        may_go_on.set()
        [last] = replies
        assert last.final
        oracle.check_histogram(last.histogram, b"".join(chunks), pb.Spec())
        still_right(client)  # over a connection of its own, which the client opens by itself


def test_streams_that_fill_the_queue_refuse_no_other_tenant(start_server, token_file):
    """Eight streams of one tenant take what one may, two thirds, and wait; another's unary calls all find room."""
    tokens = token_file(f"alice {ALICE}", f"bob {BOB}")
    over, large = threading.Event(), random_bytes(MIB)

    def stream(address):
        """Sends as fast as it may, on a connection of its own."""
        sent, answered = [], []

        def requests():
            while not over.is_set():
                sent.append(len(sent))
                yield pb.ComputeManyRequest(request_id=sent[-1], request=pb.ComputeRequest(payload=large))
        with Client(address) as client:
            for reply in client.stub.ComputeMany(requests(), timeout=240, metadata=bearer(ALICE)):
                assert reply.WhichOneof("result") == "response", reply.error
                oracle.check_histogram(reply.response.histogram, large, pb.Spec())
                answered.append(reply.request_id)
        assert sorted(answered) == sent

    # What is queued stays for the batch's delay, so that the queue is full whatever the machine's speed.
    with start_server("--token-file", tokens, "--backend", "cpu", "--inline-bytes-max", 0, "--batch-delay-max", "300ms",
                      "--queue-bytes-max", 16 * MIB, "--batch-bytes-max", 16 * MIB, "--payload-bytes-max", 2 * MIB) as server:
        with ThreadPoolExecutor(8) as pool:
            streams = [pool.submit(stream, server.address) for _ in range(8)]
            try:
                with Client(server.address) as client:
                    for index, size in enumerate([100_000, MIB] * 6):
                        wait_until(lambda: server.metrics().value("histsvc_queue_bytes") >= 9 * MIB, 120, "a full queue")
                        payload = random_bytes(size, seed=index)
                        reply = client.compute(payload, metadata=bearer(BOB))
                        oracle.check_histogram(reply.histogram, payload, pb.Spec())
            finally:
                over.set()
        for one in streams:
            one.result()
        assert server.metrics().value("histsvc_rejected_total", reason="queue_full") == 0
