"""What is asked of the service, and what the rows of a run say to it: met, missed, or void.

The touch sink over completion queues is the peer to beat. `auto` is judged beside the better one of cpu and
cuda: the one with the higher throughput, or either one where they are within 5 % of each other.
"""
from figures import spread

KIB, MIB = 1024, 1 << 20
SELF_SPREAD_MAX = 0.10  # of a sink compared with itself; above, the row says nothing
CLIENT_BUSY_MAX = 0.9   # of the client's cores; above, the client was the limit
SAME = 0.95


def void_reason(self_comparison, of=""):
    """Why a row says nothing about any server, or about what `of` names; or None."""
    apart = spread(self_comparison)
    if apart is None or apart <= SELF_SPREAD_MAX:
        return None
    return f"the sink{of} beside itself spreads by {apart:.0%}"


class Judge:
    def __init__(self, rows, notes):
        self.rows, self.notes, self.targets = rows, notes, []

    def find(self, **fields):
        return next((r for r in self.rows if all(r.get(k) == v for k, v in fields.items())), None)

    def target(self, what, row, measured, asked, at_most=False, void=None):
        value = measured["median"] if isinstance(measured, dict) else measured
        if value is None:
            return
        met = value <= asked if at_most else value >= asked
        target = {"what": what, "row": row["row"], "backend": row["backend"], "measured": value, "asked": asked,
                  "at_most": at_most, "outcome": "void" if void else "met" if met else "missed"}
        if isinstance(measured, dict):
            target.update({k: measured[k] for k in ("low", "high")})
        if void:
            target["why"] = void
        self.targets.append(target)

    def void(self, row):
        if row["client_cpu_busy"] > CLIENT_BUSY_MAX:
            return "the client's cores were full"
        return self.notes[row["row"]]["void"]

    def beside_the_sink(self, row):
        void = self.void(row)
        self.target("of the touch sink's throughput", row, row.get("of_touch_sink_queues"), 0.97, void=void)
        if row.get("p99_of_touch_sink_queues"):
            p99_void = self.notes[row["row"]].get("p99_void")
            self.target("p99 at half load, of the touch sink's", row, row["p99_of_touch_sink_queues"], 1.10,
                        at_most=True, void=p99_void)

    def cpu_time(self, row):
        """CPU time of a payload: says something also where throughput does not."""
        void, measured = self.notes[row["row"]].get("cpu_void"), row.get("server_cpu_of_touch_sink_queues")
        if measured is None:
            return
        if row["api"] == "compute" and row["payload_bytes"] <= 4 * KIB and not row.get("float_bins"):
            self.target("of the touch sink's CPU time", row, measured, 1.04, at_most=True, void=void)
        if row.get("float_bins") and row["payload_bytes"] == 16 * MIB:
            self.target("of the touch sink's CPU time", row, measured, 1.10, at_most=True, void=void)
        if row.get("new_ranges"):
            repeated = self.find(server="ours", backend=row["backend"], row=row["row"].replace("-new", ""))
            if repeated:  # each beside the sink of its own row, which takes out what the hour did to the machine
                of = round(measured["median"] / repeated["server_cpu_of_touch_sink_queues"]["median"], 3)
                self.target("of a repeated range's CPU time", row, of, 1.3, at_most=True, void=void)

    def auto(self, row):
        others = [r for b in ("cpu", "cuda") if (r := self.find(server="ours", backend=b, row=row["row"]))]
        if len(others) < 2:
            return
        void = self.void(row)
        better = max(others, key=lambda r: r["requests_per_second"])
        near = [r for r in others if r["requests_per_second"] >= SAME * better["requests_per_second"]]
        self.target(f"of the better one's throughput ({better['backend']})", row,
                    row.get(f"of_{better['backend']}"), 0.95, void=void)
        seconds = max(r["server_cpu_seconds_per_gb"] for r in near)
        if seconds:
            self.target("CPU seconds a byte, of the better one's", row,
                        round(row["server_cpu_seconds_per_gb"] / seconds, 3), 1.10, at_most=True, void=void)
        if "p99_us" in row:
            p99 = min(r["p99_us"] for r in others)
            self.target("p99 at half load, of the better one's", row, round(row["p99_us"] / p99, 3), 1.10,
                        at_most=True, void=self.notes[row["row"]].get("p99_void"))

    def kept(self, row, cores):
        """What was reached before, and may not fall."""
        same = {"payload_bytes": row["payload_bytes"], "connections": row["connections"], "transport": "tcp"}
        if row["row"] == "compute-many-tcp-4KiB-x1":
            unary = self.find(server="ours", backend=row["backend"], api="compute", **same)
            if unary:
                self.target("ComputeMany, of unary calls", row,
                            round(row["requests_per_second"] / unary["requests_per_second"], 3), 2.4,
                            void=self.void(row))
        if row["row"] == "compute-tcp-1MiB-x8" and cores >= 16:
            self.target("GB/s", row, row["gbps"], 10.0)
            for peer, factor in (("peer_torch", 8.0), ("peer_numpy", 20.0)):
                other = self.find(server=peer, row=row["row"])
                if other:
                    self.target(f"times {peer}", row,
                                round(row["requests_per_second"] / other["requests_per_second"], 1), factor)


def targets_of(rows, notes, cores):
    """A list of {what, row, backend, measured, low, high, asked, at_most, outcome, why}."""
    judge = Judge(rows, notes)
    for row in rows:
        if row["server"] != "ours":
            continue
        if row["backend"] == "cpu" and not row.get("float_bins"):  # the sink counts bytes
            judge.beside_the_sink(row)
        if row["backend"] == "cpu":
            judge.cpu_time(row)
        if row["backend"] == "auto":
            judge.auto(row)
        else:
            judge.kept(row, cores)
    return judge.targets


def print_targets(targets):
    count = lambda outcome: sum(t["outcome"] == outcome for t in targets)
    print(f"targets: {count('met')} met, {count('missed')} missed, {count('void')} void")
    for t in targets:
        if t["outcome"] != "met":
            known = f" ({t['low']} to {t['high']})" if "low" in t else ""
            asked = f"at {'most' if t['at_most'] else 'least'} {t['asked']} asked"
            why = f": {t['why']}" if "why" in t else ""
            print(f"  {t['outcome']}: {t['row']} {t['backend']}: {t['what']} {t['measured']}{known}, {asked}{why}")
