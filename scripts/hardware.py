#!/usr/bin/env python3
"""Changes of kernel structs that others measured on hardware, against linemate's predictions.

    scripts/hardware.py predict [ID|ID@CPUS…]   records what is not recorded yet, and replays: predictions.json
    scripts/hardware.py table                   predictions.json against published.toml, as Markdown
    scripts/hardware.py mechanisms [ID|ID@CPUS|MECHANISM…]   asks the compared edits again with one mechanism of the model switched: mechanisms.json
    scripts/hardware.py mechanism-table         what each of them does to the totals, as Markdown
    scripts/hardware.py --check                 evidence/hardware.md has both tables

In cases/hardware, suite.toml says what is recorded and which edit is asked, published.toml what others measured. `predict` never
opens published.toml, so predictions.json can be committed before anybody compares. `mechanisms` records nothing.

From the environment: LINEMATE (target/release/linemate), HARDWARE_OUT (target/hardware), HARDWARE_RUN (a command before each
guest, such as `nice`).
"""

import doctest
import functools
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "cases/hardware"
PREDICTIONS = SUITE / "predictions.json"
MECHANISMS = SUITE / "mechanisms.json"
EVIDENCE = ROOT / "evidence/hardware.md"
OUT = Path(os.environ.get("HARDWARE_OUT", ROOT / "target/hardware"))
LINEMATE = os.environ.get("LINEMATE", str(ROOT / "target/release/linemate"))

BEGIN, BEGIN_MECHANISMS, END = "<!-- made by scripts/hardware.py -->", "<!-- made by scripts/hardware.py: mechanisms -->", "<!-- end -->"
# A published change of at most that many per cent is none: repeated runs of one kernel differ as much.
NOTHING = 1.0
# Two figures are of one order of magnitude if neither is more than this many times the other: half a decade.
MAGNITUDE = math.sqrt(10)
# A predicted change of less is none, in per cent: `whatif` calls it negligible.
NEGLIGIBLE = 0.01
# What counts as found.
FIRST = 5
# What names the culprit in a kernel without the change.
PLACES = (
    ("type by accesses from another CPU", ["rank_shared"]),
    ("type by cost", ["rank_cost"]),
    ("line with the pair by cost", ["rank_pair"]),
    ("type in `advise`", ["rank_advise"]),
    ("type by cost or in `advise`", ["rank_cost", "rank_advise"]),
    ("line with the pair by cost, or type in `advise`", ["rank_pair", "rank_advise"]),
)
# What a change of work done in a time is predicted by. The table's verdicts are of the first.
MEASURES = (("time", "CPU time"), ("duration", "the replay's duration"), ("all", "all memory cycles"))
# One mechanism of the model switched each, all else as `predict` has it: its name, the words for `whatif`, and by what the machine's
# latencies are multiplied. A replay's instruction takes one cycle, so latencies twice as long are those of a core that retires two.
SWITCHED = (
    ("no pairs of lines", ("--mechanisms", "none"), 1),
    ("lines of 128 bytes", ("--mechanisms", "none", "--line", "128"), 1),
    ("overlap of misses", ("--mechanisms", "adjacent_line_pairs,overlap"), 1),
    ("cold caches", ("--cold",), 1),
    ("2 instructions per cycle", (), 2),
    ("1 instruction per 2 cycles", (), 0.5),
    ("caches shared with a full machine", ("--llc-share",), 1),
    ("L2 streamer", ("--mechanisms", "adjacent_line_pairs,l2_streamer"), 1),
    ("L1 stride prefetcher", ("--mechanisms", "adjacent_line_pairs,l1_stride"), 1),
)


@functools.cache
def linemate(*words: str) -> dict:
    """What a verb answers with --json. Cases that share a recording ask some of it once."""
    run = subprocess.run([LINEMATE, *words, "--json"], check=True, capture_output=True, cwd=ROOT)
    return json.loads(run.stdout)


