"""The measures of this project's inside, as a markdown table: `python3 -m house` in scripts/, from anywhere in a checkout.

--offenders lists what the table counts: long functions, names of several types, files with bare integers. --write puts them into docs/internals/house.md; --current says whether they are what is there. With --check it prints what is
beyond a bound that may not get worse, `file: error: what`, and ends with 1 if there is any.
"""

import argparse
import os
import re
import statistics
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from . import document, imports, rust

# HOUSE_ROOT names another tree to measure: the test of the rules makes one.
ROOT = Path(os.environ.get("HOUSE_ROOT") or Path(__file__).parents[2]).resolve()
HOUSE = ROOT / "docs/internals/house.md"
# Counted where the measure is about one crate's values: offsets, objects and instructions that are bare integers. `study` was one crate with
# what it is made of now.
BARE = {
    "study": ("study", "experiment", "session", "growth"),
    "advise": ("advise",),
    "attribution": ("attribution",),
    "replay": ("replay",),
}
# A cycle of three files can be read at once; a larger one cannot.
CYCLE_MAX = 3
TUPLES_MAX = 10
LINES_MAX = 70
COLUMNS_MAX = 100


@dataclass
class Tree:
    """All of the tree's Rust, counted."""

    lines: int = 0
    test_lines: int = 0
    comment_lines: int = 0
    doc_blocks: int = 0
    short_doc_blocks: int = 0


def percent(part: float, whole: float) -> str:
    """A share with two decimals."""
    return f"{100 * part / whole:.2f} %" if whole else "0 %"


def read(path: Path) -> str:
    """A file's text."""
    return path.read_text(encoding="utf-8")


def is_test(path: Path) -> bool:
    """Is all of the file for tests, benchmarks or examples?"""
    parts = path.relative_to(ROOT).parts
    return "src" not in parts or "tests" in parts or path.stem == "tests"


def count(files: list[Path]) -> tuple[Tree, list[rust.Function], Counter[str], dict[str, int]]:
    """Lines, functions, declared types and bare integers of the files."""
    tree, functions, types, bare = Tree(), [], Counter(), Counter()
    for path in files:
        text = read(path)
        tree.lines += text.count("\n")
        if is_test(path):
            tree.test_lines += text.count("\n")
            continue
        source, tests = rust.split_tests(text)
        tree.test_lines += tests
        said = rust.comments(source)
        tree.comment_lines += said.lines
        tree.doc_blocks += said.doc_blocks
        tree.short_doc_blocks += said.short_doc_blocks
        code = rust.blanked(source)
        functions += rust.functions(code)
        types.update(rust.types(code))
        bare[path.relative_to(ROOT).parts[1]] += len(re.findall(r"\bu64\b", code))
    return tree, functions, types, bare


def crates() -> list[Path]:
    """The crates' folders."""
    return sorted(path.parent for path in ROOT.glob("crates/*/Cargo.toml"))


def cycles() -> list[tuple[Path, list[imports.Module]]]:
    """Every cycle of files, with its crate, largest first."""
    found = [(folder, group) for folder in crates() for group in imports.cycles(imports.Crate(folder).arrows())]
    return sorted(found, key=lambda entry: len(entry[1]), reverse=True)


def upward() -> list[str]:
    """Crates that a crate uses and that use it, straight or through others: cargo refuses them, but for tests' and builds' own."""
    uses = {}
    for folder in crates():
        manifest = read(folder / "Cargo.toml")
        plain = manifest.split("[dev-dependencies]")[0]
        uses[folder.name] = set(re.findall(r"^linemate-(\w+)", plain, re.MULTILINE))
    arrows = {(name,): {(used,) for used in used_by if used in uses} for name, used_by in uses.items()}
    return ["/".join(module[0] for module in group) for group in imports.cycles(arrows)]


def tuples(functions: list[rust.Function]) -> list[str]:
    """The functions that take tuples apart in their lists."""
    return [f.name for f in functions for parameter in rust.parameters(f.parameters) if rust.takes_tuple(parameter)]


