"""What was asked of the service (throughput and latency beside the sinks), and what rows of a run say to it."""

KIB, MIB = 1024, 1 << 20


def name_of(row):
    return (f"{row['api']} {row['transport']} {row['payload_bytes']} B, {row['connections']} connections, "
            f"{row['backend']}")


def target(what, row, measured, asked, at_most=False):
    met = None if measured is None else (measured <= asked if at_most else measured >= asked)
    return {"what": what, "row": name_of(row), "measured": measured, "asked": asked, "met": met}


def find(rows, **fields):
    return next((r for r in rows if all(r[k] == v for k, v in fields.items())), None)


def targets_of(rows, cores):
    """A list of {what, row, measured, asked, met}; void rows (the client was the limit) are left out."""
    out = []
    for r in rows:
        if r["server"] != "ours" or not r["valid"]:
            continue
        out.append(target("of the touch sink's throughput, lower bound", r, r["of_touch_sink"], 0.97))
        if r["payload_bytes"] <= 64 * KIB:
            out.append(target("of the null sink's throughput, lower bound", r, r["of_null_sink"], 0.97))
        if "p99_of_touch_sink" in r:
            out.append(target("p99 at half load, of the touch sink's", r, r["p99_of_touch_sink"], 1.10, at_most=True))
        same = {"payload_bytes": r["payload_bytes"], "connections": r["connections"], "transport": r["transport"]}
        if r["api"] == "compute_many" and r["payload_bytes"] == 4 * KIB and r["connections"] == 1:
            unary = find(rows, server="ours", backend=r["backend"], api="compute", **same)
            if unary:
                ratio = round(r["requests_per_second"] / unary["requests_per_second"], 3)
                out.append(target("ComputeMany, of unary calls", r, ratio, 2.4))
        if r["api"] == "compute" and r["transport"] == "tcp" and r["payload_bytes"] == MIB and r["connections"] == 8:
            if cores >= 16:
                out.append(target("GB/s", r, r["gbps"], 10.0))
            for peer, factor in (("peer_torch", 8.0), ("peer_numpy", 20.0)):
                other = find(rows, server=peer, api="compute", payload_bytes=MIB, connections=8)
                if other and cores >= 16:
                    ratio = round(r["requests_per_second"] / other["requests_per_second"], 1)
                    out.append(target(f"times {peer}", r, ratio, factor))
    return out


def print_targets(targets):
    met = sum(t["met"] is True for t in targets)
    print(f"targets: {met} of {len(targets)} met")
    for t in targets:
        if t["met"] is not True:
            print(f"  missed: {t['row']}: {t['what']} {t['measured']}, asked {t['asked']}")
