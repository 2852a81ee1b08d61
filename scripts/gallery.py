#!/usr/bin/env python3
"""The pages of the site's gallery: the five works and the findings, recorded, with their edits tried.

    scripts/gallery.py pages FOLDER       FOLDER/NAME.html and NAME.data; a recording of before that would be the same is used
    scripts/gallery.py pictures FOLDER    the pictures of docs/guide, of two of these pages, by Chromium (CHROMIUM)

From the environment: LINEMATE (target/release/linemate).
"""

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
LINEMATE = str(Path(os.environ.get("LINEMATE", TOP / "target/release/linemate")).resolve())
# What Debian has of the series that the findings are of.
NEXT = "debian:7.3"


@dataclass(frozen=True)
class Shown:
    """A case of cases/, and the edit of its that the page tries."""

    case: str
    edit: str

    @property
    def name(self) -> str:
        return self.case.replace("next/", "")

    @property
    def folder(self) -> Path:
        return TOP / "cases" / self.case

    def described(self) -> dict:
        return tomllib.loads((self.folder / "case.toml").read_text(encoding="utf-8"))


WORKS = (
    Shown("rq", "published"),
    Shown("root-domain", "published"),
    Shown("nohz", "own-line"),
    Shown("cfs-tg-state", "one-object"),
    Shown("tg-load-avg", "separate"),
)
# Those of evidence/findings.md that stand, then its candidates.
FINDINGS = (
    Shown("next/vm-area-halves", "halves"),
    Shown("next/mm", "test"),
    Shown("next/super-block", "apart"),
    Shown("next/css-set", "apart"),
    Shown("next/tcp-sock", "write-rx"),
    Shown("next/dst-entry", "tclassid"),
)


def found(name: str) -> str:
    """A program or script of the workloads; else as it is, for the machine's own."""
    places = (TOP / "target/workloads" / name, TOP / "workloads" / name)
    return next((str(place.relative_to(TOP)) for place in places if place.is_file()), name)


def kernel(case: dict) -> str:
    """The image that Debian ships: where a case is of a kernel that it builds, its series' own."""
    series = case["kernel"].get("series", NEXT)
    return run("scripts/kernel-image.sh", series, capture=True)


def run(*words: str, capture: bool = False, folder: Path = TOP) -> str:
    done = subprocess.run(words, cwd=folder, check=True, text=True, stdout=subprocess.PIPE if capture else None)
    return done.stdout.strip() if capture else ""


def arguments(case: dict) -> list[str]:
    """The arguments of `record`."""
    guest, workload = case["guest"], case["workload"]
    words = ["--kernel", kernel(case), "--smp", str(guest["cpus"])]
    words += ["--append", guest["append"]] if "append" in guest else []
    words += ["--setup", found(workload["setup"])] if "setup" in workload else []
    for file in workload.get("files", []):
        host, _, inside = file.partition(":")
        words += ["--file", f"{found(host)}:{inside}" if inside else found(host)]
    program, *rest = workload["command"]
    return [*words, "--", found(program), *rest]


def recording(shown: Shown, folder: Path) -> Path:
    data, kept = folder / f"{shown.name}.data", folder / f"{shown.name}.key"
    words = arguments(shown.described())
    key = run(LINEMATE, "record", "--key", *words, capture=True)
    if not (data.exists() and kept.exists() and kept.read_text() == key):
        kept.unlink(missing_ok=True)
        print(f"gallery: recording {shown.name}", flush=True)
        run(LINEMATE, "record", "-o", str(data), *words)
        kept.write_text(key)
    return data


def page(shown: Shown, folder: Path) -> None:
    case = shown.described()
    edit = next(edit for edit in case["edit"] if edit["name"] == shown.edit)
    # In its folder, so that the title has no more than the recording's name.
    words = ["-i", recording(shown, folder).name, "--machine", case["machines"][0]]
    edits = str(shown.folder / edit["file"])
    run(LINEMATE, "whatif", *words, "--edit", edits, "--html", f"{shown.name}.html", capture=True, folder=folder)
    if shown == WORKS[0]:
        of = ["--type", case["types"][0]]
        run(LINEMATE, "report", *words, *of, "--html", f"{shown.name}-report.html", capture=True, folder=folder)


def picture(html: Path, size: str, image: Path) -> None:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        raise SystemExit("gallery: error: chromium is not there: install chromium")
    # As root, Chromium has no sandbox of its own.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    shot = [f"--screenshot={image}", f"--window-size={size}", "--hide-scrollbars", html.resolve().as_uri()]
    subprocess.run([chromium, "--headless", "--disable-gpu", *sandbox, *shot], check=True, capture_output=True)


def main() -> None:
    match sys.argv[1:]:
        case ["pages", folder]:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for shown in (*WORKS, *FINDINGS):
                page(shown, Path(folder))
        case ["pictures", folder]:
            picture(Path(folder, "rq-report.html"), "1240,640", TOP / "docs/guide/page-struct.png")
            picture(Path(folder, "rq.html"), "1500,640", TOP / "docs/guide/page-whatif.png")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
