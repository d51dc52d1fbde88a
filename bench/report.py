#!/usr/bin/env python3
"""Writes what bench/results says into the documents: each table and sentence between its markers, and the plots.

  bench/report.py            brings the documents and docs/images up to date
  bench/report.py --check    changes nothing; exits with 1 and names what is out of date

A block begins with <!-- bench/report.py: NAME --> and ends with <!-- end -->, each on a line of its own. The
names are the keys of BLOCKS. Needs Python 3.9 and nothing else.
"""
import argparse
import json
import re
import runpy
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
GPU = RESULTS / "nvidia-h200"
KIB, MIB = 1024, 1 << 20
# Ours stands beside the strongest plain gRPC that was measured.
SINKS = {"touch_sink_queues": "the touch sink over completion queues", "touch_sink": "the touch sink over callbacks"}

sys.path.insert(0, str(ROOT / "bench" / "service"))
from rows import human  # noqa: E402  (found only now)

kernel_plot = runpy.run_path(str(ROOT / "bench" / "kernels" / "plot.py"))
service_plot = runpy.run_path(str(ROOT / "bench" / "service" / "plot.py"))


# The code that a result speaks for, and how many later commits to it leave the result in force: docs/BENCHMARKS.md
# says so. The name of a result begins with one of these.
SPEAKS_FOR = {"service": ["server", "kernels"], "kernels": ["kernels/cuda"], "typed": ["kernels/cuda"],
              "python": ["python", "kernels"], "numpy": ["python", "kernels"], "check": ["kernels/cuda"]}
LATER_COMMITS_MAX, SOON = 250, 200
named_soon = set()


def load(path):
    """A result; ends the program for one of code that has changed too much since, and says which soon has."""
    result = json.loads(path.read_text(encoding="utf-8"))
    code = next((code for name, code in SPEAKS_FOR.items() if path.name.startswith(name)), None)
    later = commits_since(result["commit"].partition("-")[0], code) if code else 0
    if later > LATER_COMMITS_MAX:
        raise SystemExit(f"{path.relative_to(ROOT)} is too old: {', '.join(code)} had {later} commits since it was measured, "
                         f"more than {LATER_COMMITS_MAX}; measure it anew")
    if later > SOON and path not in named_soon:
        named_soon.add(path)
        print(f"measure soon: {path.relative_to(ROOT)}, {later} of {LATER_COMMITS_MAX} commits old")
    return result


def commits_since(commit, code):
    """The commits to this code after `commit`; 0 where the history does not reach so far."""
    done = subprocess.run(["git", "rev-list", "--count", f"{commit}..HEAD", "--", *code], cwd=ROOT, capture_output=True,
                          text=True)
    return int(done.stdout) if done.returncode == 0 else 0


def figure(value):
    """Three digits that say something, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def paragraph(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def source(result, path, all_rows=False):
    """Where a block's numbers come from. `all_rows`: and which rows the run did not reach."""
    driver = result.get("driver", "none")
    device = result.get("device") or result.get("gpu") or result["cpu"]
    commit, _, dirty = result["commit"].partition("-")
    lacks = ", ".join(result.get("cut_short_before", ())) if all_rows else ""
    return (f"({device}{'' if driver == 'none' else f', driver {driver}'}, commit {commit[:7]}"
            f"{' with changes' if dirty else ''}, {result['date']}{f', cut short before {lacks}' if lacks else ''}; "
            f"`{path.relative_to(ROOT)}`)")


class Rows:
    """The rows of a service.json."""

    def __init__(self, result):
        self.by = {}
        for r in result["rows"]:
            key = (r["api"], r["transport"], r["payload_bytes"], r["connections"], r.get("float_bins", 0),
                   r.get("new_ranges", False))
            self.by.setdefault(key, {})[r["server"], r["backend"]] = r

    def pairs(self, one, other):
        """(key, row of one, row of the other) wherever both were measured."""
        for key, servers in self.by.items():
            if one in servers and other in servers:
                yield key, servers[one], servers[other]


def ratio(one, other):
    return one["requests_per_second"] / other["requests_per_second"]