def documents(*patterns: str) -> list[Path]:
    """Markdown files below the root."""
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def measures() -> document.Rows:
    """What is measured, and how much it is."""
    tree, functions, types, bare = count(sorted(ROOT.glob("crates/**/*.rs")))
    code = tree.lines - tree.test_lines
    lengths = sorted(f.lines for f in functions)
    longest = max(functions, key=lambda f: f.lines)
    often = [name for name, times in types.items() if times >= 3 and name != "Args"]
    knots = cycles()
    largest = f"{len(knots[0][1])} ({knots[0][0].name})" if knots else "0"
    return [
        ("lines of Rust", f"{tree.lines:,}"),
        ("tests by code", f"{tree.test_lines / code:.2f}"),
        ("functions: median, 95th percentile, over 70 lines",
         f"{statistics.median(lengths):g}, {lengths[len(lengths) * 95 // 100]}, "
         f"{percent(sum(n > LINES_MAX for n in lengths), len(lengths))} (longest: `{longest.name}`, {longest.lines})"),
        ("names of types that are declared three times or more", f"{len(often)} of {len(types)}"),
        ("tuple parameters", str(len(tuples(functions)))),
        ("doc blocks of three words or fewer", percent(tree.short_doc_blocks, tree.doc_blocks)),
        ("`//` lines, of lines of code", percent(tree.comment_lines, code)),
        ("bare `u64` in " + ", ".join(BARE), ", ".join(str(sum(bare[crate] for crate in parts)) for parts in BARE.values())),
        ("largest cycle of files in a crate", largest),
        ("cycles of more than three files", str(sum(len(group) > CYCLE_MAX for _, group in knots))),
        ("cycles of crates", str(len(upward()))),
        ("words in README.md and docs/guide", f"{document.words(documents('README.md', 'docs/guide/*.md')):,}"),
        ("words in docs/model and docs/reference, without what is made: json/, columns.md",
         f"{document.words([path for path in documents('docs/model/*.md', 'docs/reference/*.md') if path.name != 'columns.md']):,}"),
        ("lines of prose over 100 columns in docs/ and evidence/",
         str(document.wide_lines(documents("docs/**/*.md", "evidence/*.md"), COLUMNS_MAX))),
    ]


def check() -> int:
    """Prints what is beyond a bound; how many there are."""
    errors = []
    for folder, group in cycles():
        if len(group) > CYCLE_MAX:
            names = ", ".join("/".join(module) or "lib" for module in group)
            errors.append(f"crates/{folder.name}: error: {len(group)} files import each other, {CYCLE_MAX} are the most: {names}")
    errors += [f"crates: error: these crates use each other: {group}" for group in upward()]
    _, functions, _, _ = count(sorted(ROOT.glob("crates/**/*.rs")))
    taken = tuples(functions)
    if len(taken) > TUPLES_MAX:
        errors.append(f"crates: error: {len(taken)} parameters are tuples taken apart, {TUPLES_MAX} are the most: {', '.join(taken)}")
    print("\n".join(errors), end="\n" if errors else "")
    return len(errors)


def offenders() -> None:
    """Prints what is behind the rows of functions, names of types and bare integers."""
    declared: dict[str, list[str]] = {}
    for path in sorted(ROOT.glob("crates/**/*.rs")):
        if is_test(path):
            continue
        code = rust.blanked(rust.split_tests(read(path))[0])
        place = path.relative_to(ROOT)
        for function in rust.functions(code):
            if function.lines > LINES_MAX:
                print(f"{place}: {function.name} has {function.lines} lines")
        for name in rust.types(code):
            declared.setdefault(name, []).append(str(place))
        bare = len(re.findall(r"\bu64\b", code))
        if bare and any(place.parts[1] in parts for parts in BARE.values()):
            print(f"{place}: {bare} bare u64")
    for name, places in sorted(declared.items()):
        if len(places) >= 3 and name != "Args":
            print(f"{name}: {', '.join(places)}")


def write() -> None:
    """Puts the measures into their document."""
    HOUSE.write_text(document.filled(read(HOUSE), measures()), encoding="utf-8")


def is_current() -> bool:
    """Are the measures what their document has? Prints each row that is not."""
    old, new = read(HOUSE), document.filled(read(HOUSE), measures())
    for number, (before, now) in enumerate(zip(old.split("\n"), new.split("\n")), 1):
        if before != now:
            print(f"{HOUSE.relative_to(ROOT)}:{number}: error: the tree gives {now}")
    return old == new


def main() -> int:
    parser = argparse.ArgumentParser(prog="house", description=__doc__.splitlines()[0])
    options = parser.add_mutually_exclusive_group()
    options.add_argument("--check", action="store_true", help="only what is beyond a bound; exit code 1 if there is any")
    options.add_argument("--offenders", action="store_true", help="what the table counts, one a line")
    options.add_argument("--write", action="store_true", help="into docs/internals/house.md")
    options.add_argument("--current", action="store_true", help="only what docs/internals/house.md has otherwise; exit code 1 if there is any")
    arguments = parser.parse_args()
    if arguments.check:
        return 1 if check() else 0
    if arguments.current:
        return 0 if is_current() else 1
    if arguments.offenders:
        offenders()
        return 0
    if arguments.write:
        write()
        return 0
    print("| figure | now |\n|---|---|")
    for name, value in measures():
        print(f"| {name} | {value} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
