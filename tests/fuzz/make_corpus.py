#!/usr/bin/env python3
"""Writes the seed corpus of the fuzz targets into tests/fuzz/corpus. Needs nothing but Python.

The files are committed; run this again after a change to the inputs' layout (see the head of each
fuzz_*.cc) or to tests/service/harness/encodings.py, where the requests come from.
"""

import pathlib
import random
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "service"))

from harness import encodings, wire  # noqa: E402

COMPUTE, COMPUTE_MANY, ACCUMULATE = range(3)
BYTES_MAX = 2048  # of one seed: libFuzzer works best on small ones


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def request_input(kind, message, cuts=()):
    return bytes([kind, len(cuts), *cuts]) + message


def requests():
    """(name, kind, message) of every request that the service tests know, as each kind of message."""
    messages = {f"unknown-{slug(name)}": message
                for name, (message, _) in encodings.UNKNOWN_FIELDS.items()}
    for group, table in (("malformed", encodings.MALFORMED),
                         ("malformed-spec", encodings.MALFORMED_SPECS),
                         ("unusual", encodings.UNUSUAL)):
        messages.update({f"{group}-{slug(name)}": message for name, message in table.items()})
    for name, message in messages.items():
        yield f"compute-{name}", COMPUTE, message
        if "unusual" in name:
            yield f"accumulate-{name}", ACCUMULATE, message + wire.uint(2, 1)
            yield f"many-{name}", COMPUTE_MANY, (
                wire.uint(1, 300) + wire.length_delimited(15, message))
    yield "many-id-last", COMPUTE_MANY, wire.length_delimited(15, wire.payload(b"abc")) + wire.uint(1, 9)
    yield "many-bad-and-id-last", COMPUTE_MANY, (
        wire.length_delimited(15, wire.uint(9, 1)) + wire.uint(1, 9))
    yield "many-request-twice", COMPUTE_MANY, (
        wire.length_delimited(15, wire.payload(b"abc")) + wire.length_delimited(
            15, wire.spec(wire.uint(3, 1))))
    yield "many-item-cut", COMPUTE_MANY, wire.uint(1, 9) + b"\x7a\x0a\x7a\x09abc"


def write_requests(folder):
    randomly = random.Random(1)
    for name, kind, message in requests():
        if len(message) > BYTES_MAX:
            continue
        cuts = [randomly.choice([0, 1, 1, 2, 3, 7]) for _ in range(randomly.randrange(20))]
        (folder / name).write_bytes(request_input(kind, message, cuts))
    # Slices of one byte: every tag, length and number lies across a boundary.
    message = encodings.UNUSUAL["binnings merged"]
    (folder / "every-byte-alone").write_bytes(request_input(COMPUTE, message, [1] * 63))


def write_replies(folder):
    randomly = random.Random(2)
    (folder / "empty").write_bytes(b"")
    for index, size in enumerate((1, 10, 40, 100, 200, 400, 900, 2000)):
        (folder / f"random-{index}").write_bytes(randomly.randbytes(size))
        (folder / f"ones-{index}").write_bytes(b"\x01" * size)


def main():
    corpus = HERE / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    for name, write in (("fuzz_request", write_requests), ("fuzz_reply", write_replies)):
        folder = corpus / name
        folder.mkdir(parents=True)
        write(folder)
        sizes = [file.stat().st_size for file in folder.iterdir()]
        print(f"{name}: {len(sizes)} seeds, {sum(sizes)} bytes")


if __name__ == "__main__":
    main()