def cpu_us(row):
    """The server's CPU time of a payload."""
    return row.get("server_cpu_us", row["server_cpu_seconds_per_gb"] * row["payload_bytes"] / 1e3)


def cpu_share(ours, sink, sink_name):
    """Of the sink's CPU time: the median, and its range where the rounds are known."""
    known = ours.get(f"server_cpu_of_{sink_name}")
    if known:
        return known["median"], f" ({known['low']:.2f} to {known['high']:.2f})"
    return cpu_us(ours) / cpu_us(sink), ""


def name_of(key):
    api, transport, payload, connections, float_bins, new_ranges = key
    method = {"compute": "Compute", "compute_many": "ComputeMany", "accumulate": "Accumulate"}[api]
    where = "" if transport == "tcp" else f" over {transport}"
    samples = f"f32, {float_bins:,} bins, {'new ranges, ' if new_ranges else ''}" if float_bins else ""
    return f"{method} {samples}{human(payload)} x{connections}{where}"


def cuda_of_cpu(service, fits):
    """For the kinds of load whose keys fit: the server's CPU time with `cuda` as shares of that with `cpu`, and the
    throughput likewise; both ascend."""
    found = [(cpu_us(cuda) / cpu_us(cpu), ratio(cuda, cpu))
             for key, cuda, cpu in Rows(service).pairs(("ours", "cuda"), ("ours", "cpu")) if fits(key)]
    return [sorted(shares) for shares in zip(*found)]


def span(shares):
    return f"{shares[0]:.2f} to {shares[-1]:.2f}"


def saved_by_the_gpu(service):
    """What the GPU takes of the work over gRPC, large payloads first."""
    cost, speed = cuda_of_cpu(service, lambda key: key[2] >= MIB)
    some_cost, some_speed = cuda_of_cpu(service, lambda key: key[2] == 64 * KIB)
    less_cost, less_speed = cuda_of_cpu(service, lambda key: key[2] <= 4 * KIB and not key[4])
    return (f"From 1 MiB a payload on, the server takes {statistics.median(cost):.2f} of the CPU time with the GPU that it "
            f"takes without ({span(cost)} in {len(cost)} kinds of load), at {span(speed)} of the throughput. Payloads of "
            f"64 KiB take {span(some_cost)} at {span(some_speed)}. Smaller ones are for the CPU: those of up to 4 KiB take "
            f"{span(less_cost)} at {span(less_speed)}.")


def in_short():
    """The front page's sentences: for readers who know none of our names."""
    service, kernels = load(GPU / "service.json"), load(GPU / "kernels.json")
    _, rates = kernel_plot["rows_of"](kernels)
    resident = max(min(of.values()) for of in rates.values())
    reading = max(kernels["ceilings"]["read_gbps"].items(), key=lambda size: int(size[0]))[1]
    there = (f"A GPU counts bytes that lie in its memory at {figure(resident)} GB/s, whatever their values; reading alone "
             f"reaches {figure(reading)}. {source(kernels, GPU / 'kernels.json')}")
    sent = (f"The image and the static programs let the GPU read payloads where they were received. "
            f"{saved_by_the_gpu(service)} {source(service, GPU / 'service.json')}")
    return (f"{paragraph(there)}\n\n{paragraph(sent)}\n\n"
            + paragraph("Other builds copy each payload for the GPU, which costs a core what counting costs."))


