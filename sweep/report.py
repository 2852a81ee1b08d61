"""Renders the queries over a folder of tables: markdown, and one page with a heat map of kernels and types and the trend of each field.

    report.py LAKE REPORT.md REPORT.html [ROWS]     with ROWS, at most so many rows of each question in the markdown
"""

import html
import re
import sys
from pathlib import Path

import duckdb

QUERIES = Path(__file__).resolve().parent / "queries"
ORDER = ["whole", "published", "regressions", "false_sharing", "readers_writers", "grown_types", "machines", "failures"]

# Rows of the heat map, fields with a trend: the most expensive ones.
TYPES_MAX, FIELDS_MAX = 40, 24


def connect(lake):
    """A connection on which every query of the folder runs."""
    connection = duckdb.connect()
    connection.execute("SET VARIABLE lake = $lake", {"lake": str(lake)})
    connection.execute((QUERIES / "views.sql").read_text())
    return connection


def ask(connection, name):
    """A query's title, explanation, columns and rows."""
    text = (QUERIES / f"{name}.sql").read_text()
    comments = [line.removeprefix("--").strip() for line in text.splitlines() if line.startswith("--")]
    found = connection.execute(text)
    columns = [column[0] for column in found.description]
    rows = found.fetchall()
    # PIVOT orders its columns as text, which has 6.12 before 6.9.
    order = sorted(range(len(columns)), key=lambda at: release(columns[at]))
    return comments[0], " ".join(comments[1:]), [columns[at] for at in order], [tuple(row[at] for at in order) for row in rows]


def release(column):
    """What a column of a release is ordered by; others come before, as they are."""
    return [int(number) for number in column.split(".")] if re.fullmatch(r"\d+(\.\d+)+", column) else []


def shown(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:g}"
    return str(value)


def cell(value):
    """A value between the bars of a table."""
    return " ".join(shown(value).split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def markdown(answers, about, most=None):
    out = ["# A sweep", "", about, ""]
    for title, explanation, columns, rows in answers:
        out += [f"## {title}", ""]
        if explanation:
            out += [explanation, ""]
        if not rows:
            out += ["None.", ""]
            continue
        out += ["| " + " | ".join(cell(c) for c in columns) + " |", "|" + "---|" * len(columns)]
        out += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows[:most]]
        out.append("")
        if most is not None and len(rows) > most:
            out += [f"The first {most} of {len(rows)}.", ""]
    return "\n".join(out)


