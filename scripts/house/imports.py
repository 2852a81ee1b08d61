"""Which files of a crate import which, and the cycles among them."""

import re
from pathlib import Path

from . import rust

Module = tuple[str, ...]
USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
BELOW = re.compile(r"(?<![:\w])([a-z]\w*)((?:::\w+)+)")
DECLARED = re.compile(r"^pub(?:\([^)]*\))?\s+(?:struct|enum|union|trait|type|const|static|fn)\s+(\w+)", re.MULTILINE)
PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")


class Crate:
    """The modules of a crate, what each hands on, and what each imports."""

    def __init__(self, folder: Path) -> None:
        self.files = rust.sources(folder)
        self.code = {module: rust.blanked(rust.split_tests(path.read_text())[0]) for module, path in self.files.items()}
        self.hands_on = {module: self._hands_on(code) for module, code in self.code.items()}

    def _hands_on(self, code: str) -> dict[str, str]:
        """What `pub use` hands on: the last name of each path, and the path; `*` by what the other file declares."""
        names = {}
        for public, tree in USE.findall(code):
            for path in leaves(tree) if public else []:
                owner, name = path.rsplit("::", 1) if "::" in path else ("", path)
                if name == "*":
                    declared = self.code.get(tuple(owner.split("::")), "")
                    names.update({each: f"{owner}::{each}" for each in DECLARED.findall(declared)})
                else:
                    names[name] = path
        return names

    def arrows(self) -> dict[Module, set[Module]]:
        """The modules whose files each module's file imports from; what is only handed on is of where it is declared."""
        found: dict[Module, set[Module]] = {module: set() for module in self.files}
        for module, code in self.code.items():
            paths = [path for _, tree in USE.findall(code) for path in leaves(tree)]
            for path in [*paths, *PATH.findall(code), *through_modules(paths, code)]:
                target = self._declared(module, path)
                if target is not None and target != module:
                    found[module].add(target)
        return found

    def _declared(self, module: Module, path: str, depth: int = 0) -> Module | None:
        """The module in whose file what the path names is declared; none if it is another crate's."""
        parts = path.split("::")
        base = list(module)
        if parts[0] == "crate":
            base, parts = [], parts[1:]
        elif parts[0] == "self":
            parts = parts[1:]
        elif parts[0] == "super":
            while parts and parts[0] == "super":
                base, parts = base[:-1], parts[1:]
        elif (*base, parts[0]) not in self.files:
            return None
        whole = (*base, *parts)
        for length in range(len(whole), -1, -1):
            owner, rest = whole[:length], whole[length:]
            if owner in self.files:
                handed = self.hands_on[owner].get(rest[0]) if rest else None
                if handed and depth < 8:
                    return self._declared(owner, handed, depth + 1) or owner
                return owner
        return None


def through_modules(paths: list[str], code: str) -> list[str]:
    """What code names by the last part of an imported path: `verbs::record::Args` behind `use crate::verbs;`."""
    own = [path for path in paths if path.startswith(("crate::", "super::", "self::"))]
    short = {path.rsplit("::", 1)[-1]: path for path in own}
    return [short[first] + rest for first, rest in BELOW.findall(code) if first in short]


def leaves(tree: str) -> list[str]:
    """The paths of a `use` tree, renames left out."""
    tree = tree.strip()
    match = re.match(r"^((?:\w+::)*)\{(.*)\}$", tree, re.DOTALL)
    if match:
        return [match.group(1) + leaf for part in rust.parameters(match.group(2)) for leaf in leaves(part)]
    return [re.sub(r"\s+as\s+\w+$", "", tree).removesuffix("::self")]


def cycles(arrows: dict[Module, set[Module]]) -> list[list[Module]]:
    """The groups of modules that import each other, largest first (strongly connected components, Tarjan 1972)."""
    order: dict[Module, int] = {}
    low: dict[Module, int] = {}
    stack: list[Module] = []
    found = []

    def visit(start: Module) -> None:
        # Its own stack: a crate's longest chain of imports may be longer than Python's recursion allows.
        work = [(start, iter(sorted(arrows[start])))]
        order[start] = low[start] = len(order)
        stack.append(start)
        while work:
            module, targets = work[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    work.append((target, iter(sorted(arrows[target]))))
                    break
                if target in stack:
                    low[module] = min(low[module], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[module])
                if low[module] == order[module]:
                    group = stack[stack.index(module) :]
                    del stack[stack.index(module) :]
                    if len(group) > 1:
                        found.append(sorted(group))

    for module in sorted(arrows):
        if module not in order:
            visit(module)
    return sorted(found, key=len, reverse=True)
