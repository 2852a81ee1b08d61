#!/usr/bin/env python3
"""What linemate is built from, as CycloneDX 1.5 on stdout: cargo's packages for x86-64 Linux, those of tests too, and
npm's packages in the page, each with licence and checksum.

Tools that do this know either cargo or npm, and have to be compiled; what is needed of the format is a list.
"""

import base64
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def packages() -> list[dict]:
    """The packages as cargo knows them; only it knows their licences."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if run.returncode != 0:
        sys.exit("sbom: error: `cargo metadata` fails: see above")
    return json.loads(run.stdout)["packages"]


def checksums() -> dict[tuple[str, str], str]:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(each["name"], each["version"]): each["checksum"] for each in lock["package"] if "checksum" in each}


def of_page() -> list[dict]:
    """What esbuild puts into the page: the packages of web/ that are not for development alone."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text())
    found = []
    for path, package in sorted(lock["packages"].items()):
        if not path or package.get("dev"):
            continue
        name = path.removeprefix("node_modules/")
        algorithm, digest = package["integrity"].split("-", 1)
        found.append(
            {
                "type": "library",
                "name": name,
                "version": package["version"],
                "purl": f"pkg:npm/{name}@{package['version']}",
                "licenses": [{"expression": package["license"]}],
                "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}],
            }
        )
    return found


def component(package: dict, checksums: dict[tuple[str, str], str]) -> dict:
    name, version = package["name"], package["version"]
    found = {"type": "library", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
    if package["license"]:
        # Some packages still write "MIT/Apache-2.0", which SPDX reads as neither.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums.get((name, version)):
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


def main() -> None:
    all_packages = sorted(packages(), key=lambda each: (each["name"], each["version"]))
    own = next(each for each in all_packages if each["name"] == "linemate")
    known = checksums()
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": own["name"], "version": own["version"]}},
        "components": [component(each, known) for each in all_packages if each["source"]] + of_page(),
    }
    json.dump(document, sys.stdout, indent=1)
    print()


main()
