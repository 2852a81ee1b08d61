#!/usr/bin/env python3
"""The sources of the site: the project's documents, in the folders that they have here, and a gallery.

    scripts/site.py stage FOLDER [PAGE.html…]    writes what Sphinx makes the site of
    scripts/site.py check SITE                 no page asks the network, and links lead somewhere; 95 in 100 have at most 3 MB
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import gallery

TOP = Path(__file__).parents[1]
# Bytes of a page with its pictures, styles and scripts.
LIMIT = 3_000_000
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
FRONT = Path("README.md")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/*.md", "evidence/*.md", "cases/*.md", "python/README.md", "workloads/*.md")
# The menu: a title, and the documents of docs/README.md that are in this folder, in its order.
CHAPTERS = {"Guide": "docs/guide", "Findings": "docs/findings", "Model": "docs/model", "Reference": "docs/reference", "Internals": "docs/internals"}
# Sphinx's settings; anchors are as GitHub makes them, which the documents' links expect.
SETTINGS = """\
project = "linemate"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "linemate"
html_copy_source = False
html_show_copyright = False
html_extra_path = ["extra"]
highlight_language = "text"
# Results of cases are linked, and in no menu.
suppress_warnings = ["toc.not_included"]
"""


def tracked() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *DOCUMENTS]
    listed = subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True)
    return [Path(name) for name in listed.stdout.splitlines()]


class Stage:
    """What Sphinx reads: the documents, and the files that they link to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.documents = set(tracked())

    def target(self, path: Path, target: str) -> str | None:
        """Where a document's link leads on the site; none for a folder of sources. Sphinx names broken links."""
        leads_to = (TOP / path.parent / target).resolve().relative_to(TOP)
        if leads_to in self.documents:
            return re.sub("README.md$", "index.md", target) if leads_to == FRONT else target
        if leads_to / "README.md" in self.documents:
            return f"{target.rstrip('/')}/README.md"
        if (TOP / leads_to).is_dir():
            return None
        if not (TOP / leads_to).is_file():
            return target
        copy = self.folder / leads_to
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TOP / leads_to, copy)
        return target

    def text(self, path: Path) -> str:
        def one(link: re.Match[str]) -> str:
            target = self.target(path, link[2])
            return link[1] if target is None else f"[{link[1]}]({target}{link[3] or ''})"

        return LINK.sub(one, (TOP / path).read_text(encoding="utf-8"))

    def write(self) -> None:
        for path in sorted(self.documents):
            name = Path("index.md") if path == FRONT else path
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            text = self.text(path) + (menu(self.documents) if path == FRONT else "")
            (self.folder / name).write_text(text, encoding="utf-8")


def entry(page: Path, folder: Path) -> str:
    """A page with its title and headline, which are in its JSON."""
    data = re.search(r'<script type="application/json" id="data">(.*)</script>', page.read_text(encoding="utf-8"))
    if data is None:
        raise SystemExit(f"site: error: {page} is no page of linemate")
    answer = json.loads(data[1])
    shutil.copyfile(page, folder / "extra" / page.name)
    # In HTML, where names of members are no markup.
    return f"<p><a href=\"{page.name}\">{escape(answer['title'])}</a><br>{escape(answer['headline'])}</p>\n"


def shown(cases: tuple[gallery.Shown, ...], pages: dict[str, Path], folder: Path) -> Iterator[str]:
    """What is known of each case, and its page."""
    for case in cases:
        described = case.described()
        title = next(edit["title"] for edit in described["edit"] if edit["name"] == case.edit)
        about = next(name for name in ("README.md", "results.md") if (case.folder / name).is_file())
        yield f"**[{case.name}](cases/{case.case}/{about})**: {described['summary']}. Tried: {title}.\n"
        page = pages.pop(case.name, None)
        yield entry(page, folder) if page else "No page: `make site` makes it.\n"


def gallery_text(folder: Path, pages: list[Path]) -> str:
    left = {page.stem: page for page in pages}
    lines = ["# Gallery\n", "Pages that `--html` has written; [page](docs/guide/page.md) says what they show.\n"]
    lines += ["## Five published works\n", *shown(gallery.WORKS, left, folder)]
    lines += ["## Findings on Linux 7.3, and two candidates\n", *shown(gallery.FINDINGS, left, folder)]
    lines += ["## Reports\n", *(entry(page, folder) for page in left.values())]
    return "\n".join(lines)


def menu(documents: set[Path]) -> str:
    index = (TOP / "docs/README.md").read_text(encoding="utf-8")
    listed = [str(Path("docs", link[2])) for link in LINK.finditer(index)]
    chapters = {"Start": ["docs/README.md", "gallery.md", "CHANGELOG.md", "ARCHITECTURE.md"]}
    for title, folder in CHAPTERS.items():
        chapters[title] = [path for path in dict.fromkeys(listed) if Path(path) in documents and path.startswith(folder)]
    chapters["Evidence"] = [str(path) for path in sorted(documents) if path.parts[0] == "evidence"]
    return "".join(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(paths) + "\n```\n" for title, paths in chapters.items())


def stage(folder: Path, pages: list[Path]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "extra").mkdir(parents=True)
    site = Stage(folder)
    site.write()
    (folder / "gallery.md").write_text(gallery_text(folder, pages), encoding="utf-8")
    (folder / "conf.py").write_text(SETTINGS, encoding="utf-8")


class Used(HTMLParser):
    """What a page loads, and where it leads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        loads = values.get("src") if tag in ("script", "img", "iframe", "source") else None
        if tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            loads = values.get("href")
        if loads and not loads.startswith("data:"):
            self.found.append(loads)
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))


def used_by(page: Path) -> Used:
    parser = Used()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def is_elsewhere(url: str) -> bool:
    return re.match(r"([a-z]+:)?//|[a-z]+:", url) is not None


def faults(site: Path) -> Iterator[str]:
    for page in sorted(site.rglob("*.html")):
        used = used_by(page)
        yield from (f"{page} loads {url}" for url in used.found if is_elsewhere(url))
        for url in used.links:
            if not is_elsewhere(url) and not (page.parent / unquote(url.split("#")[0])).exists():
                yield f"{page} leads to {url}, which is not there"
    for style in sorted(site.rglob("*.css")):
        text = style.read_text(encoding="utf-8")
        yield from (f"{style} loads {url}" for url in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"' ]+)", text))


def size(page: Path) -> int:
    """With all that it loads."""
    parts = {(page.parent / url.split("?")[0]).resolve() for url in used_by(page).found}
    return page.stat().st_size + sum(part.stat().st_size for part in parts if part.is_file())


def check(site: Path) -> None:
    found = list(faults(site))
    if found:
        raise SystemExit("\n".join(f"site: error: {fault}" for fault in found))
    sizes = sorted(size(page) for page in site.rglob("*.html"))
    if not sizes:
        raise SystemExit(f"site: error: {site} has no pages")
    largest = sizes[(len(sizes) * 95 + 99) // 100 - 1]
    if largest > LIMIT:
        raise SystemExit(f"site: error: 5 in 100 pages have {largest} bytes or more, {LIMIT} are the most")
    print(f"site: {len(sizes)} pages, 95 in 100 with at most {largest / 1e6:.2f} MB, none asks the network, no link is broken")


if __name__ == "__main__":
    if sys.argv[1:2] == ["stage"] and len(sys.argv) > 2:
        stage(Path(sys.argv[2]).resolve(), [Path(name).resolve() for name in sys.argv[3:]])
    elif sys.argv[1:2] == ["check"] and len(sys.argv) == 3:
        check(Path(sys.argv[2]))
    else:
        raise SystemExit(__doc__)
