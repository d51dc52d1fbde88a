#!/usr/bin/env python3
"""Writes the seed corpus of the fuzz targets into tests/fuzz/corpus. Needs nothing but Python.

The files are committed; run this again after a change to the inputs' layout (see the head of each
fuzz_*.cc) or to tests/service/harness/encodings.py, where the requests come from.
"""

import pathlib
import random
import re
import shutil
import struct
import sys
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "service"))

from harness import encodings, wire  # noqa: E402

COMPUTE, COMPUTE_MANY, ACCUMULATE = range(3)
COMPUTE_MANY_BINS = 129  # COMPUTE, to a server that takes 2^24 bins
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


def typed_specs():
    """(name, spec) of typed samples: many bins, rows, sparse counts, the own range of the data or of each row."""
    def even(bins, rest):
        return wire.length_delimited(2, wire.length_delimited(1, wire.uint(1, bins) + rest))

    f32, four = wire.uint(1, 11), wire.double(2, -4.0) + wire.double(3, 4.0)
    yield "many-bins", f32 + even(1 << 24, four)
    yield "many-bins-sparse", f32 + even(1 << 24, four) + wire.uint(5, 1) + wire.uint(8, 1)
    for name, rows in (("windows", wire.length_delimited(1, wire.uint(1, 7) + wire.uint(2, 3))),
                       ("lengths", wire.length_delimited(2, wire.length_delimited(1, b"\x01\x00\x05"))),
                       ("channels", wire.uint(4, 3))):
        yield f"rows-{name}", f32 + even(10, four) + wire.length_delimited(7, rows) + wire.uint(3, 1)
        yield f"ranges-of-rows-{name}", (
            f32 + even(10, wire.uint(5, 1)) + wire.length_delimited(7, rows) + wire.uint(3, 1))
    yield "range-of-data", f32 + even(70000, wire.uint(4, 1)) + wire.length_delimited(9, b"\x01\x05")


def write_requests(folder):
    for name, spec in typed_specs():
        message = wire.spec(spec) + wire.payload(bytes(28))
        (folder / f"typed-{name}").write_bytes(request_input(COMPUTE_MANY_BINS, message, [5, 1]))
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


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width, height, depth, colour, rows, extra=b"", interlace=0):
    """A PNG of `rows` (each with its filter byte), with further chunks before the pixels."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra +
            chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b""))


def images():
    ramp = bytes(range(0, 256, 4))
    yield "grey.pgm", b"P5\n8 8\n255\n" + ramp
    yield "grey-text.pgm", b"P2 # a comment\n4 2 7\n0 1 2 3\n4 5 6 7\n"
    yield "grey-16-bit.pgm", b"P5 4 2 1000\n" + struct.pack(">8H", *range(0, 1000, 125))
    yield "above-largest.pgm", b"P5 2 1 7\n\x03\x09"
    yield "colour.ppm", b"P6 4 4 255\n" + ramp[:48]
    yield "colour-text.ppm", b"P3 2 1 255 255 0 0 0 0 255"
    yield "cut.pgm", b"P5 8 8 255\n" + ramp[:20]
    yield "huge.pgm", b"P5 4294967295 4294967295 255\n"
    yield "no-pixels.ppm", b"P6 0 9 255\n"
    yield "bitmap.pbm", b"P4 8 1\n\xaa"
    yield "grey.png", png(8, 8, 8, 0, [b"\0" + ramp[at:at + 8] for at in range(0, 64, 8)])
    yield "filters.png", png(4, 5, 8, 0, [bytes([kind]) + ramp[:4] for kind in range(5)])
    yield "one-bit.png", png(8, 2, 1, 0, [b"\0\xaa", b"\0\x55"])
    yield "sixteen-bits.png", png(2, 1, 16, 0, [b"\0\x12\x34\xff\xff"])
    yield "colour.png", png(2, 2, 8, 2, [b"\0" + ramp[:6], b"\1" + ramp[:6]])
    yield "alpha.png", png(2, 1, 8, 6, [b"\0" + ramp[:8]])
    yield "grey-alpha.png", png(2, 1, 8, 4, [b"\0" + ramp[:4]])
    yield "palette.png", png(4, 1, 2, 3, [b"\0\x1b"], chunk(b"PLTE", ramp[:12]) +
                             chunk(b"tRNS", b"\0\x80"))
    yield "interlaced.png", png(1, 1, 8, 0, [b"\0\x33"], interlace=1)
    yield "cut.png", png(8, 8, 8, 0, [b"\0" + ramp[at:at + 8] for at in range(0, 64, 8)])[:-30]
    yield "huge.png", png(2**31 - 1, 2**31 - 1, 8, 2, [b"\0"])
    yield "nothing", b""


def write_images(folder):
    for name, data in images():
        (folder / name).write_bytes(data)


def queries():
    yield "nothing", ""
    yield "even", "bins=16&range=0:256"
    yield "floats", "bins=2048&range=-1e-3:+4.5&type=f32&statistics&quantiles=0,0.5,0.99,1"
    yield "range-of-data", "type=bf16&bins=7&statistics=true"
    yield "edges", "edges=0,1.5,200&type=u16&statistics=0"
    yield "alphabet", "alphabet=a:26:6"
    yield "alphabet-by-value", "alphabet=0x61:26&statistics=1"
    yield "alphabet-of-colons", "alphabet=::2"
    yield "encoded", "%62ins=%31%36&range=0%3A256"
    yield "cut-escape", "bins=1%3"
    yield "not-hexadecimal", "bins=%zz"
    yield "empty-parts", "&&bins=4&&range=0:1&&"
    yield "twice", "bins=4&bins=5"
    yield "empty-value", "bins="
    yield "no-name", "=4"
    yield "unknown", "binz=4"
    yield "excluded", "bins=4&edges=0,1"
    yield "no-bins", "range=0:1"
    yield "huge-bins", "bins=4294967296"
    yield "no-double", "bins=4&range=0:9007199254740993"
    yield "not-a-number", "bins=4&range=nan:inf"
    yield "control-characters", "bins=4&range=%0A5:%091"
    yield "no-utf8", "type=%ff%c3%28"
    yield "many-edges", "edges=" + ",".join(map(str, range(300)))


def write_queries(folder):
    for name, query in queries():
        (folder / name).write_bytes(query.encode())


def main():
    corpus = HERE / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    for name, write in (("fuzz_request", write_requests), ("fuzz_reply", write_replies),
                        ("fuzz_image", write_images), ("fuzz_query", write_queries)):
        folder = corpus / name
        folder.mkdir(parents=True)
        write(folder)
        sizes = [file.stat().st_size for file in folder.iterdir()]
        print(f"{name}: {len(sizes)} seeds, {sum(sizes)} bytes")


if __name__ == "__main__":
    main()
