#!/usr/bin/env python3
"""On which cache lines the members are that the findings on Linux 7.3 are about, by configuration.

    scripts/configs.py [CONFIG…]     without configurations: all of them; an hour on two busy cores

Compiles one file of 7.3 for each type under each configuration, without and with the patches of cases/next that remain, and
prints pahole's offsets as Markdown tables. Only headers are prepared; no kernel is linked. What is compiled is kept, so a
second call is short. A configuration whose compiler is missing, or that does not compile, is said so and left out.

From the environment: CONFIGS_OUT (target/configs), LINEMATE_CACHE.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEXT = ROOT / "cases/next"
OUT = Path(os.environ.get("CONFIGS_OUT", ROOT / "target/configs"))


@dataclass(frozen=True)
class Finding:
    """A patch of cases/next, and where to look at what it does."""

    case: str
    patch: str
    type: str
    # What has the type in its debug information, whatever the configuration.
    object: str
    # Those that the patch moves, or stores to less often.
    members: tuple[str, ...]
    # Those that they are to be apart from.
    apart_from: tuple[str, ...]


@dataclass(frozen=True)
class Config:
    """A configuration: what make and scripts/config are called with."""

    name: str
    arch: str = "x86_64"
    base: str = "defconfig"
    # Bytes of a cache line, as the kernel of the architecture assumes.
    line: int = 64
    compiler: str = ""
    options: tuple[str, ...] = field(default=())
    # A file of options to start from instead of `base`.
    fragments: tuple[str, ...] = field(default=())


# What both sides of every table need to have all members.
ALL = ("-e", "CGROUPS", "-e", "MEMCG", "-e", "CGROUP_PIDS", "-e", "LRU_GEN", "-e", "IP_MULTIPLE_TABLES", "-e", "NET_SCHED",
       "-e", "NET_CLS", "-e", "NET_CLS_ROUTE4", "-e", "IP_ADVANCED_ROUTER", "-e", "INET")

FINDINGS = (
    Finding("vm-area-halves", "0001-halves.patch", "vm_area_struct", "mm/vma_init.o",
            ("__vm_anon_pgoff_lo", "__vm_anon_pgoff_hi", "numab_state"), ("vm_refcnt", "vm_lock_seq")),
    Finding("super-block", "0001-apart.patch", "super_block", "fs/super.o", ("s_remove_count",),
            ("s_readonly_remount", "s_wb_err", "s_user_ns")),
    Finding("css-set", "0001-apart.patch", "css_set", "kernel/cgroup/namespace.o", ("refcount", "nr_tasks", "tasks"),
            ("dfl_cgrp",)),
    Finding("tcp-sock", "0001-write-rx.patch", "tcp_sock", "net/ipv4/tcp_recovery.o", ("snd_wl1", "rtt_min"),
            ("mss_cache", "tcp_header_len")),
    Finding("dst-entry", "0001-tclassid.patch", "dst_entry", "net/core/dst.o", ("tclassid",), ("__rcuref",)),
    Finding("mm", "0001-test.patch", "mm_struct", "mm/init-mm.o", ("bitmap",), ("mm_count",)),
)

CONFIGS = (
    Config("of the cases", base="tinyconfig", fragments=(
        "cases/kernel.config", "cases/next/subsystems.config", "cases/next/memory.config", "cases/next/network.config")),
    Config("defconfig", options=ALL),
    Config("allmodconfig", base="allmodconfig"),
    Config("PREEMPT_RT", options=(*ALL, "-e", "EXPERT", "-e", "PREEMPT_RT")),
    Config("NUMA off", options=(*ALL, "-d", "NUMA")),
    Config("LOCKDEP", options=(*ALL, "-e", "PROVE_LOCKING", "-e", "DEBUG_KERNEL")),
    Config("RANDSTRUCT", options=(*ALL, "-e", "GCC_PLUGINS", "-d", "RANDSTRUCT_NONE", "-e", "RANDSTRUCT_FULL")),
    Config("32 bit", arch="i386", base="i386_defconfig", options=ALL),
    Config("arm64", arch="arm64", compiler="aarch64-linux-gnu-", options=ALL),
    Config("s390", arch="s390", compiler="s390x-linux-gnu-", line=256, options=ALL),
)


class Failed(Exception):
    """A configuration that cannot be looked at, and why."""


def run(*words: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        error = next((line for line in said if "rror" in line), said[-1] if said else "no output")
        raise Failed(f"{Path(str(words[0])).name}: {error}")
    return done.stdout


def source() -> Path:
    cache = os.environ.get("LINEMATE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "linemate")
    tree = Path(cache) / "sources/linux-source-7.3"
    if not tree.is_dir():
        sys.exit(f"configs: error: {tree} is missing: run `scripts/setup.sh cases`")
    return tree


def linked(tree: Path, out: Path) -> Path:
    """A folder of links to the sources, to patch files in."""
    if not out.is_dir():
        out.parent.mkdir(parents=True, exist_ok=True)
        run("cp", "-rs", tree, out.with_suffix(".partial"))
        out.with_suffix(".partial").rename(out)
    return out


def bring(tree: Path, copy: Path, patches: list[Path]) -> None:
    """What the patches touch is that of the sources, with the patches if there are any."""
    touched = set()
    for finding in FINDINGS:
        text = (NEXT / finding.case / "patches" / finding.patch).read_text()
        touched.update(re.findall(r"^\+\+\+ b/(\S+)", text, re.M))
    stage = OUT / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    for file in touched:
        (stage / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree / file, stage / file)
    for patch in patches:
        run("patch", "-p1", "--batch", "--forward", "--fuzz=0", "-d", stage, "-i", patch)
    for file in touched:
        # An unchanged file keeps its time, so that make compiles nothing again.
        if (copy / file).is_symlink() or (copy / file).read_bytes() != (stage / file).read_bytes():
            (copy / file).unlink()
            shutil.copyfile(stage / file, copy / file)


def make(config: Config, copy: Path, *goals: str) -> None:
    words = ["make", "-s", "-C", copy, f"O={build(config, copy).name}", f"ARCH={config.arch}", "KCFLAGS=-gdwarf-4", "WERROR=0"]
    if config.compiler:
        words.append(f"CROSS_COMPILE={config.compiler}")
    run(*words, *goals)


def build(config: Config, copy: Path) -> Path:
    return copy / ("build-" + config.name.replace(" ", "-"))


def configure(config: Config, copy: Path) -> None:
    folder = build(config, copy)
    if (folder / "configured").exists():
        return
    if not shutil.which(config.compiler + "gcc"):
        raise Failed(f"{config.compiler}gcc is not installed")
    folder.mkdir(exist_ok=True)
    make(config, copy, config.base)
    if config.fragments:
        run("scripts/kconfig/merge_config.sh", "-m", "-O", folder, folder / ".config",
            *(ROOT / fragment for fragment in config.fragments), cwd=copy)
    if config.options:
        run("scripts/config", "--file", folder / ".config", *config.options, cwd=copy)
    make(config, copy, "olddefconfig")
    make(config, copy, "prepare")
    (folder / "configured").touch()


@dataclass(frozen=True)
class Places:
    """A type as pahole prints it."""

    text: str

    @property
    def size(self) -> int | None:
        found = re.search(r"/\* size: (\d+)", self.text)
        return int(found[1]) if found else None

    def line(self, member: str, bytes: int) -> int | None:
        """The line of a member, of `bytes`."""
        found = re.search(rf"[ *}}]{member}(?:\[\w*\])?; *(?:/\* +(\d+) |[^\n]*?/\* +(\d+) )", self.text)
        return int(found[1] or found[2]) // bytes if found else None


def look(config: Config, copy: Path) -> dict[str, Places]:
    places = {}
    for finding in FINDINGS:
        try:
            make(config, copy, finding.object)
            text = run("pahole", "-C", finding.type, build(config, copy) / finding.object)
        except Failed as failed:
            print(f"configs: {config.name}: {finding.object}: {failed}", file=sys.stderr)
            text = ""
        places[finding.case] = Places(text)
    return places


def change(before: int | None, after: int | None) -> str:
    if before is None and after is None:
        return "–"
    return str(before) if before == after else f"{before} → {after}"


def table(finding: Finding, rows: list[tuple[Config, Places, Places]]) -> str:
    members = finding.members + finding.apart_from
    lines = [f"**`{finding.type}`** ([{finding.case}](../cases/next/{finding.case}/README.md))", "",
             "| configuration | line | " + " | ".join(f"`{member}`" for member in members) + " | size |",
             "|" + "---|" * (len(members) + 3)]
    for config, before, after in rows:
        cells = [change(before.line(m, config.line), after.line(m, config.line)) for m in members]
        cells.append(change(before.size, after.size))
        lines.append(f"| {config.name} | {config.line} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    names = sys.argv[1:]
    unknown = set(names) - {config.name for config in CONFIGS}
    if unknown:
        sys.exit(f"configs: error: there is no configuration {unknown.pop()}: " + ", ".join(c.name for c in CONFIGS))
    tree = source()
    copy = linked(tree, OUT / "tree")
    patches = [NEXT / finding.case / "patches" / finding.patch for finding in FINDINGS]
    rows: dict[str, list[tuple[Config, Places, Places]]] = {finding.case: [] for finding in FINDINGS}
    for config in CONFIGS:
        if names and config.name not in names:
            continue
        try:
            bring(tree, copy, [])
            configure(config, copy)
            before = look(config, copy)
            bring(tree, copy, patches)
            after = look(config, copy)
        except Failed as failed:
            print(f"configs: {config.name} is left out: {failed}", file=sys.stderr)
            continue
        for finding in FINDINGS:
            if before[finding.case].size is not None:
                rows[finding.case].append((config, before[finding.case], after[finding.case]))
    print("\n\n".join(table(finding, rows[finding.case]) for finding in FINDINGS))


if __name__ == "__main__":
    main()