def completed(cases: list[dict]) -> list[dict]:
    """The cases, second tries filled in: what one does not say is as in its first try, which precedes it, but for `of`, and for
    `shorter` if it has its own command.

    >>> first = {"id": "A", "struct": "s", "command": "a", "shorter": {"8": "b"}, "of": "O"}
    >>> completed([first, {"id": "B", "again": "A"}])[1]
    {'id': 'B', 'struct': 's', 'command': 'a', 'shorter': {'8': 'b'}, 'again': 'A'}
    >>> completed([first, {"id": "B", "again": "A", "command": "c"}])[1]
    {'id': 'B', 'struct': 's', 'command': 'c', 'again': 'A'}
    """
    complete: dict[str, dict] = {}
    for case in cases:
        own = {"of"} | ({"shorter"} if "command" in case else set())
        first = complete[case["again"]] if "again" in case else {}
        complete[case["id"]] = {key: value for key, value in first.items() if key not in own} | case
    return list(complete.values())


def read_suite() -> tuple[list[dict], str]:
    """The cases, complete, and the machine that they are asked on."""
    suite = tomllib.loads((SUITE / "suite.toml").read_text())
    return completed(suite["case"]), suite["machine"]


def filled(command: str, cpus: int) -> str:
    """The command for that many CPUs.

    >>> filled("talk -s {cpus/2} -w {cpus}", 8)
    'talk -s 4 -w 8'
    """
    return re.sub(r"\{cpus(?:/(\d+))?\}", lambda found: str(cpus // int(found[1] or 1)), command)


def recording(case: dict, cpus: int) -> Path:
    """The recording, made if it is not there."""
    file = OUT / f"{case.get('of', case['id'])}-{cpus}.data"
    if file.exists():
        return file
    OUT.mkdir(parents=True, exist_ok=True)
    more = [word for key in ("setup", "append") if key in case for word in (f"--{key}", case[key])]
    command = shlex.split(filled(case.get("shorter", {}).get(str(cpus), case["command"]), cpus))
    # A CPU takes 8 MiB, beside the default 1 GiB for everything.
    more += ["--memory", f"{cpus * 16}M"] if cpus > 64 else []
    before = shlex.split(os.environ.get("HARDWARE_RUN", ""))
    record = [LINEMATE, "record", "--kernel", case["kernel"], "--smp", str(cpus), "-o", str(file)]
    subprocess.run([*before, *record, *more, "--", *command], check=True, cwd=ROOT)
    return file


def rank(rows: list, fits) -> int | None:
    """The place of the first row that fits, from 1."""
    return next((place for place, row in enumerate(rows, 1) if fits(row)), None)


def change(measure: dict) -> list[float]:
    """Per cent, and half its interval."""
    without = measure["without"] or math.inf
    return [round(100 * measure[key] / without, 3) for key in ("difference", "ci95")]


def outermost(case: dict) -> str:
    """The type by which rankings name the case's: they name an object by the struct that holds it by value."""
    return case.get("within", case["struct"]).split(".")[0]


def has_pair(line: dict, case: dict) -> bool:
    """Whether a line of the type has both fields of the pair. Names of a union's members are one cell.

    >>> cells = [{"field": "file.f_count"}, {"field": "file.f_path.mnt | f_op"}]
    >>> [has_pair({"name": "file", "cells": cells}, {"struct": "file", "fields": ["f_count", f]}) for f in ("f_op", "f_pos")]
    [True, False]
    >>> has_pair({"name": "inode", "cells": cells}, {"struct": "file", "fields": ["f_count"]})
    False
    >>> held = {"name": "top", "cells": [{"field": "top.in[3].a | in[3].b"}, {"field": "top.c"}]}
    >>> [has_pair(held, {"struct": "in", "within": "top.in", "fields": ["a", f]}) for f in ("b", "c")]
    [True, False]
    """
    outer, *path = case.get("within", case["struct"]).split(".")
    fields = [re.sub(r"\[[^]]*\]", "", part) for cell in line["cells"] for part in cell["field"].split(" | ")]
    names = {field.removeprefix(f"{outer}.") for field in fields}
    if path:
        inner = ".".join(path) + "."
        names = {name.removeprefix(inner) for name in names if name.startswith(inner)}
    members = {name.split(".")[0] for name in names}
    return line["name"] == outer and set(case["fields"]) <= members


def predict(case: dict, cpus: int, machine: str) -> dict:
    """What linemate says without being asked about the type, and what the edit changes."""
    file = str(recording(case, cpus))
    costs = linemate("report", "-i", file, "--machine", machine)["costs"]
    shared = linemate("report", "-i", file)["types"]
    undone = case.get("undone", False)
    advised = [] if undone else linemate("advise", "-i", file, "--machine", machine)["types"]
    edits = [word for edit in case["edit"] for word in ("-e", edit)]
    asked = linemate("whatif", "-i", file, "--type", case["struct"], "--machine", machine, *edits)
    answer = asked["results"][0]
    of_type = next((row for row in costs["types"] if row["name"] == outermost(case)), None)
    return {
        "id": case["id"],
        "cpus": cpus,
        "checksum": asked["checksum"],
        "accesses": answer["accesses"],
        "rank_shared": rank(shared, lambda row: row["name"] == outermost(case)),
        "rank_cost": rank(costs["types"], lambda row: row["name"] == outermost(case)),
        "rank_pair": rank(costs["lines"], lambda row: has_pair(row, case)),
        "rank_advise": rank(advised, lambda row: row["name"] == outermost(case)),
        "share": round(100 * of_type["cycles"] / costs["whole"]["cycles"], 2) if of_type else 0.0,
        "false_sharing": round(100 * of_type["causes"]["false_sharing"] / max(1, of_type["cycles"]), 1) if of_type else 0.0,
        "type": change(answer["types"]),
        "all": change(answer["whole"]),
        "duration": change(answer["duration"]),
        "time": change(answer["time"]["cycles"]),
        "working": answer["time"]["cpus"],
        "busiest": round(100 * answer["time"]["busiest"]["without"], 1),
        "waiting": round(100 * answer["time"]["waiting"]["without"] / answer["time"]["cycles"]["without"], 2),
        "memory": round(100 * answer["time"]["memory"], 1),
        "notes": [start["otherwise"] for layout in asked["layouts"] for start in layout.get("line_starts", [])],
    }


def make_predictions(wanted: list[str]) -> None:
    """Predicts the wanted cases, or all; the others keep what they have."""
    cases, machine = read_suite()
    known = json.loads(PREDICTIONS.read_text()) if PREDICTIONS.exists() else []
    made = {(row["id"], row["cpus"]): row for row in known}
    for case in cases:
        for cpus in case["cpus"]:
            if wanted and case["id"] not in wanted and f"{case['id']}@{cpus}" not in wanted:
                continue
            made[case["id"], cpus] = predict(case, cpus, machine)
            order = [(c["id"], n) for c in cases for n in c["cpus"]]
            rows = [made[key] for key in order if key in made]
            PREDICTIONS.write_text(json.dumps(rows, indent=1) + "\n")
            print(f"hardware: {case['id']} on {cpus} CPUs", file=sys.stderr)


def scaled_machine(name: str, factor: float) -> str:
    """A description of the machine with all its latencies times that, as a file; the machine's own name for 1."""
    if factor == 1:
        return name
    before, latencies, after = re.split(r"(?ms)^\[latency_cycles\]\n(.*?)(?=^\[|\Z)", (ROOT / f"machines/{name}.toml").read_text())
    longer = re.sub(r"(?m)^(\w+ = )(\d+)$", lambda found: f"{found[1]}{round(int(found[2]) * factor)}", latencies)
    file = OUT / f"{name}-times-{factor}.toml"
    named = before.replace(f'name = "{name}"', f'name = "{file.stem}"')
    file.write_text(f"{named}[latency_cycles]\n{longer}{after}")
    return str(file)


def switched(case: dict, prediction: dict, machine: str, mechanism: tuple) -> dict:
    """What the edit changes with one mechanism switched, of the recording that the prediction is of."""
    what, words, factor = mechanism
    file = str(OUT / f"{case.get('of', case['id'])}-{prediction['cpus']}.data")
    edits = [word for edit in case["edit"] for word in ("-e", edit)]
    at = ("--machine", scaled_machine(machine, factor))
    asked = linemate("whatif", "-i", file, "--type", case["struct"], *at, *words, *edits)
    if asked["checksum"] != prediction["checksum"]:
        sys.exit(f"hardware: {file}: not the recording of predictions.json: record {case['id']} on {prediction['cpus']} CPUs again")
    answer = asked["results"][0]
    measures = {"all": answer["whole"], "duration": answer["duration"], "time": answer["time"]["cycles"]}
    return {
        "mechanism": what,
        "id": case["id"],
        "cpus": prediction["cpus"],
        "checksum": asked["checksum"],
        "type": change(answer["types"]),
        **{key: change(measure) for key, measure in measures.items()},
    }


def ask_mechanisms(wanted: list[str]) -> None:
    """Asks what the table compares, but for second tries, with each mechanism switched, short recordings first. What has an answer is
    asked again only if it is wanted by name."""
    _, machine = read_suite()
    rows = {(each.case["id"], each.row["cpus"]): each for each in first_tries(compared(json.loads(PREDICTIONS.read_text())))}
    known = json.loads(MECHANISMS.read_text()) if MECHANISMS.exists() else []
    made = {(row["id"], row["cpus"], row["mechanism"]): row for row in known if (row["id"], row["cpus"]) in rows}
    for mechanism in SWITCHED:
        for (name, cpus), each in sorted(rows.items(), key=lambda row: row[1].row["accesses"]):
            skipped = not {name, f"{name}@{cpus}", mechanism[0]} & set(wanted) if wanted else (name, cpus, mechanism[0]) in made
            if skipped:
                continue
            made[name, cpus, mechanism[0]] = switched(each.case, each.row, machine, mechanism)
            MECHANISMS.write_text(json.dumps([made[key] for key in sorted(made)], indent=1) + "\n")
            print(f"hardware: {name} on {cpus} CPUs, {mechanism[0]}", file=sys.stderr)


@dataclass
class Compared:
    """A published figure and the prediction that it is compared with."""

    case: dict
    published: dict
    row: dict

    def throughput(self, key: str) -> tuple[float, float]:
        """What the change of a time or of cycles is as a change of work done in that time: per cent, and half its interval."""
        of, half = self.row[key]
        if self.case.get("undone"):
            # The change of the time without the edit against the one with it: of work, the edit's own.
            return of, half
        scale = 1 + of / 100
        return -100 * of / (100 + of), half / scale**2

    def sign(self, key: str) -> str:
        """Whether what is predicted has the sign of what was measured."""
        value, half = self.throughput(key)
        published = self.published["percent"]
        if abs(published) <= NOTHING:
            return "yes" if abs(value) <= NOTHING else "no"
        if abs(value) < NEGLIGIBLE:
            return "no"
        if abs(value) <= half:
            return "open"
        return "yes" if (value > 0) == (published > 0) else "no"

    def magnitude(self, key: str = "time") -> str:
        """Whether the change is of the published one's order."""
        value, published = abs(self.throughput(key)[0]), abs(self.published["percent"])
        if published <= NOTHING:
            return "yes" if value <= NOTHING else "no"
        return "yes" if published / MAGNITUDE <= value <= published * MAGNITUDE else "no"

    def found(self) -> bool | None:
        """Whether the pair is among the first lines, or the type among the first of advice; nothing is to be found in a kernel
        that has the change."""
        if self.case.get("undone"):
            return None
        return any(rank is not None and rank <= FIRST for rank in (self.row["rank_pair"], self.row["rank_advise"]))

    def misses(self) -> int:
        """How many of found, sign and order of magnitude are wrong: most first in the table."""
        return sum([self.found() is False, self.sign("time") != "yes", self.magnitude() != "yes"])


def matched(published: list[dict], rows: list[dict]) -> list[tuple[dict, dict]]:
    """A case's published figures with the recordings of as many CPUs; if there are none, the two that are nearest."""
    if not (published and rows):
        return []
    exact = [(figure, row) for figure in published for row in rows if figure["cpus"] == row["cpus"]]
    pairs = [(figure, row) for row in rows for figure in published]
    return exact or [min(pairs, key=lambda pair: (abs(pair[0]["cpus"] - pair[1]["cpus"]), -pair[1]["cpus"]))]


def compared(rows: list[dict]) -> list[Compared]:
    """The published figures that these predictions are compared with."""
    cases, _ = read_suite()
    published = tomllib.loads((SUITE / "published.toml").read_text())["published"]
    first = {case["id"]: case["id"] for case in cases}
    found = []
    for case in cases:
        if "again" in case:
            first[case["id"]] = first[case["again"]]
        figures = [figure for figure in published if figure["id"] == first[case["id"]]]
        found += [Compared(case, *pair) for pair in matched(figures, [row for row in rows if row["id"] == case["id"]])]
    return found


def ranks(values: list[float]) -> list[float]:
    """Ranks from 1; equal values have the mean of theirs.

    >>> ranks([3.0, 1.0, 3.0])
    [2.5, 1.0, 2.5]
    """
    order = sorted(values)
    return [order.index(value) + (order.count(value) + 1) / 2 for value in values]


def spearman(a: list[float], b: list[float]) -> float:
    """Spearman's rank correlation: Pearson's of the ranks.

    >>> spearman([1, 2, 3, 4], [10, 30, 20, 40])
    0.8
    """
    a, b = ranks(a), ranks(b)
    mean = (len(a) + 1) / 2
    product = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    squares = [sum((x - mean) ** 2 for x in values) for values in (a, b)]
    return product / math.sqrt(squares[0] * squares[1]) if all(squares) else 0.0


def signed(value: float) -> str:
    """A correlation with its sign."""
    return f"{value:+.2f}".replace("-", "−")


def interval(rho: float, n: int) -> str:
    """Its 95 % interval: Fisher's z with the variance of Bonett and Wright, Psychometrika 65 (2000), 23-28.

    >>> interval(0.3, 30)
    '−0.08 to +0.60'
    """
    if n < 5 or abs(rho) >= 1:
        return "too few points for an interval"
    half = 1.96 * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return f"{signed(math.tanh(math.atanh(rho) - half))} to {signed(math.tanh(math.atanh(rho) + half))}"


def shown(value: tuple[float, float] | list[float]) -> str:
    """A figure with its interval."""
    return f"{value[0]:+.1f} ± {value[1]:.1f} %".replace("-", "−")


def place(value: int | None) -> str:
    """A rank, or a dash."""
    return str(value) if value else "–"


def series(found: list[Compared]) -> list[str]:
    """For each case with figures at several numbers of CPUs that were recorded: whether both change alike."""
    lines = []
    for name in sorted({each.case["id"] for each in found}):
        own = [e for e in found if e.case["id"] == name and e.row["cpus"] == e.published["cpus"]]
        if len(own) >= 3:
            published = [each.published["percent"] for each in own]
            for key, what in MEASURES:
                rho = spearman([each.throughput(key)[0] for each in own], published)
                lines.append(f"* shape of {name} over {len(own)} numbers of CPUs, {what}: rho {signed(rho)}")
    return lines


def among_first(found: list[Compared], *keys: str) -> str:
    """In how many cases, of those in kernels without the change, one of the ranks is among the first at every compared
    number of CPUs."""
    cases: dict[str, list[Compared]] = {}
    for each in found:
        if each.found() is not None:
            cases.setdefault(each.case["id"], []).append(each)
    hits = sum(all(any((e.row[key] or math.inf) <= FIRST for key in keys) for e in own) for own in cases.values())
    return f"{hits} of {len(cases)} cases"


def totals(found: list[Compared]) -> list[str]:
    """What the table comes to."""
    n = len(found)
    published = [each.published["percent"] for each in found]
    lines = [
        f"* figures compared: {n}, of {len({each.case['id'] for each in found})} cases",
        *(f"* {what} among the first {FIRST}: {among_first(found, *keys)}" for what, keys in PLACES),
    ]
    for key, what in MEASURES:
        signs = [each.sign(key) for each in found]
        lines.append(f"* sign right by {what}: {signs.count('yes')} of {n}; open: {signs.count('open')}")
    for key, what in MEASURES:
        right = sum(each.magnitude(key) == "yes" for each in found)
        lines.append(f"* order of magnitude right by {what}: {right} of {n}")
    for key, what in MEASURES:
        rho = spearman([each.throughput(key)[0] for each in found], published)
        lines.append(f"* Spearman, predicted by {what} against published: {signed(rho)} ({interval(rho, n)})")
    return lines + series(found)


def first_tries(found: list[Compared]) -> list[Compared]:
    """All but second tries."""
    return [each for each in found if "again" not in each.case]


def with_second_tries(found: list[Compared]) -> list[Compared]:
    """Second tries in the place of the cases that they are of."""
    replaced = {each.case["again"] for each in found if "again" in each.case}
    return [each for each in found if each.case["id"] not in replaced]


def table() -> str:
    """The table, misses first, and its totals."""
    found = sorted(compared(json.loads(PREDICTIONS.read_text())), key=lambda each: -each.misses())
    lines = [
        "| case | struct, change | published | CPUs, machine | recorded CPUs | rank: shared, cost, line, `advise` | type's cycles | all memory cycles | work per duration | work per CPU time | at most | busiest line | sign | order |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        row, published = each.row, each.published
        cells = [
            each.case["id"] + (" (second try)" if "again" in each.case else ""),
            f"`{each.case['struct']}`: {each.case['title']}" + ("; taken back" if each.case.get("undone") else ""),
            f"{published['percent']:+.1f} %".replace("-", "−"),
            f"{published['cpus'] or '?'}, {published['machine']}",
            str(row["cpus"]),
            "" if each.found() is None else ", ".join(place(row[key]) for key in ("rank_shared", "rank_cost", "rank_pair", "rank_advise")),
            shown(row["type"]),
            shown(row["all"]),
            shown(each.throughput("duration")),
            shown(each.throughput("time")),
            f"{row['memory']:.0f} %",
            f"{row['busiest']:.0f} %",
            each.sign("time"),
            each.magnitude(),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    first = first_tries(found)
    lines += ["", "Without second tries:", "", *totals(first)]
    if len(first) < len(found):
        lines += ["", "With second tries in the place of the first ones:", "", *totals(with_second_tries(found))]
    return "\n".join(lines)


def verdicts(found: list[Compared], key: str) -> str:
    """Signs and orders that are right by one measure, and its correlation."""
    signs = [each.sign(key) for each in found]
    orders = sum(each.magnitude(key) == "yes" for each in found)
    rho = spearman([each.throughput(key)[0] for each in found], [each.published["percent"] for each in found])
    return f"{signs.count('yes')}, {orders}, {signed(rho)} ({interval(rho, len(found))})"


def mechanism_table() -> str:
    """What each mechanism does to the totals, beside the predictions of the same recordings without it."""
    predicted = json.loads(PREDICTIONS.read_text())
    rows = json.loads(MECHANISMS.read_text())
    lines = ["| switched alone | figures | measure | as predicted: signs, orders, Spearman | switched |", "|---|---|---|---|---|"]
    for what, _, _ in SWITCHED:
        own = {(row["id"], row["checksum"]): row for row in rows if row["mechanism"] == what}
        with_it = compared(list(own.values()))
        without = compared([row for row in predicted if (row["id"], row["checksum"]) in own])
        for key, measure in MEASURES if own else ():
            cells = [what, str(len(with_it)), measure, verdicts(without, key), verdicts(with_it, key)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def check() -> None:
    """Prints what is wrong: an example in this file, or evidence without today's table."""
    if doctest.testmod(report=False, verbose=False).failed:
        print("scripts/hardware.py:1: error: an example does not give what it says")
    for begin, made, verb in ((BEGIN, table, "table"), (BEGIN_MECHANISMS, mechanism_table, "mechanism-table")):
        if f"{begin}\n\n{made()}\n\n{END}" not in EVIDENCE.read_text():
            print(f"{EVIDENCE.relative_to(ROOT)}:1: error: not the table of `scripts/hardware.py {verb}`")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["predict", *wanted]:
            make_predictions(wanted)
        case ["table"]:
            print(table())
        case ["mechanisms", *wanted]:
            ask_mechanisms(wanted)
        case ["mechanism-table"]:
            print(mechanism_table())
        case ["--check"]:
            check()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