def node_choice():
    """When the GPU pays: over gRPC, from this host's memory, and where the data already lies on the GPU."""
    service, kernels = load(GPU / "service.json"), load(GPU / "kernels.json")
    pairs = list(Rows(service).pairs(("ours", "cuda"), ("ours", "cpu")))
    lines = []
    for key, cuda, cpu in sorted(pairs, key=lambda pair: (pair[0][4], pair[0])):
        if key[:2] == ("compute", "tcp") and key[2] >= 4 * KIB and key[3] in (1, 8):
            samples = f"f32, {key[4]:,} bins, " if key[4] else ""
            lines.append([f"{samples}over gRPC, {human(key[2])} a call, {key[3]} connection{'s' if key[3] > 1 else ''}",
                          f"{figure(cpu['gbps'])} GB/s", f"{figure(cuda['gbps'])} GB/s", f"{ratio(cuda, cpu):.2f}",
                          f"{cpu['server_cpu_seconds_per_gb']:.2f}, {cuda['server_cpu_seconds_per_gb']:.2f}"])
    ceilings = kernels["ceilings"]
    link = ceilings["host_to_device_gbps"]
    size = max(int(b) for b in ceilings["read_gbps"])
    _, rates = kernel_plot["rows_of"](kernels)
    resident = max(min(of.values()) for of in rates.values())
    batches = {}
    for row in kernels["batches"]:
        if row["payload_bytes"] == 4 * KIB:
            batches.setdefault(row["kernel"], []).append(row["gbps"])
    many = max(min(of) for of in batches.values())
    for what, gbps in ((f"in GPU memory, {human(size)} at once", resident),
                       ("in GPU memory, many rows of 4 KiB", many)):
        lines.append([what, f"at most {figure(link)} GB/s (the link)", f"{figure(gbps)} GB/s", f"{gbps / link:.0f}", ""])
    advice = (f"{saved_by_the_gpu(service)} These are the static programs', whose payloads the GPU reads where they were "
              f"received.")
    head = ["where the bytes are", "`cpu`", "`cuda`", "`cuda` / `cpu`", "server CPU, s/GB (`cpu`, `cuda`)"]
    return f"{table(head, lines)}\n\n{paragraph(advice)}\n\n{paragraph(source(service, GPU / 'service.json', all_rows=True))}"


def joined(parts, most=6):
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")


def beside_the_sink(folder):
    """How ours on the CPU stands beside the strongest plain gRPC that was measured."""
    result = load(folder / "service.json")
    rows = Rows(result)
    sink = next(name for name in SINKS if any((name, "cpu") in servers for servers in rows.by.values()))
    notes = result.get("notes", {})
    valid, behind, void, cost = [], [], 0, []
    for key, ours, other in rows.pairs(("ours", "cpu"), (sink, "cpu")):
        if key[4]:  # sinks count bytes
            continue
        cost.append((cpu_share(ours, other, sink)[0], name_of(key)))
        if ours["client_cpu_busy"] > 0.9 or notes.get(ours.get("row"), {}).get("void"):
            void += 1
            continue
        known = ours.get(f"of_{sink}")
        share = known["median"] if isinstance(known, dict) else ratio(ours, other)
        valid.append(share)
        if share < 0.97:
            behind.append((share, f"{name_of(key)} {share:.2f}"))
    least, most = min(cost), max(cost)
    text = (
        f"Beside {SINKS[sink]}, the server on the CPU takes {statistics.median(c for c, _ in cost):.2f} of the CPU "
        f"time of a payload (median of {len(cost)} kinds of load; {least[0]:.2f} at {least[1]} to {most[0]:.2f} at "
        f"{most[1]}). ")
    if not valid:
        return paragraph(f"{text}No row says how their throughput compares: in each the client was full, or the sink "
                         f"differed from itself by more than 10 %. {source(result, folder / 'service.json')}")
    text += (f"It carries 0.97 of the calls or more in "
             f"{len(valid) - len(behind)} of {len(valid)} kinds of load (median {statistics.median(valid):.2f})")
    text += f"; behind are {joined([name for _, name in sorted(behind)])}" if behind else ""
    text += (f". The throughput of {void} further kinds is void: the client was full, or the sink beside itself varied "
             f"by more than 10 %." if void else ".")
    return paragraph(f"{text} {source(result, folder / 'service.json')}")


def cpu_of_a_call():
    """The front page's sentence on the service: server CPU time of a call, and the touch sink's."""
    path = GPU / "service.json"
    result = load(path)
    cost = {key: [row["server_cpu_seconds_per_gb"] * key[2] / 1e3 for row in rows]
            for key, *rows in Rows(result).pairs(("ours", "cpu"), ("touch_sink_queues", "cpu"))}
    told = "; ".join(f"{name} {figure(cost[key][0])} us (sink {figure(cost[key][1])})" for name, key in (
        ("`Compute` of 4 KiB", ("compute", "tcp", 4 * KIB, 8, 0, False)),
        ("of 1 MiB", ("compute", "tcp", MIB, 8, 0, False)),
        ("a payload of 4 KiB in `ComputeMany`", ("compute_many", "tcp", 4 * KIB, 8, 0, False))))
    return paragraph(f"CPU time of the server, and of the touch sink, over eight connections: {told}. "
                     f"{source(result, path)}")


