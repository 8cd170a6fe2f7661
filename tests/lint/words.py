#!/usr/bin/env python3
"""words.py: finds words in comments, messages and pages that words.list replaces by the field's terms."""

import os
import re
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
LIST, ALLOW = 'tests/lint/words.list', 'tests/lint/words.allow'
NOT_OURS = re.compile(r'LICENSE|(^|/)(expected|dist|corpus|node_modules)/|^tests/lint/words|\.(png|svg|patch|out|json)$')
HASH = re.compile(r'^\s*#(?!!)(.*)|\s# (.*)$', re.M)
DASH = re.compile(r'--\s(.*)$', re.M)
SLASH = re.compile(r'/\*(.*?)\*/|(?<![:\'"])//([^\n]*)', re.S)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
TEMPLATE = re.compile(STRING.pattern + r'|`(?:[^`\\]|\\.)*`', re.S)
EXPRESSION = re.compile(r'\$\{[^{}]*\}')


def read_list():
    rules = []
    with open(LIST, encoding='utf-8') as lines:
        for number, line in enumerate(lines, 1):
            if re.match(r'\s*(#|$)', line):
                continue
            pattern, arrow, instead = line.rstrip('\n').partition(' => ')
            if not arrow:
                sys.exit(f'{LIST}:{number}: a line must be "REGULAR EXPRESSION => INSTEAD"')
            rules.append((re.compile(pattern.strip().replace(' ', r'[\s*#]+'), re.I), instead))
    return rules


def read_allowed():
    allowed = {}
    with open(ALLOW, encoding='utf-8') as lines:
        for number, line in enumerate(lines, 1):
            if re.match(r'\s*(#|$)', line):
                continue
            match = re.match(r'([^:]+): ([^:]+): \S', line)
            if match is None:
                sys.exit(f'{ALLOW}:{number}: a line must be "FILE: TEXT: REASON"')
            allowed[match.group(1), match.group(2)] = False
    return allowed


def text_of(path, body):
    """Comments and messages as (offset, text); of a page, all text except code."""
    if path.endswith('.md'):
        hidden = re.sub(r'```.*?```|`[^`\n]*`', lambda m: re.sub(r'\S', ' ', m.group(0)), body, flags=re.S)
        return [(0, hidden)]
    comment = SLASH if re.search(r'\.(c|h|js|ts|mjs|css)$', path) else DASH if re.search(r'\.(sql|lua)$', path) else HASH
    found = [(m.start(), m.group(0)) for m in comment.finditer(body)]
    code = comment.sub(lambda m: re.sub(r'\S', ' ', m.group(0)), body)
    string = TEMPLATE if re.search(r'\.(js|ts|mjs)$', path) else STRING
    strings = [(m.start(), EXPRESSION.sub(lambda e: ' ' * len(e.group(0)), m.group(0))) for m in string.finditer(code)]
    return found + [(offset, text) for offset, text in strings if text.count(' ') > 1]


def check(path, rules, allowed):
    with open(path, encoding='utf-8', errors='replace') as source:
        body = source.read()
    bad = 0
    for offset, text in text_of(path, body):
        for pattern, instead in rules:
            for match in pattern.finditer(text):
                found = ' '.join(match.group(0).lower().split())
                if (path, found) in allowed:
                    allowed[path, found] = True
                    continue
                line = body.count('\n', 0, offset + match.start()) + 1
                print(f'{path}:{line}: "{found}" ({instead})')
                bad += 1
    return bad


def main():
    os.chdir(TOP)
    rules, allowed = read_list(), read_allowed()
    listing = subprocess.run(['git', 'ls-files'], check=True, capture_output=True, text=True)
    bad = sum(check(path, rules, allowed) for path in listing.stdout.split('\n')
              if path and os.path.exists(path) and not NOT_OURS.search(path))
    for path, found in (each for each, is_used in allowed.items() if not is_used):
        print(f'{ALLOW}: "{path}: {found}" was not found; delete the line')
        bad += 1
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
