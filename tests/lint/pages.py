#!/usr/bin/env python3
"""pages.py: checks that links between pages have targets, and that the files and functions named in pages exist.

All pages and llms.txt are checked for links. docs/ARCHITECTURE.md, docs/CONSISTENCY.md,
docs/CONTRIBUTING.md and docs/STORE.md are also checked for names: `folder/file`, `file.c` and
`function()`. Words in capitals are placeholders. Commands and rows of docs/CONSISTENCY.md name tests
that exist and read the variable of the seed.
A numbered step that names source files names those of all its functions, and the files in a table
row that begins with folders are in these folders.
The table of log messages in docker/MONITORING.md is checked against the string literals of the relay.
"""

import os
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
NAMING = ("docs/ARCHITECTURE.md", "docs/CONSISTENCY.md", "docs/CONTRIBUTING.md", "docs/STORE.md")
BUILT = {".git", ".demo", "build", "node_modules", "tmp_check", "log", "__pycache__"}
FENCE = re.compile(r"^( *)```.*?^\1```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[.\w-]+(/[.\w-]+)*/?")
SUFFIX = re.compile(r"\.(c|h|lua|py|pl|sh|sql|js|md|yml|json|example)$")
FUNCTION = re.compile(r"([a-z]\w*)\(\)")
STEP = re.compile(r"^\d+\. .*(?:\n +\S.*)*", re.M)
FOLDER_ROW = re.compile(r"^\| (`[^|]*/`[^|]*) \|(.*)$", re.M)
PLACEHOLDER = re.compile(r"[A-Z]{3,}")
CHECK = re.compile(r"(?:tests|client/tests)/[\w/]+\.(?:pl|js|pml|sql)")
SEED = re.compile(r"CLAIRON_\w*SEED")
DEFINITION = re.compile(r"^(?:#define |static inline |local |export )?(?:function )?([a-z]\w*)\(", re.M)
NESTED = re.compile(r"^ +(?:async )?(?:function |const )([a-z]\w*)(?:\(| = (?:async )?\([^)\n]*\) =>)", re.M)  # of the client


def sources(*suffixes):
    """Returns the paths below the checkout, without build products and installed files."""
    for folder, below, files in os.walk(TOP):
        below[:] = [each for each in below if each not in BUILT]
        for file in files:
            if file.endswith(suffixes):
                yield str((Path(folder) / file).relative_to(TOP))


def anchors(page):
    """Returns the fragments that link to the headings of a page, as common viewers derive them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(name):
    page = TOP / name
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        there = page.parent / path if path else page
        if not there.exists():
            yield f"link to {target}, which does not exist"
        elif fragment and there.suffix == ".md" and fragment not in anchors(there):
            yield f"link to {target}, a heading that does not exist"


def unknown_names(name, files, functions):
    basenames = {Path(file).name for file in files}
    for code in CODE.findall(FENCE.sub("", (TOP / name).read_text())):
        if PLACEHOLDER.search(code) and not code.endswith(".md"):
            continue
        function = FUNCTION.fullmatch(code)
        if function and function[1] not in functions:
            yield f"no function {function[1]}()"
        elif PATH.fullmatch(code) and "/" in code and not code.startswith("build"):
            if not (TOP / code).exists():
                yield f"no file {code}"
        elif PATH.fullmatch(code) and SUFFIX.search(code) and code not in basenames:
            yield f"no file {code}"


def misplaced_names(name, functions):
    """Returns functions and files that exist, but not where the page locates them."""
    text = FENCE.sub("", (TOP / name).read_text())
    for step in STEP.findall(text):
        codes = CODE.findall(step)
        named = [code for code in codes if PATH.fullmatch(code) and SUFFIX.search(code)]
        for function in {found[1] for found in map(FUNCTION.fullmatch, codes) if found}:
            defined = functions.get(function, [])
            if named and defined and not any(f"/{file}".endswith(f"/{code}") for file in defined for code in named):
                yield f"{function}() is in {', '.join(defined)}, which its step does not name"
    for first, rest in FOLDER_ROW.findall(text):
        folders = [folder for folder in CODE.findall(first) if folder.endswith("/")]
        for code in CODE.findall(rest):
            if PATH.fullmatch(code) and SUFFIX.search(code) and "/" not in code:
                if not any((TOP / folder / code).exists() for folder in folders):
                    yield f"{code} is not in {', '.join(folders)}"


def unknown_checks(name):
    """Returns the tests that a command or a row names and that do not exist, and seeds that none of them reads."""
    for line in (TOP / name).read_text().splitlines():
        checks = [TOP / check for check in CHECK.findall(line)]
        for check in checks:
            if not check.exists():
                yield f"no test {check.relative_to(TOP)}"
        texts = [check.read_text() for check in checks if check.exists()]
        for seed in SEED.findall(line) if texts else []:
            if not any(re.search(rf"\b{seed}\b", text) for text in texts):
                yield f"{seed} is read by none of the tests on its line"


def unknown_messages(name):
    """Returns the log messages of the page's table that are not in any string literal of the relay."""
    table = (TOP / name).read_text().partition("## Log messages")[2]
    literals = []
    for file in sources(".c"):
        if file.startswith("relay/"):
            text = re.sub(r'"\s*"', "", (TOP / file).read_text())
            literals += re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)
    for message in re.findall(r"^\| \w+ \| `([^`]+)` \|", table, re.M):
        if not any(message in literal for literal in literals):
            yield f"no log message {message!r}"


def main():
    files = list(sources(""))
    code = [file for file in files if re.match(r"(relay|decoder|client/src)/.*\.(c|h|lua|js)$", file)]
    functions = {}
    for file in sorted(code):
        text = (TOP / file).read_text()
        for found in set(DEFINITION.findall(text) + (NESTED.findall(text) if file.endswith(".js") else [])):
            functions.setdefault(found, []).append(file)
    bad = []
    for page in sources(".md", "llms.txt"):
        bad += [f"{page}: {what}" for what in broken_links(page)]
    for page in NAMING:
        bad += [f"{page}: {what}" for what in unknown_names(page, files, functions)]
        bad += [f"{page}: {what}" for what in misplaced_names(page, functions)]
    bad += [f"docs/CONSISTENCY.md: {what}" for what in unknown_checks("docs/CONSISTENCY.md")]
    bad += [f"docker/MONITORING.md: {what}" for what in unknown_messages("docker/MONITORING.md")]
    print("\n".join(sorted(bad)), end="\n" if bad else "")
    sys.exit(bool(bad))


main()