def beside_the_better(folder):
    """How auto stands beside the better one of cpu and cuda."""
    result = load(folder / "service.json")
    notes = result.get("notes", {})
    shares, behind, void = [], [], 0
    for key, servers in Rows(result).by.items():
        of = {backend: row for (server, backend), row in servers.items() if server == "ours"}
        if not {"auto", "cpu", "cuda"} <= of.keys():
            continue
        if notes.get(of["auto"].get("row"), {}).get("void"):
            void += 1
            continue
        share = ratio(of["auto"], max(of["cpu"], of["cuda"], key=lambda r: r["requests_per_second"]))
        shares.append(share)
        if share < 0.95:
            behind.append((share, f"{name_of(key)} {share:.2f}"))
    if not shares:
        return paragraph("No row says how `auto` stands beside the better one of `cpu` and `cuda`: in each the sink "
                         f"differed from itself by more than 10 %. {source(result, folder / 'service.json')}")
    text = (f"`auto` carries 0.95 of the better one of `cpu` and `cuda` or more in {len(shares) - len(behind)} of "
            f"{len(shares)} kinds of load (least {min(shares):.2f})")
    text += f"; behind are {joined([name for _, name in sorted(behind)])}" if behind else ""
    text += f". {void} further kinds are void: the sink beside itself varied by more than 10 %." if void else "."
    return paragraph(f"{text} {source(result, folder / 'service.json')}")


def service_rows(folder):
    """Every kind of load: CPU time, then rates with the lowest and highest round; and the shares of the sink."""
    result = load(folder / "service.json")
    columns = [(("raw_tcp", "none"), "raw TCP"), (("null_sink_queues", "none"), "null sink"),
               (("touch_sink_queues", "cpu"), "touch sink"), (("touch_sink", "cpu"), "touch sink, stock gRPC"),
               (("ours", "cpu"), "`cpu`"), (("ours", "cuda"), "`cuda`"), (("ours", "auto"), "`auto`"),
               (("peer_numpy", "python"), "Python, numpy"), (("peer_torch", "python"), "Python, torch")]
    rows = Rows(result)
    columns = [c for c in columns if any(c[0] in servers for servers in rows.by.values())]
    costly = [c for c in columns if c[0][0] in (*SINKS, "ours") and c[1] != "touch sink, stock gRPC"]
    lines = []
    for key, servers in rows.by.items():
        cells = []
        for column, _ in columns:
            row = servers.get(column)
            # A client that took more than its cores have: its clock did not run with its count.
            if row is not None and (row["client_cpu_busy"] or 0) > 1.05:
                row = None
            cell = "" if row is None else figure(row["requests_per_second"] / 1e3)
            if row and "lowest" in row:
                cell += f" ({figure(row['lowest'] / 1e3)} to {figure(row['highest'] / 1e3)})"
            cells.append(cell)
        ours = servers.get(("ours", "cpu"), {})
        known = ours.get("of_touch_sink_queues")
        note = result.get("notes", {}).get(ours.get("row"), {})
        share = f"{known['median']:.2f} ({known['low']:.2f} to {known['high']:.2f})" if known else ""
        costs = ", ".join(figure(cpu_us(servers[c])) if c in servers else "-" for c, _ in costly)
        sink = servers.get(costly[0][0])
        cost, known = cpu_share(ours, sink, costly[0][0][0]) if ours and sink else (None, "")
        cost_share = "" if cost is None else f"{cost:.2f}{known}"
        lines.append([name_of(key), costs, cost_share, *cells, "void" if note.get("void") else share])
    head = ["", f"server CPU of a payload, us ({', '.join(name for _, name in costly)})", "of the touch sink's CPU",
            *(f"{name}, thousand a second" if i == 0 else name for i, (_, name) in enumerate(columns)),
            "of the touch sink's payloads a second"]
    return f"{table(head, lines)}\n\n{paragraph(source(result, folder / 'service.json', all_rows=True))}"


