"""histogram-client end to end: what it prints in each format equals numpy, and errors end it well."""

import json
import os
import pty
import resource
import select
import signal
import socket
import subprocess
import threading
import time
from xml.etree import ElementTree

import numpy as np
import pytest

from harness import oracle, specs
from harness.api import pb
from harness.certificates import authority, certificate, future_certificate
from harness.server import SANITIZER_OUTPUT, clean_environment
from harness.specs import random_bytes
from harness.waiting import wait_until


@pytest.fixture
def run(client_bin, server):
    """Runs the client against the shared server; returns the finished process."""
    def run_client(*arguments, status=0, stdin=b"", address=server.address, **environment):
        feed = {"stdin": stdin} if isinstance(stdin, int) else {"input": stdin}
        done = subprocess.run(
            [client_bin, "--server", address, *map(str, arguments)], capture_output=True,
            **feed, timeout=60, env=clean_environment(**environment), check=False)
        error = done.stderr.decode(errors="replace")
        assert not SANITIZER_OUTPUT.search(error), error
        assert done.returncode == status, (done.returncode, error)
        return done
    return run_client


def check_json(entry, payload, spec):
    """One histogram of the JSON output against numpy."""
    want = oracle.expected(payload, spec)
    assert entry["counts"] == want.counts.tolist()
    assert entry["samples"] == len(payload)
    assert (entry["below"], entry["above"], entry["ignored"]) == (
        want.below, want.above, want.ignored)
    if want.edges is not None:
        assert entry["edges"] == want.edges.tolist()


BINNINGS = {
    (): pb.Spec(),
    ("--bins", 16): specs.even(16),
    ("--bins", 10, "--range", "0.1:99.5"): specs.even(10, 0.1, 99.5),
    ("--bins", 65536): specs.even(65536),
    ("--edges", "0,1,2.5,100,255"): specs.edges([0, 1, 2.5, 100, 255]),
    ("--alphabet", "a:26:6"): specs.alphabet(ord("a"), 26, 6),
}


ALL_SIZES = (0, 1, 100_000, 3 << 20)


@pytest.mark.parametrize(("options", "sizes"), [
    *((options, ALL_SIZES) for options in BINNINGS), *(((), (size,)) for size in ALL_SIZES)], ids=str)
def test_json_equals_numpy(run, tmp_path, options, sizes):
    files = [tmp_path / str(size) for size in sizes]
    for file, size in zip(files, sizes, strict=True):
        file.write_bytes(random_bytes(size))
    document = json.loads(run("compute", *files, "--format", "json", *options).stdout)
    assert document["schema"]
    for entry, file in zip(document["histograms"], files, strict=True):
        assert entry["source"] == str(file)
        check_json(entry, file.read_bytes(), BINNINGS[options])
        assert entry["receipt"]["backend"] == "cpu"


# ------------------------------------------------------------------------------------- in process
@pytest.fixture
def histogram(client_bin):
    """Runs the program by its short name, with no server anywhere."""
    def run_histogram(*arguments, status=0, **how):
        done = subprocess.run(
            [client_bin.parent / "histogram", *map(str, arguments)], capture_output=True,
            timeout=60, env=clean_environment(), check=False, **how)
        assert done.returncode == status, (done.returncode, done.stderr)
        return done
    return run_histogram


def answers(document):
    """What the document says of the data, without how it was counted."""
    for entry in document["histograms"]:
        receipt = entry.pop("receipt")
        assert receipt["kernel"]
        entry["in process"] = receipt["in_process"]
    return document


BOTH = ("--statistics", "--quantiles", "0,0.25,0.5,1")


@pytest.mark.parametrize(("options", "questions"), [
    *((options, questions) for options in BINNINGS for questions in ((), BOTH)),
    (("--bins", 16), ("--statistics",)), ((), ("--quantiles", "0.999"))], ids=str)
