"""Puts the parts of one run of bench/service/run.py together again."""
import json
from pathlib import Path

SAME = ("device", "commit", "cpu", "cores", "plan")


def cut_short(parts, order, notes):
    """The rows that a part did not come to: the last ones of it, since it ran out of time. A row that is missing
    among others, or a part, ends the program."""
    missing = [name for name in order if name not in notes]
    for part in parts:
        number, count = (int(word) for word in part.get("part", "1/1").split("/"))
        own = order[number - 1::count]
        measured = [name for name in own if name in part["notes"]]
        if measured and measured == own[:len(measured)]:
            missing = [name for name in missing if name not in own]
    if missing:
        raise SystemExit(f"no part has {', '.join(missing)}")
    return [name for name in order if name not in notes]


def merge(files):
    """The whole of the parts in these files; ends the program where they are not parts of one run."""
    parts = [json.loads(Path(file).read_text()) for file in files]
    for file, part in zip(files, parts):
        for key in SAME:
            if part[key] != parts[0][key]:
                raise SystemExit(f"{file}: its {key} is {part[key]}; that of {files[0]} is {parts[0][key]}")
    notes = {}
    for file, part in zip(files, parts):
        twice = notes.keys() & part["notes"].keys()
        if twice:
            raise SystemExit(f"{file}: {', '.join(sorted(twice))} is in another part, too")
        notes.update(part["notes"])
    order = parts[0]["plan"]["rows"]
    missing = cut_short(parts, order, notes)
    rows = sorted((row for part in parts for row in part["rows"]), key=lambda row: order.index(row["row"]))
    return {**{key: value for key, value in parts[0].items() if key not in ("rows", "notes", "part")},
            # Hosts of one kind may have different drivers.
            "driver": ", ".join(sorted({part["driver"] for part in parts})),
            "command": [part["command"] for part in parts], "dates": [part["date"] for part in parts],
            **({"cut_short_before": missing} if missing else {}),
            "rows": rows, "notes": {name: notes[name] for name in order if name in notes}}