def kernels():
    result = load(GPU / "kernels.json")
    ceiling = max(result["ceilings"]["read_gbps"].items(), key=lambda size: int(size[0]))[1]
    text = f"Reading alone reaches {ceiling:.0f} GB/s. {source(result, GPU / 'kernels.json')}"
    return f"{kernel_plot['table_of'](result)}\n\n{paragraph(text)}"


def batches():
    """The worst distribution of each batch kernel, by payload size."""
    result = load(GPU / "kernels.json")
    sizes = list(dict.fromkeys(row["payload_bytes"] for row in result["batches"]))
    worst = {}
    for row in result["batches"]:
        cell = worst.setdefault(row["kernel"], {}).get(row["payload_bytes"])
        if cell is None or row["of_bound"] < cell["of_bound"]:
            worst[row["kernel"]][row["payload_bytes"]] = row
    text = lambda cell: f"{cell['gbps']:.0f} ({cell['of_bound']:.0%})".replace("%", " %") if cell else ""
    lines = [[f"`{kernel}`", *(text(of.get(size)) for size in sizes)] for kernel, of in worst.items()]
    head = ["GB/s (of the bound), worst distribution", *(human(s) if isinstance(s, int) else s for s in sizes)]
    return f"{table(head, lines)}\n\n{paragraph(source(result, GPU / 'kernels.json'))}"


def kernel_targets():
    result = load(GPU / "kernels.json")
    value = lambda number: f"{number:.3f}" if number < 10 else figure(number)
    lines = [[t["target"], f"{t['relation']} {t['value']:g}", value(t["measured"]), "met" if t["met"] else "missed"]
             for t in result["targets"]]
    text = paragraph(source(result, GPU / "kernels.json"))
    return f"{table(['what', 'asked', 'measured', 'outcome'], lines)}\n\n{text}"


def typed():
    """Typed samples, a line for each type and binning: ordinary data, edges, the worst; CUB's beside f32's."""
    result = load(GPU / "typed.json")
    share = {}
    for row in result["rows"]:
        line = share.setdefault((row["type"], row["bins"], row["binning"]), {"ours": {}, "cub": {}})
        line["cub" if row["kernel"].startswith("cub") else "ours"][row["distribution"]] = row["of_ceiling"]
    percent = lambda value: f"{100 * value:.0f} %"
    lines = []
    for (kind, bins, binning), of in share.items():
        ours, cub = of["ours"], of["cub"]
        spread = f"{100 * min(cub.values()):.0f} to {percent(max(cub.values()))}" if cub else ""
        lines.append([f"`{kind}`", f"{bins:,}" if bins else "", binning,
                      percent(min(ours["uniform"], ours["normal"])),
                      percent(ours["edges"]) if "edges" in ours else "",
                      f"{percent(min(ours.values()))} ({min(ours, key=ours.get)})", spread])
    head = ["samples", "bins", "range or edges", "ordinary", "on edges", "worst", "CUB"]
    text = (f"Reading alone reaches {result['read_gbps']:.0f} GB/s. A call on 65,536 samples takes "
            f"{result['small_call_us']:.0f} us, a null launch {result['null_launch_us']:.1f} us. "
            f"{source(result, GPU / 'typed.json')}")
    return f"{table(head, lines)}\n\n{paragraph(text)}"


PYTHON_ROWS = [("float32", 10, "normal"), ("float32", 256, "normal"), ("float32", 256, "edges"),
               ("float32", 10, "edges"), ("float64", 2048, "normal"), ("float64", 65536, "edges"), ("int32", 256, "normal"),
               ("uint8", 256, "normal"), ("uint16", 2048, "normal")]
PYTHON_PEERS = ["histogram", "numpy", "boost-histogram", "fast-histogram", "opencv"]