def test_in_process_and_by_a_server_the_answers_are_the_same(histogram, run, tmp_path, options,
                                                             questions):
    files = []
    for index, payload in enumerate((b"", b"\0", b"e" * 10, specs.PAYLOADS["normal"](100_000),
                                     random_bytes(3 << 20))):
        files.append(tmp_path / str(index))
        files[-1].write_bytes(payload)
    arguments = (*files, "--format", "json", *options, *questions)
    here = answers(json.loads(histogram("count", *arguments).stdout))
    there = answers(json.loads(run("count", *arguments).stdout))
    for entries, in_process in ((here, True), (there, False)):
        assert {entry.pop("in process") for entry in entries["histograms"]} == {in_process}
    assert here == there
    assert [entry["samples"] for entry in here["histograms"]] == [0, 1, 10, 100_000, 3 << 20]


@pytest.mark.parametrize("options", ((), ("--bins", 4), ("--bins", 10, "--range", "-8:8")),
                         ids=lambda options: " ".join(map(str, options)) or "-")
def test_signed_bytes_have_one_range(histogram, run, tmp_path, options):
    """In process and by a server, int8 without a range has bins over -128..128."""
    file, samples = tmp_path / "a.npy", np.arange(-120, 128, 3, dtype=np.int8)
    np.save(file, samples)
    here, there = (json.loads(program("count", file, "--statistics", "--format", "json", *options)
                              .stdout)["histograms"][0] for program in (histogram, run))
    assert here["counts"] == there["counts"]
    assert here["statistics"] == there["statistics"]
    if "--range" not in options:
        count = options[1] if options else 256
        assert here["counts"] == np.histogram(samples, count, (-128, 128))[0].tolist()
        assert here["statistics"]["minimum"] == -120


def test_a_slow_writer_of_a_pipe_in_non_blocking_mode(histogram):
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    writer = threading.Timer(0.1, lambda: (os.write(write_end, b"abc"), os.close(write_end)))
    writer.start()
    try:
        done = histogram("-", "--format", "json", stdin=read_end)
    finally:
        writer.join()
        os.close(read_end)
    assert json.loads(done.stdout)["histograms"][0]["samples"] == 3


