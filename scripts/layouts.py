#!/usr/bin/env python3
"""Random edits of a kernel's types, against what the compiler makes of the edited source.

    scripts/layouts.py [--seed N] [--edits N] KERNEL SOURCE CONFIG

KERNEL is an image, SOURCE the tree that it was built from, CONFIG its generated headers (`scripts/setup.sh patches` gets all
three). Each edit goes through `linemate patch`, which compiles the tree without and with the patch and compares every member's
place with the planned one. Prints what came of each edit as a line of JSON, and at the end what they come to as Markdown.

From the environment: LINEMATE (target/release/linemate).
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINEMATE = os.environ.get("LINEMATE", str(ROOT / "target/release/linemate"))

# Types that several subsystems share, with every kind of alignment: of members, of the type, none; with conditions, macros and
# anonymous parts.
TYPES = """
task_struct mm_struct vm_area_struct signal_struct sighand_struct cred file inode dentry super_block address_space files_struct
fs_struct pid nsproxy user_struct rq cfs_rq root_domain task_group sched_entity zone pglist_data lruvec mem_cgroup
mem_cgroup_per_node kmem_cache page_pool net_device sock sk_buff tcp_sock net request_queue blk_mq_hw_ctx bio pipe_inode_info
rcu_data perf_event hrtimer_cpu_base
""".split()
# How many comments about cache lines an edit may make stale: each is taken out and tried again.
REWORDINGS = 8

OUTCOMES = {
    "equal": "the compiler's layout is the planned one, in every member, width and size",
    "nothing": "the edit changes nothing",
    "compiler": "refused: the compiler makes another layout of it",
    "refused": "refused before compiling",
    "tree": "not tried: the unpatched tree does not compile to the kernel's layout",
}


def members(kernel: str, name: str) -> list[str]:
    """The members that edits can name: bit-fields and anonymous parts move with others."""
    words = [LINEMATE, "layout", "--kernel", kernel, "--json", name]
    answer = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    found = answer["kernels"][0]["layout"]["members"]
    return [member["name"] for member in found if member["name"] and member["bits"] is None]


def statement(dice: random.Random, names: list[str]) -> str:
    """A random statement."""
    a, b, c = dice.sample(names, 3)
    return dice.choice([
        f"move {a} after {b}",
        f"move {a} before {b}",
        f"move {a} first",
        f"move {a} last",
        f"order {a} {b} {c}",
        f"isolate {a} {b}",
        f"group g after {c} {{ {a} {b} }}",
        f"align {a} {dice.choice(['line', '16', '32', '128'])}",
    ])  # fmt: skip


def patched(arguments: argparse.Namespace, edit: str) -> tuple[int, str]:
    """The exit code of `linemate patch`, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "edit"
        file.write_text(edit)
        words = [LINEMATE, "patch", "--author", "A U Thor <author@example.org>", "--edit", str(file), "--source", arguments.source]
        words += ["--kernel", arguments.kernel, "--config", arguments.config, "-o", str(Path(folder) / "patch")]
        for _ in range(REWORDINGS):
            run = subprocess.run(words, capture_output=True, text=True)
            stale = re.search(r"with --reword '(.*?)=NEW'", run.stderr, re.DOTALL)
            if not stale:
                break
            words += ["--reword", f"{stale[1]}="]
        return run.returncode, run.stderr.strip()


def outcome(code: int, said: str) -> str:
    """Which of OUTCOMES that is."""
    if code == 0:
        return "nothing" if "changes nothing" in said else "equal"
    if "does not have the edit's layout" in said:
        return "compiler"
    return "tree" if "the unpatched tree is not" in said else "refused"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--edits", type=int, default=300)
    for name in ("kernel", "source", "config"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    names = {name: members(arguments.kernel, name) for name in TYPES}
    counts: Counter[str] = Counter()
    settled = 0
    for number in range(arguments.edits):
        name = TYPES[number % len(TYPES)]
        lines = [statement(dice, names[name]) for _ in range(dice.choice([1, 1, 2]))]
        code, said = patched(arguments, "\n".join([f"type {name}", *lines, ""]))
        result = outcome(code, said)
        counts[result] += 1
        settled += result == "equal" and "as the source has it" in said
        print(json.dumps({"type": name, "edit": lines, "outcome": result, "said": said}), flush=True)
    print(f"\nSeed {arguments.seed}, {arguments.edits} edits of {len(TYPES)} types.\n\n| outcome | edits |\n|---|---|")
    for result, what in OUTCOMES.items():
        print(f"| {what} | {counts[result]} |")
    print(f"\nIn {settled} of the equal ones the source settled which member asks for its line.")


if __name__ == "__main__":
    sys.exit(main())