def ratios(result, one, other, distribution="normal"):
    """Of the rates of float32 of a python.json, ascending."""
    rates = [{name: rate["median"] for name, rate in row["gigasamples_per_second"].items()}
             for row in result["long"] if row["type"] == "float32" and row["distribution"] == distribution]
    return sorted(rate[one] / rate[other] for rate in rates)


def python_package():
    """The Python package beside its peers: a part of the rows of arrays of 64 MiB, short calls, quantiles."""
    path = RESULTS / "cpu-2core" / "python.json"
    result = load(path)
    rows = {(row["type"], row["bins"], row["distribution"]): row for row in result["long"]}
    lines = []
    for key in PYTHON_ROWS:
        row, cells = rows[key], []
        for peer in PYTHON_PEERS:
            rate, wrong = row["gigasamples_per_second"].get(peer), row["misplaced"].get(peer)
            cells.append("" if rate is None else figure(rate["median"]) + (f" ({100 * wrong:.2g} %)" if wrong else ""))
        lines.append([f"{key[0]}, {key[1]:,} bins{', on edges' if key[2] == 'edges' else ''}", *cells])
    for row in result["short"]:
        lines.append([f"{row['samples']:,} {row['type']}, {row['bins']} bins, a call",
                      *(f"{row['microseconds'][peer]['median']:.1f} us" for peer in PYTHON_PEERS)])
    quantiles = result["quantiles"]["gigasamples_per_second"]
    lines.append(["four quantiles of float32", *(figure(quantiles[peer]["median"]) if peer in quantiles else ""
                                                 for peer in PYTHON_PEERS)])
    library, numpy, fast = (ratios(result, "histogram", other) for other in ("library", "numpy", "fast-histogram"))
    text = (f"Of float32 that is normally distributed, this is {numpy[0]:.1f} to {numpy[-1]:.1f} times numpy's rate, "
            f"{fast[0]:.1f} to {fast[-1]:.1f} times fast-histogram's, and {library[0]:.2f} to {library[-1]:.2f} of the "
            f"C++ library's. Importing the package takes {result['import_ms']:.0f} ms beyond numpy's own time. "
            f"{source(result, path)}")
    return f"{table(['10^9 samples/s', *PYTHON_PEERS[:-1], 'OpenCV'], lines)}\n\n{paragraph(text)}"


def python_beside_numpy():
    path = RESULTS / "cpu-2core" / "python.json"
    result = load(path)
    row = next(row for row in result["long"] if (row["type"], row["bins"], row["distribution"]) == PYTHON_ROWS[1])
    rate = {name: 4 * of["median"] for name, of in row["gigasamples_per_second"].items()}
    calls, of_calls = python_calls(RATIOS)
    return paragraph(
        f"One core counts 64 MiB of float32 into 256 bins at {figure(rate['histogram'])} GB/s; numpy at "
        f"{figure(rate['numpy'])}. {source(result, path)}") + "\n\n" + paragraph(
        f"A call on 1,000 float32 into 100 bins takes {calls['repeated tuple']:.2f} of numpy's time over a range that came "
        f"before, and {calls['new tuple']:.2f} over a new one. {source(of_calls, RATIOS)}")


RATIOS = RESULTS / "cpu-2core" / "python-ratios.json"


def python_calls(path, samples=1000):
    """Ratios of calls on float32 into 100 bins to numpy's, by kind of range; and the result."""
    result = load(path)
    return {row["range"]: row["ratio"] for row in result["rows"]
            if (row["type"], row["samples"], row["bins"]) == ("float32", samples, 100)}, result


