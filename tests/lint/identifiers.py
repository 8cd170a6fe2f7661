#!/usr/bin/env python3
"""identifiers.py: finds words in identifiers and file names that identifiers.list replaces by the field's terms."""

import os
import re
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
LIST, ALLOW = 'tests/lint/identifiers.list', 'tests/lint/identifiers.allow'
NOT_OURS = re.compile(r'(^|/)(expected|dist|corpus|node_modules)/')
QUOTED = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
# Comments and strings by file extension; they contain no identifiers.
HIDDEN = {
    'c': rf'/\*.*?\*/|//[^\n]*|{QUOTED}',
    'js': rf'/\*.*?\*/|(?<![:\\])//[^\n]*|{QUOTED}|`(?:[^`\\]|\\.)*`',
    'lua': rf'--[^\n]*|{QUOTED}',
    'py': rf'""".*?"""|{QUOTED}|#[^\n]*',
    'pl': rf'^=\w.*?^=cut|{QUOTED}|\bqr?\{{[^\n]*?\}}|\b(?:qr|m)?/[^/\n]*/|(?<![\$\\&])#[^\n]*',
    'sh': rf'{QUOTED}|(?:^|(?<=\s))#[^\n]*',
}
KINDS = {'h': 'c', 'ts': 'js', 'pm': 'pl'}
IDENTIFIER = re.compile(r'[A-Za-z_]\w*')
# snake_case, camelCase and CONSTANTS: one match per word.
WORD = re.compile(r'[A-Z]+(?![a-z])|[A-Z]?[a-z]+')
# Code within a JavaScript template literal.
CODE = re.compile(r'\$\{[^}]*\}')


def read_lines(path, form, what):
    with open(path, encoding='utf-8') as lines:
        for number, line in enumerate(lines, 1):
            if re.match(r'\s*(#|$)', line):
                continue
            match = re.fullmatch(form, line.rstrip('\n'))
            if match is None:
                sys.exit(f'{path}:{number}: a line must be "{what}"')
            yield match.groups()


def read_banned():
    return {word: instead for words, instead in read_lines(LIST, r'([a-z ]+) => (.+)', 'WORD.. => INSTEAD') for word in words.split()}


def kind_of(path):
    ending = path.rpartition('.')[2]
    kind = KINDS.get(ending, ending)
    return kind if kind in HIDDEN else None


def blanked(match):
    text = match.group(0)
    kept = [code.span() for code in CODE.finditer(text)] if text.startswith('`') else []
    return ''.join(each if each == '\n' or any(start <= at < end for start, end in kept) else ' ' for at, each in enumerate(text))


def identifiers_of(path):
    """The file's name and all identifiers, with the lines where they first occur."""
    names = {name: 1 for name in IDENTIFIER.findall(os.path.basename(path).rpartition('.')[0])}
    kind = kind_of(path)
    if kind is None:
        return names
    with open(path, encoding='utf-8', errors='replace') as source:
        body = source.read()
    code = re.sub(HIDDEN[kind], blanked, body, flags=re.S | re.M)
    for number, line in enumerate(code.split('\n'), 1):
        for name in IDENTIFIER.findall(line):
            names.setdefault(name, number)
    return names


def check(path, banned, allowed):
    bad = 0
    for name, line in identifiers_of(path).items():
        found = [word for word in map(str.lower, WORD.findall(name)) if word in banned]
        rules = [rule for rule in allowed if rule[1] == name and path.startswith(rule[0])]
        if not found:
            continue
        for rule in rules:
            allowed[rule] = True
        if not rules:
            print(f'{path}:{line}: {name} ({banned[found[0]]})')
            bad += 1
    return bad


def main():
    os.chdir(TOP)
    banned = read_banned()
    allowed = {rule: False for rule in read_lines(ALLOW, r'([^:]+): (\w+): \S.*', 'PATH: NAME: REASON')}
    listing = subprocess.run(['git', 'ls-files'], check=True, capture_output=True, text=True)
    bad = sum(check(path, banned, allowed) for path in listing.stdout.split('\n')
              if path and os.path.exists(path) and not NOT_OURS.search(path))
    for rule in (rule for rule, is_used in allowed.items() if not is_used):
        print(f'{ALLOW}: "{rule[0]}: {rule[1]}" was not found; delete the line')
        bad += 1
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