def table(columns, rows):
    head = "".join(f"<th>{html.escape(c.strip())}</th>" for c in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(shown(v))}</td>" for v in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def heat_map(connection):
    """Types by kernels: a type's share of everything, averaged over workloads, machines and seeds."""
    kernels = [row[0] for row in connection.execute("SELECT kernel FROM kernels ORDER BY position").fetchall()]
    shares = connection.execute("""
        WITH cells AS (SELECT kernel, count(*) AS cells FROM (SELECT DISTINCT kernel, workload, machine FROM comparable) GROUP BY ALL)
        SELECT name, kernel, sum(100 * mean / whole) / any_value(cells) FROM comparable JOIN cells USING (kernel) WHERE subject = 'type' GROUP BY ALL
    """).fetchall()
    by_type = {}
    for name, kernel, share in shares:
        by_type.setdefault(name, {})[kernel] = share
    order = sorted(by_type, key=lambda name: (-max(by_type[name].values()), name))[:TYPES_MAX]
    if not order:
        return "<p>There is no workload and machine with figures of every kernel.</p>"
    top = max(max(by_type[name].values()) for name in order)
    rows = []
    for name in order:
        cells = []
        for kernel in kernels:
            share = by_type[name].get(kernel)
            if share is None:
                cells.append("<td></td>")
                continue
            # The square root spreads small shares; the figure is there as text, too.
            strength = (share / top) ** 0.5
            cells.append(f'<td style="background:rgb(200 60 20/{strength:.2f})">{share:.2f}</td>')
        rows.append(f"<tr><th>{html.escape(name)}</th>{''.join(cells)}</tr>")
    head = "".join(f"<th>{html.escape(kernel)}</th>" for kernel in kernels)
    return f'<table class="heat"><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def trends(connection):
    """The share of each of the most expensive fields from kernel to kernel, a line for each machine."""
    points = connection.execute("""
        WITH cells AS (SELECT kernel, machine, count(*) AS cells FROM (SELECT DISTINCT kernel, workload, machine FROM comparable) GROUP BY ALL)
        SELECT name, machine, position, sum(100 * mean / whole) / any_value(cells) AS share
        FROM comparable JOIN cells USING (kernel, machine) JOIN kernels USING (kernel) WHERE subject = 'field' GROUP BY ALL ORDER BY ALL
    """).fetchall()
    last = connection.execute("SELECT max(position) FROM kernels").fetchone()[0] or 1
    machines = sorted({machine for _, machine, _, _ in points})
    colours = ["#c83c14", "#1464c8", "#148c3c", "#8c14a0", "#806000", "#404040"]
    by_field = {}
    for name, machine, position, share in points:
        by_field.setdefault(name, {}).setdefault(machine, {})[position] = share
    most = {name: max(max(line.values()) for line in lines.values()) for name, lines in by_field.items()}
    pictures = []
    for name in sorted(by_field, key=lambda name: (-most[name], name))[:FIELDS_MAX]:
        lines = []
        for number, machine in enumerate(machines):
            # A field that a kernel does not access costs nothing there.
            shares = by_field[name].get(machine, {})
            line = [(position, shares.get(position, 0)) for position in range(1, last + 1)]
            dots = " ".join(f"{10 + 180 * (p - 1) / max(last - 1, 1):.1f},{70 - 60 * s / most[name]:.1f}" for p, s in line)
            lines.append(f'<polyline points="{dots}" fill="none" stroke="{colours[number % len(colours)]}" stroke-width="2"/>')
        pictures.append(f'<figure><svg viewBox="0 0 200 80" width="200" height="80">{"".join(lines)}</svg>'
                        f"<figcaption>{html.escape(name)}<br>at most {most[name]:.2f} %</figcaption></figure>")
    legend = ", ".join(f'<span style="color:{colours[n % len(colours)]}">{html.escape(m)}</span>' for n, m in enumerate(machines))
    return f"<p>{legend}</p><div class=\"trends\">{''.join(pictures)}</div>"


STYLE = """body{font:14px/1.4 system-ui,sans-serif;margin:2em;max-width:110em}table{border-collapse:collapse;margin:1em 0}
td,th{padding:.15em .5em;text-align:left;border-bottom:1px solid #ddd}.heat td{text-align:right}
.trends{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0;width:200px}figcaption{font-size:12px;overflow-wrap:anywhere}"""


def page(connection, answers, about):
    parts = [f"<h1>A sweep</h1><p>{html.escape(about)}</p>",
             "<h2>Types by kernels</h2><p>Share of all cycles of accesses that left their core, in per cent; mean over seeds, and over the workloads and machines that "
             "every kernel has figures of.</p>",
             heat_map(connection),
             "<h2>Fields over kernels</h2><p>The same share of the most expensive fields, from the oldest kernel to the newest.</p>", trends(connection)]
    for title, explanation, columns, rows in answers:
        parts.append(f"<h2>{html.escape(title)}</h2><p>{html.escape(explanation)}</p>{table(columns, rows) if rows else '<p>None.</p>'}")
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>A sweep</title><style>{STYLE}</style>{"".join(parts)}</html>\n'


def main(lake, markdown_path, page_path, most=None):
    connection = connect(lake)
    of = connection.execute("""
        SELECT count(*) FILTER (about = 'recording'), count(*) FILTER (about = 'replay'), count(*) FILTER (about = 'failure'),
               count(DISTINCT kernel) FILTER (about <> 'failure'), count(DISTINCT workload), sum(accesses) FILTER (about = 'recording'), string_agg(DISTINCT tool, ', ') FROM runs""").fetchone()
    about = f"{of[0]} recordings with {of[5] or 0:,} accesses, {of[1]} replays, {of[2]} failed; {of[3]} kernels, {of[4]} workloads; linemate {of[6]}."
    answers = [ask(connection, name) for name in ORDER]
    Path(markdown_path).write_text(markdown(answers, about, most and int(most)))
    Path(page_path).write_text(page(connection, answers, about))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