def test_a_fifo_waits_for_its_other_end_until_the_timeout(histogram, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    server = [__file__, "--server", "127.0.0.1:1"]
    for arguments in ([fifo], ["image", fifo], [*server, "--token-file", fifo],
                      [*server, "--tls", "--tls-ca", fifo]):
        assert b"--timeout" in histogram(*arguments, "--timeout", 0.1, status=1).stderr
    writer = threading.Timer(0.1, lambda: fifo.write_bytes(b"abcd"))
    writer.start()
    done = histogram(fifo, "--format", "json", "--timeout", 30)
    writer.join()
    assert json.loads(done.stdout)["histograms"][0]["samples"] == 4
    for command in (["count", __file__], ["image", "-"]):
        error = histogram(*command, "-o", fifo, "--timeout", 0.2, status=1, input=b"P5 2 1 255 ab").stderr
        assert b"not done within 0.2 s; allow more" in error
    reader = threading.Timer(0.1, lambda: texts.append(fifo.read_text()))
    texts = []
    reader.start()
    histogram("count", __file__, "-o", fifo, "--format", "json", "--timeout", 30)
    reader.join()
    assert json.loads(texts[0])["histograms"]


def test_the_timeout_is_of_the_whole_command(histogram):
    """Of reading numbers and of what comes after it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "127.0.0.1:{}".format(silent.getsockname()[1])
        start = time.monotonic()
        read_end, write_end = os.pipe()
        writer = threading.Timer(3, lambda: (os.write(write_end, b"1 2"), os.close(write_end)))
        writer.start()
        histogram("--numbers", "--server", address, "--timeout", 4, status=1, stdin=read_end)
        took = time.monotonic() - start
        writer.join()
        os.close(read_end)
    assert 3 < took < 6.8


def test_a_timeout_ends_every_wait(histogram, tmp_path):
    os.mkfifo(tmp_path / "token")
    read_end, write_end = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "127.0.0.1:{}".format(silent.getsockname()[1])
        server = ("--server", address)
        for arguments in (
                ("count", "-"), ("count", "/dev/zero"), ("count", "/dev/zero", "--type", "f32", "--bins", 2),
                (*server, "count", "-"), (*server, "describe", "--token-file", tmp_path / "token"),
                (*server, "describe"), (*server, "count", __file__), ("health", "--http", address)):
            error = histogram(*arguments, "--timeout", 0.2, status=1, stdin=read_end).stderr
            assert b"not done within 0.2 s; allow more" in error, arguments
    os.close(read_end)
    os.close(write_end)
    with subprocess.Popen(["yes", "1 2 3"], stdout=subprocess.PIPE) as endless:
        histogram("--numbers", "--timeout", 0.2, status=1, stdin=endless.stdout)
        endless.kill()


def test_a_pipe_is_counted_with_options_of_the_program_alone(histogram, run):
    assert b"5 bytes" in run(stdin=b"hello").stdout
    assert b"5 bytes" in histogram("--timeout", 5, input=b"hello").stdout
    assert b"5 bytes" in histogram("--timeout=5", input=b"hello").stdout
    assert b"Usage" in histogram("--timeout", 5, "--help", input=b"hello").stdout


@pytest.mark.parametrize(("command", "said"), (
    ("count - <&-", "standard input is closed"), ("count /dev/stdin <&-", "/dev/stdin"),
    ("count /etc/hostname -o /dev/stdout >&-", "/dev/stdout"), ("count /etc/hostname -o /no/such/x", "/no/such/x"),
    *((f"{command} >{output}", f"cannot write to standard output: {error}")
      for command in ("count /etc/hostname", "--help", "completion", "image - <<<'P2 2 1 255 9 8'")
      for output, error in (("&-", "Bad file descriptor"), ("/dev/full", "No space left on device")))))
def test_a_stream_that_is_closed_or_full_is_told_in_one_line(client_bin, command, said):
    done = subprocess.run(["bash", "-c", f'"$0" {command}', client_bin], capture_output=True, env=clean_environment(),
                          timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1), done.stderr
    assert said in done.stderr.decode()


def test_files_whose_size_is_not_that_of_their_text(histogram):
    for file in filter(os.path.exists, ("/sys/class/net/lo/mtu", "/proc/sys/kernel/pid_max")):
        with open(file, "rb") as opened:
            data = opened.read()
            opened.seek(0)
            for output in (histogram(file, "--format", "json"),
                           histogram("--format", "json", stdin=opened)):
                [entry] = json.loads(output.stdout)["histograms"]
                assert entry["counts"] == np.bincount(np.frombuffer(data, np.uint8), minlength=256).tolist()


def test_npy_files_are_known_by_their_beginning(histogram, run, tmp_path):
    """Whatever the name, from a pipe and a redirected file, too; test_client_types.py has the headers."""
    file = tmp_path / "a.bak"
    with file.open("wb") as opened:
        np.save(opened, np.arange(3.))
    arguments = ("--bins", 3, "--statistics", "--format", "json")
    with file.open("rb") as opened:
        outputs = [histogram("count", file, *arguments), run("count", file, *arguments),
                   histogram("count", *arguments, input=file.read_bytes()),
                   run("count", *arguments, stdin=file.read_bytes()),
                   histogram("count", *arguments, stdin=opened)]
    for output in outputs:
        [entry] = json.loads(output.stdout)["histograms"]
        assert entry["counts"] == [1, 1, 1] and entry["statistics"]["median"] == 1
    file.write_bytes(file.read_bytes()[:-1])
    histogram("count", file, *arguments, status=1)
    histogram("count", *arguments, status=1, input=file.read_bytes())


def test_a_npz_archive_is_to_be_unpacked(histogram, tmp_path):
    np.savez(tmp_path / "z.npz", a=np.arange(3))
    assert b".npz archive; unpack it" in histogram(tmp_path / "z.npz", status=1).stderr


def test_what_follows_two_dashes_are_files(histogram, tmp_path):
    for name in ("book.txt", "-x", "--bins", "count"):
        (tmp_path / name).write_bytes(b"hello")
    for arguments, files in ((("book.txt", "--", "-x"), 2), (("--", "-x", "--bins", "book.txt"), 3),
                             (("count", "--bins", 4, "--", "-x", "count"), 2), (("--", "count"), 1),
                             (("--bins", 4, "--", "-x"), 1)):
        assert histogram(*arguments, cwd=tmp_path).stdout.count(b"5 bytes") == files, arguments
    assert b"cannot open ./-y" in histogram("--", "-y", cwd=tmp_path, status=1).stderr


def test_a_typed_input_ends_with_one_control_d(client_bin, server):
    for arguments, said in ((("count", "-"), b"6 bytes"), (("count", "--numbers", "-"), b"2 i64 samples"),
                            (("--server", server.address, "compute", "-"), b"6 bytes")):
        typing, terminal = pty.openpty()
        with subprocess.Popen([client_bin, *arguments], stdin=terminal, stdout=subprocess.PIPE,
                              env=clean_environment()) as process:
            os.close(terminal)
            os.write(typing, b"12 34\n\x04")
            try:
                output, _ = process.communicate(timeout=60)  # nothing more is typed
            finally:
                process.kill()
        os.close(typing)
        assert said in output, arguments


def test_control_c_leaves_the_line_of_progress(client_bin):
    """The prompt behind it begins a line of its own."""
    seen, terminal = pty.openpty()
    with subprocess.Popen([client_bin, "count", "/dev/zero"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=terminal, env=clean_environment(TERM="xterm")) as process:
        os.close(terminal)
        output = b""
        while b"/s" not in output:  # the rate that the line tells
            output += os.read(seen, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while True:
                output += os.read(seen, 4096)
        except OSError:  # the program has ended
            pass
        assert process.wait(60) in (-signal.SIGINT, 130)
    os.close(seen)
    assert output.endswith(b"\n"), output[-200:]


def test_without_a_file_at_a_terminal(client_bin):
    typing, terminal = pty.openpty()
    done = subprocess.run([client_bin, "count"], stdin=terminal, capture_output=True, timeout=60,
                          env=clean_environment(), check=False)
    os.close(typing)
    os.close(terminal)
    assert done.returncode == 2
    assert b"name a FILE to count, or - for standard input" in done.stderr


# ---------------------------------------------------------------------------------------- pictures
@pytest.mark.parametrize("most", (255, 1000, 1015, 4095, 65535))
def test_each_level_of_a_picture_is_counted(histogram, run, tmp_path, most):
    dtype = "u1" if most == 255 else ">u2"
    levels = np.arange(1000, 1016, dtype=dtype) if most > 1015 else np.arange(most - 15, most + 1, dtype=dtype)
    samples = levels.repeat(np.where(np.arange(16) < 8, 5, 7))
    file, output = tmp_path / "picture", tmp_path / "out.pgm"
    file.write_bytes(b"P5 %d 1 %d\n" % (len(samples), most) + samples.tobytes())
    here, there = (json.loads(program("image", file, "--format", "json", "--binarize", output).stdout)
                   for program in (histogram, run))
    for document in (here, there):
        [entry] = document["histograms"]
        entry.pop("receipt")
        assert entry["sample_type"] == ("u8" if most == 255 else "u16")
        assert entry["counts"] == np.bincount(samples, minlength=most + 1).tolist()
        assert entry["edges"] == list(range(most + 2))
        assert document["otsu_threshold"] == levels[7]
        assert entry["statistics"]["median"] == np.median(samples)
    assert here == there
    want = (samples > levels[7]) * np.uint8(255)
    assert output.read_bytes() == b"P5\n%d 1\n255\n" % len(samples) + want.tobytes()
    black_and_white = tmp_path / "out.png"
    run("image", file, "--binarize", black_and_white)
    [entry] = json.loads(histogram("image", black_and_white, "--format", "json").stdout)["histograms"]
    assert (entry["counts"][0], entry["counts"][-1]) == ((want == 0).sum(), (want != 0).sum())


def test_a_colour_picture(run, tmp_path):
    file, samples = tmp_path / "picture", np.frombuffer(random_bytes(64 * 50 * 3), np.uint8)
    file.write_bytes(b"P6 64 50 255\n" + samples.tobytes())
    document = json.loads(run("image", file, "--format", "json").stdout)
    entries = {entry["channel"]: entry for entry in document["histograms"]}
    for index, name in enumerate(("red", "green", "blue")):
        assert entries[name]["source"] == f"{file}: {name}"
        check_json(entries[name], samples[index::3].tobytes(), pb.Spec())
    assert b"<svg" in run("image", file, "--format", "svg").stdout and b"red" in run("image", file).stdout


def test_svg_is_well_formed(histogram, tmp_path):
    for name in (b"plain", b"<&>\"'\x01\xff"):
        file = tmp_path / os.fsdecode(name)
        for data in (b"", b"a", bytes(range(256))):
            file.write_bytes(data)
            for options in (("--statistics",), ("--alphabet", "a:26:6"), ("--bins", 1000, "--range", "-5:300")):
                svg = histogram("count", file, file, "--format", "svg", *options).stdout
                assert ElementTree.fromstring(svg).get("role") == "img"
                assert b"nan" not in svg and b"inf" not in svg


def test_help_fits_80_columns(histogram):
    for command in ((), ("count",), ("compute",), ("image",), ("bench",), ("describe",), ("health",),
                    ("completion",)):
        lines = histogram(*command, "--help").stdout.decode().splitlines()
        assert all(len(line) <= 80 for line in lines), max(lines, key=len)


def test_output_to_a_slow_reader_in_non_blocking_mode(client_bin, tmp_path):
    file = tmp_path / "data"
    file.write_bytes(random_bytes(1000))
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with subprocess.Popen([client_bin, "count", file, "--bins", "65536", "--format", "csv"], stdout=writer,
                          stderr=subprocess.PIPE, env=clean_environment()) as process:
        os.close(writer)
        wait_until(lambda: select.select([reader], [], [], 0)[0], 60, "it has written")
        with open(reader, "rb") as output:
            rows = output.read().splitlines()
        assert process.wait(timeout=60) == 0, process.stderr.read()
    assert len(rows) == 1 + 65536 + 3


def test_a_file_that_cannot_be_written_whole_is_removed(client_bin, tmp_path):
    file, output = tmp_path / "data", tmp_path / "out.csv"
    file.write_bytes(random_bytes(1000))
    done = subprocess.run(
        [client_bin, "count", file, "--bins", "65536", "-o", output], capture_output=True, timeout=60,
        env=clean_environment(), check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    assert done.returncode == 1
    assert b"cannot write" in done.stderr and b"File too large" in done.stderr
    assert not output.exists()


# ------------------------------------------------------------------------------------------ errors
def test_a_reader_that_goes_away_is_no_error_to_shout_about(client_bin, server, tmp_path):
    file = tmp_path / "data"
    file.write_bytes(random_bytes(1000))
    process = subprocess.Popen(
        [client_bin, "--server", server.address, "compute", file, "--format", "csv", "--bins",
         "65536"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
    process.stdout.read(10)
    process.stdout.close()
    error = process.stderr.read().decode()
    process.stderr.close()
    status = process.wait(60)
    assert error == ""
    assert status in (0, 1, -signal.SIGPIPE, 128 + signal.SIGPIPE)


# ----------------------------------------------------------------------------------- other commands
def test_describe_and_health(run):
    document = json.loads(run("describe", "--format", "json").stdout)
    assert document["limits"]["bin_count_max"] == 65536
    assert any(backend["name"] == "cpu" for backend in document["backends"])
    assert "rows max 1,048,576" in " ".join(run("describe").stdout.decode().split())
    for arguments in ((), ("liveness",), ("backend/cpu",), ("histogram.v1.HistogramService",)):
        run("health", *arguments)
    run("health", "no-such-service", status=1)
    run("health", status=1, address="127.0.0.1:1")


def test_health_over_http(run, server):
    done = run("health", "--http", server.metrics_address, address="127.0.0.1:1")  # not asked there
    assert done.stdout == b"ready\n"
    done = run("health", "--http", server.address, "--timeout", "5", status=1)
    assert b"does not speak HTTP" in done.stderr or b"cannot read" in done.stderr
    for address in ("127.0.0.1:1", "https://127.0.0.1:1", "127.0.0.1", ":9464", "127.0.0.1:", "no.such.host.invalid:9464"):
        assert run("health", "--http", address, status=1).stderr.count(b"\n") == 1
    run("health", "--http", server.metrics_address, "liveness", status=2)


def test_an_empty_strategy_of_grpc_is_none(run):
    run("health", GRPC_POLL_STRATEGY="")


# ------------------------------------------------------------------------------------------- bench
@pytest.mark.parametrize("options", ((), ("--float-bins", 100), ("--float-bins", 100, "--new-ranges")))
@pytest.mark.parametrize("api", ("compute", "compute-many", "accumulate"))
def test_bench_counts_right_answers(run, api, options):
    if api == "accumulate" and "--new-ranges" in options:
        run("bench", "--api", api, *options, status=2)
        return
    done = run("bench", "--api", api, "--duration", "2", "--warm-up", 0, "--payload-bytes", "64KiB", *options,
               "--format", "json")
    result = json.loads(done.stdout)
    assert result["requests"] > 0 and result["verified"] and done.stderr == b""
    assert result["errors"] == result["wrong"] == 0
    if options:
        assert result["float_bins"] == 100
    run("bench", "--float-bins", 10, "--payload-bytes", "10", status=2)
    run("bench", "--new-ranges", status=2)


@pytest.mark.parametrize("api", ("compute", "compute-many", "accumulate"))
def test_bench_says_that_its_server_died(client_bin, start_server, api):
    server = start_server()
    process = subprocess.Popen(
        [client_bin, "--server", server.address, "bench", "--api", api, "--duration", "3600", "--warm-up", "0",
         "--payload-bytes", "1KiB"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
    wait_until(lambda: server.metrics().value("histsvc_kernel_duration_seconds_count") > 0, 60, "a count")
    server.kill()
    output, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"requests/s" in output and b"errors " in output
    assert b"the server was not available to " in error and error.count(b"\n") == 1, error


def test_input_that_is_silent_while_the_server_drains(client_bin, start_server):
    """Accumulate is never retried: the client says that the server went away."""
    server = start_server("--payload-bytes-max", 16 << 10)
    process = subprocess.Popen(
        [client_bin, "--server", server.address, "compute", "-", "--format", "json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=clean_environment())
    process.stdin.write(b"x" * (16 << 10))
    process.stdin.flush()
    wait_until(lambda: server.metrics().value("histsvc_kernel_duration_seconds_count") > 0, 60, "a count")
    server.stop()
    output, error = process.communicate(b"x", timeout=60)
    assert (process.returncode, output) == (1, b"")
    assert len(error.decode().strip().splitlines()) == 1, error


@pytest.fixture
def floats(tmp_path):
    """A file of 20 MiB, more than what is sent whole where parts tell all."""
    values = np.random.default_rng(4).normal(size=5 << 20).astype(np.float32)
    file = tmp_path / "floats"
    file.write_bytes(values.tobytes())
    return file, values


@pytest.mark.parametrize("fed", (False, True), ids=("a file", "a pipe"))
def test_medians_and_quantiles_of_what_is_large(run, histogram, floats, fed):
    file, values = floats
    stdin = file.read_bytes() if fed else b""
    options = ("-" if fed else file, "--type", "f32", "--bins", 8, "--statistics", "--quantiles", "0.25,0.5",
               "--format", "json")
    want = np.quantile(values.astype(float), (0.25, 0.5))
    for done in (run("count", *options, stdin=stdin), run("compute", *options, stdin=stdin),
                 histogram("count", *options, input=stdin)):
        [entry] = json.loads(done.stdout)["histograms"]
        assert entry["counts"] == np.histogram(values.astype(float), 8)[0].tolist()
        assert entry["statistics"]["quantiles"] == pytest.approx(want.tolist())
        assert entry["statistics"]["median"] == pytest.approx(np.median(values))
        assert done.stderr == b""


def test_what_a_server_cannot_take_at_once_is_said(run, start_server, floats):
    server = start_server("--payload-bytes-max", "1MiB")
    options = (floats[0], "--type", "f32", "--bins", 8, "--format", "json")
    done = run("count", *options, "--statistics", address=server.address)
    assert "median" not in json.loads(done.stdout)["histograms"][0]["statistics"]
    assert b"the median is missing" in done.stderr
    error = run("count", *options, "--quantiles", "0.5", address=server.address, status=1).stderr
    assert b"is larger than 1.00 MiB, the most that this server takes at once" in error


def test_uploads_over_a_quota_wait(run, start_server, tmp_path):
    (tmp_path / "tokens").write_text("bob token-of-bob-0123456789 4000000\n")
    (tmp_path / "token").write_text("token-of-bob-0123456789")
    server = start_server("--token-file", tmp_path / "tokens", "--payload-bytes-max", "1MiB")
    files = [tmp_path / str(i) for i in range(6)]
    for file in files:
        file.write_bytes(random_bytes(1 << 20))
    large = tmp_path / "large"
    large.write_bytes(random_bytes(5 << 20))
    token = ("--token-file", tmp_path / "token")
    # A proxy must not see the token: nothing listens there, and the server is reached all the same.
    proxy = {"http_proxy": "http://127.0.0.1:1", "grpc_proxy": "http://127.0.0.1:1"}
    for inputs in (files, [large], files[:1]):  # many calls, one stream, one call
        document = json.loads(run("count", *inputs, *token, "--format", "json", address=server.address, **proxy).stdout)
        assert [entry["samples"] for entry in document["histograms"]] == [f.stat().st_size for f in inputs]


def test_a_certificate_out_of_date_is_refused(run, start_server, tmp_path):
    authority(tmp_path, "ca")
    for name in ("old", "future"):
        if name == "old":
            certificate(tmp_path, "old", "ca", days="-1")
        else:
            future_certificate(tmp_path, "future", "ca")
        server = start_server("--tls-cert", tmp_path / f"{name}.pem", "--tls-key", tmp_path / f"{name}.key")
        error = run("--tls", "--tls-ca", tmp_path / "ca.pem", "--tls-server-name", "localhost", "health",
                    address=server.address, status=1).stderr
        assert b"vouches for the certificate" in error and b"it may be out of date" in error
        assert f"{name}.pem: certificate 1 " in server.stderr()


THREADS = "0 more threads of the 6 that it needs: raise the limit of processes"
DESCRIPTORS = "raise the limit of open files (ulimit -n)"


@pytest.mark.parametrize(("what", "most", "command", "said"), (
    *(("NPROC", 1, command, THREADS) for command in ("health", "describe", "count -", "bench --duration 0.1")),
    ("NOFILE", 6, "health", DESCRIPTORS), ("NOFILE", 40, "bench --connections 50", DESCRIPTORS)))
def test_without_threads_or_descriptors_it_says_so(client_bin, server, sanitized, what, most, command, said):
    if sanitized and what == "NOFILE":
        pytest.skip("UndefinedBehaviorSanitizer needs a descriptor to check a vptr, and reports a false one")
    # The limit of processes binds nobody who is root.
    user = {"user": 65533} if what == "NPROC" and os.geteuid() == 0 else {}
    done = subprocess.run(
        [client_bin, "--server", server.address, "--timeout", "4", *command.split()], input=b"abc", capture_output=True,
        timeout=60, env=clean_environment(), check=False, **user,
        preexec_fn=lambda: resource.setrlimit(getattr(resource, f"RLIMIT_{what}"), (most, most)))
    assert done.returncode == 1 and said in done.stderr.decode()