def python_ratios():
    """Calls beside numpy's, whatever the range."""
    lines, result = [], load(RATIOS)
    for samples in (100, 1000, 16384, MIB):
        calls, _ = python_calls(RATIOS, samples)
        lines.append([f"{samples:,}", *(f"{calls[kind]:.2f}" for kind in ("repeated tuple", "new tuple", "None"))])
    rows = next(row["ratio"] for row in result["rows"]
                if (row["type"], row["bins"], row["range"]) == ("float32", 100, "1,024 rows"))
    quantiles = next(row["ratio"] for row in result["rows"] if row["range"].startswith("quantiles"))
    slower = [row for row in result["rows"] if row["ratio"] > 1]
    worst = max(result["rows"], key=lambda row: row["ratio"])
    names = {"None": "the data's own range", "new tuple to 0": "a new range that ends at 0"}
    text = (f"1,024 rows of 1,024 float32, each into 100 bins over its own range, take {rows:.2f} of the time of numpy in a "
            f"loop. Three quantiles of each of 10,000 rows of 1,000 take {quantiles:.2f} of `numpy.quantile`'s. numpy is "
            f"quicker in {len(slower)} of {len(result['rows'])} cases; the worst ratio is {worst['ratio']:.2f} "
            f"({worst['samples']:,} {worst['type']} into {worst['bins']:,} bins, "
            f"{names.get(worst['range'], worst['range'])}). "
            f"{source(result, RATIOS)}")
    head = ["float32 into 100 bins, samples", "a range that came before", "a new range", "the data's own range"]
    return f"{table(head, lines)}\n\n{paragraph(text)}"


def python_gpu():
    """A call of the Python package on arrays that lie on a GPU."""
    path = GPU / "python-gpu.json"
    result = load(path)
    rows = {(row["samples"], row["bins"]): row for row in result["rows"] if row["type"] == "float32"}
    told = []
    for samples, unit, digits in ((1 << 16, "us", 0), (1 << 28, "ms", 2)):
        scale = 1 if unit == "us" else 1e3
        times = {name: f"{time['median'] / scale:.{digits}f} {unit}" for name, time in
                 rows[samples, 256]["microseconds"].items()}
        told.append(f"Of {samples:,} float32 it takes {times['histogram']}; `torch.histc` {times['torch.histc']}, cupy "
                    f"{times['cupy.histogram']}, the C++ device API in a loop {times['device API']}.")
    wrong = max(row["misplaced"].get("torch.histc", 0) for row in result["rows"])
    return paragraph(
        f"A call counts a torch tensor that lies on the GPU into 256 bins, which arrive in the CPU's memory. {told[0]} "
        f"{told[1]} `torch.histc` misplaces up to {100 * wrong:.1g} % of the samples. {source(result, path)}")


def python_gpu_cliff():
    """The same over a range that is new with each call, of rows, and of quantiles of rows."""
    path = GPU / "python-gpu-cliff.json"
    result = load(path)
    cases = {row["case"]: {name: time["median"] for name, time in row["microseconds"].items()} for row in result["rows"]}
    short = [cases[f"{1 << 16} float32, {bins} bins"] for bins in (256, 2048)]
    both = lambda name: " and ".join(f"{case[name]:.0f}" for case in short)
    least = min(case["torch.histc"] / case["new"] for case in cases.values() if "torch.histc" in case)
    rows, own = cases["rows, range"], cases.get("rows, own ranges")
    own_ranges = own and (f"; each over its own range {own['on host'] / 1e3:.2f} and {own['on device'] / 1e3:.2f} ms, "
                          f"where torch takes {own['torch'] / 1e3:.2f} and {own['torch, on device'] / 1e3:.2f}")
    quantiles = cases["quantiles of 14 rows"]["one call"]
    return paragraph(
        f"Over a range that is new with each call 65,536 float32 take {both('new')} us into 256 and 2,048 bins, over "
        f"the data's own range {both('data')} us; `torch.histc` takes {both('torch.histc')} us and "
        f"{both('torch.histc, data')} us. From 1,024 to 67,108,864 samples it takes at least {least:.1f} times as long. "
        f"4,096 rows of 4,096 take {rows['on host'] / 1e3:.2f} ms, and {rows['on device'] / 1e3:.2f} ms where the counts "
        f"stay on the GPU{own_ranges or ''}; two quantiles of each of 14 rows of 14.7 million {quantiles / 1e3:.1f} ms. "
        f"{source(result, path)}")


def numpy_parity():
    path = RESULTS / "cpu-2core" / "numpy-parity.json"
    result = load(path)
    numbers = [sum(tests.values()) for tests in result["configurations"].values()]
    each = f"{min(numbers):,}" if min(numbers) == max(numbers) else f"{min(numbers):,} to {max(numbers):,}"
    return paragraph(f"Its last run compared {each} configurations of each of {len(numbers)} types with numpy "
                     f"{result['numpy']}: {result['differences']} differences. {source(result, path)}")


def gpus():
    """On which GPUs the suite has run."""
    lines = []
    for path in sorted(RESULTS.glob("*/check.json")):
        check = load(path)
        count = lambda outcome: sum(test["outcome"] == outcome for test in check["tests"])
        number = re.search(r"-x(\d+)$", path.parent.name)
        line = (f"- {number[1] if number else 1} x {check['device']}, driver {check['driver']}, CUDA {check['cuda']}: "
                f"{count('passed')} tests passed, {count('failed')} failed, {count('skipped')} skipped "
                f"({check['date']}, commit {check['commit'][:7]}{check.get('note', '')})")
        lines.append(textwrap.fill(line, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    return "The GPU suite (`scripts/gpu-check`) has run on these; other GPUs are untested.\n\n" + "\n".join(lines)


def arm():
    """What has run on an emulated Arm processor."""
    path = RESULTS / "emulated-arm64" / "arm-check.json"
    result = load(path)
    lines = [textwrap.fill(f"- {name}: {part['passed']} tests passed, {part['skipped']} skipped, in "
                           f"{part['seconds'] / 60:.0f} minutes ({part['date']}, commit {part['commit'][:7]}"
                           f"{part.get('note', '')})", 100, subsequent_indent="  ", break_on_hyphens=False)
             for name, part in sorted(result["parts"].items())]
    return paragraph(f"Its last run ({result['device']}; `{path.relative_to(ROOT)}`):") + "\n\n" + "\n".join(lines)


BLOCKS = {
    "when the GPU pays": node_choice,
    "when the GPU pays, in short": in_short,
    "service beside gRPC, H200": lambda: beside_the_sink(GPU),
    "service beside gRPC, two cores": lambda: beside_the_sink(RESULTS / "cpu-2core"),
    "server CPU of a call": cpu_of_a_call,
    "auto": lambda: beside_the_better(GPU),
    "service rows, H200": lambda: service_rows(GPU),
    "service rows, two H200s": lambda: service_rows(RESULTS / "nvidia-h200-x2"),
    "service rows, four H200s": lambda: service_rows(RESULTS / "nvidia-h200-x4"),
    "service rows, two cores": lambda: service_rows(RESULTS / "cpu-2core"),
    "kernels": kernels,
    "batches": batches,
    "kernel targets": kernel_targets,
    "typed samples": typed,
    "GPUs that the suite has run on": gpus,
    "what has run on an emulated Arm processor": arm,
    "Python package": python_package,
    "Python package, beside numpy": python_beside_numpy,
    "Python package, whatever the range": python_ratios,
    "Python package, on a GPU": python_gpu,
    "Python package, new ranges on a GPU": python_gpu_cliff,
    "Python package, compared with numpy": numpy_parity,
}
PLOTS = {
    ROOT / "docs/images/service-h200.svg": lambda: service_plot["draw"](load(GPU / "service.json")),
    ROOT / "docs/images/kernels-h200.svg": lambda: kernel_plot["draw"](load(GPU / "kernels.json")),
}
BLOCK = re.compile(r"^<!-- bench/report\.py: (.*?) -->\n(.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE)


def filled(text):
    """The document with each of its blocks made anew."""
    def fill(match):
        if match[1] not in BLOCKS:
            raise SystemExit(f"no block is named '{match[1]}'; the names are: {', '.join(BLOCKS)}")
        return f"<!-- bench/report.py: {match[1]} -->\n\n{BLOCKS[match[1]]()}\n\n<!-- end -->"
    return BLOCK.sub(fill, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    wanted = {path: filled(path.read_text(encoding="utf-8")) for path in documents}
    wanted.update((path, draw()) for path, draw in PLOTS.items())
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{'out of date' if options.check else 'written'}: {path.relative_to(ROOT)}")
        if not options.check:
            path.write_text(wanted[path], encoding="utf-8")
    if options.check and stale:
        sys.exit("run bench/report.py")


if __name__ == "__main__":
    main()
