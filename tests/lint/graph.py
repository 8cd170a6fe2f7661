#!/usr/bin/env python3
"""graph.py: reads the call and include graph between files, and fails on a cycle, an upward dependency or a
figure above its limit.

Calls are read from the compiled objects: a file refers to another when its object needs a symbol that
the other defines. Includes are read from the sources. include_arrows.sh defines the order of modules and folders.
graph.allow lists the permitted cycles and calls with their reasons. LIMITS has no exceptions; --report prints the
figures.
"""

import collections
import os
import re
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
ALLOW = 'tests/lint/graph.allow'
ARROWS = 'tests/lint/include_arrows.sh'
BUILD = os.environ.get('BUILD', 'build')
NOT_OURS = {'.git', 'build', 'tests', 'client', os.path.basename(BUILD)}  # not code of the relay or the decoder
TOP_MODULE = 'relay'  # main.c uses all modules, and no module uses it
LIMITS = {'files in cycles': 6, 'files of a cycle': 3, 'upward includes': 0, 'include cycles': 0, 'depth of a folder': 1,
          'files that include libwebsockets': 16}


def table(name):
    """Returns a `declare -A` table of include_arrows.sh."""
    with open(ARROWS, encoding='utf-8') as text:
        body = re.search(r'declare -A %s=\((.*?)^\)' % name, text.read(), re.S | re.M).group(1)
    return {module: words.split() for module, words in re.findall(r'\[(\w+)\]="([^"]*)"', body)}


def module_of(path):
    parts = path.split('/')
    if path.startswith('decoder/protocol/'):
        return 'protocol'
    if parts[0] != 'relay':
        return parts[0]
    return parts[1] if len(parts) > 2 else TOP_MODULE


def folder_of(path):
    """The file's folder within its module; '.' for the module's folder itself."""
    parts = path.split('/')
    depth = 1 if parts[0] == 'decoder' else 2
    return parts[depth] if parts[0] in ('decoder', 'relay') and len(parts) > depth + 1 else '.'


def sources():
    found = []
    for root in (each for each in os.listdir('.') if each not in NOT_OURS and os.path.isdir(each)):
        for folder, _, names in os.walk(root):
            found += [os.path.join(folder, name) for name in names if re.search(r'\.[ch]$', name)]
    return sorted(found)


# ---- includes

def read_includes(files):
    """Returns, by file, the included files of this project and the names of library headers."""
    ours, libraries, known = {}, {}, set(files)
    for path in files:
        with open(path, encoding='utf-8') as text:
            found = re.findall(r'^\s*#\s*include\s*([<"])([^">]+)[">]', text.read(), re.M)
        ours[path], libraries[path] = set(), set()
        for kind, name in found:
            candidates = [os.path.join(path.split('/')[0], name), name, os.path.join(os.path.dirname(path), name)]
            target = next((each for each in candidates if each in known), None)
            if kind == '"' and target is not None:
                ours[path].add(target)
            else:
                libraries[path].add(name)
    return ours, libraries


def reachable(graph, start):
    seen, left = {start}, [start]
    while left:
        for each in graph.get(left.pop(), ()):
            if each not in seen:
                seen.add(each)
                left.append(each)
    return seen


def files_that_see(ours, libraries, pattern):
    """Returns the .c files that include a header whose name matches, directly or indirectly."""
    return [path for path in ours if path.endswith('.c') and any(
        re.match(pattern, name) for each in reachable(ours, path) for name in libraries[each])]


# ---- calls

def object_of(path):
    built = path if path.startswith('decoder/') else f'{BUILD}/obj/{path}'
    return re.sub(r'\.c$', '.o', built)


def symbols_of(objects):
    """Returns, by object, the global symbols that it defines and the symbols that it needs."""
    defined, needed, current = {}, {}, None
    listing = subprocess.run(['nm', '-A', '-P', '-g'] + objects, check=True, capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        name, symbol, kind = re.match(r'(.*?): (\S+) (\S)', line).groups()
        current = needed if kind == 'U' else defined
        current.setdefault(name, set()).add(symbol)
    return defined, needed


def read_calls(files):
    """Returns, by .c file, the .c files that it calls, each with the called symbols."""
    paths = [path for path in files if path.endswith('.c')]
    missing = [path for path in paths if not os.path.exists(object_of(path))]
    if missing:
        sys.exit(f'{missing[0]} is not compiled: run make')
    defined, needed = symbols_of([object_of(path) for path in paths])
    owner = {}
    for path in paths:
        # The decoder is a separate program, so names may repeat.
        program = path.split('/')[0]
        for symbol in defined.get(object_of(path), ()):
            owner[program, symbol] = path
    calls = {path: collections.defaultdict(set) for path in paths}
    for path in paths:
        for symbol in needed.get(object_of(path), ()):
            other = owner.get((path.split('/')[0], symbol))
            if other is not None and other != path:
                calls[path][other].add(symbol)
    return calls


# ---- cycles and upward dependencies

def components(graph):
    """Tarjan's strongly connected components of more than one node, largest first."""
    number, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            cycle = []
            while not cycle or cycle[-1] != node:
                cycle.append(stack.pop())
                on_stack.discard(cycle[-1])
            if len(cycle) > 1:
                found.append(sorted(cycle))

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted(found, key=len, reverse=True)


def is_upward(path, other, below, folders):
    """Whether `path` must not depend on `other`. Files in the module's folder itself form the folder '.'."""
    module, to = module_of(path), module_of(other)
    if module == TOP_MODULE:
        return False
    if module == 'decoder' and to == 'protocol':
        return False
    if module == 'protocol':
        return to != module
    if module != to:
        return to not in below.get(module, [])
    order, mine, its = folders.get(module, []), folder_of(path), folder_of(other)
    if mine == its:
        return False
    return mine not in order or its not in order or order.index(its) > order.index(mine)


def upward_calls(calls, below, folders):
    return [(path, other, symbols) for path in calls for other, symbols in sorted(calls[path].items())
            if is_upward(path, other, below, folders)]


def upward_includes(ours, below, folders):
    return [(path, other, ()) for path in sorted(ours) for other in sorted(ours[path])
            if is_upward(path, other, below, folders)]


# ---- structs

def without_comments(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*', '', text, flags=re.S)


def body_at(text, start):
    depth = 0
    for at in range(start, len(text)):
        depth += {'{': 1, '}': -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1:at]
    return ''


def count_fields(body):
    """Returns the number of fields, including those of nested structs."""
    body = re.sub(r'\benum\s*\w*\s*\{[^}]*\}', 'enum', body)
    body = re.sub(r'\b(struct|union)\s*\w*\s*\{', '', body)
    body = re.sub(r'\}[^;]*;', '', body)
    while re.search(r'\([^()]*\)', body):
        body = re.sub(r'\([^()]*\)', '', body)
    fields = 0
    for line in body.split(';'):
        if not re.search(r'\w', line) or line.lstrip().startswith(('#', '_Static_assert')):
            continue
        fields += 1 + line.count(',')
    return fields


def read_structs(files):
    found = []
    for path in files:
        with open(path, encoding='utf-8') as source:
            text = without_comments(source.read())
        for match in re.finditer(r'^(?:typedef )?struct (\w+)\s*\{', text, re.M):
            found.append((count_fields(body_at(text, match.end() - 1)), match.group(1), path))
    return sorted(found, reverse=True)


# ---- the allow-list

def read_allowed():
    """Returns the NUMBER of each MODULE and kind, which is cycle (files in cycles) or call (upward calls)."""
    allowed = {}
    with open(ALLOW, encoding='utf-8') as lines:
        for number, line in enumerate(lines, 1):
            if re.match(r'\s*(#|$)', line):
                continue
            match = re.match(r'(\w+) (cycle|call) (\d+): \S', line)
            if match is None:
                sys.exit(f'{ALLOW}:{number}: a line must be "MODULE cycle|call NUMBER: reason"')
            allowed[match.group(1), match.group(2)] = int(match.group(3))
    return allowed


def cycle_text(cycle, calls):
    lines = [f'cycle of {len(cycle)} files']
    for path in cycle:
        for other in cycle:
            if other in calls[path]:
                symbols = sorted(calls[path][other])
                lines.append(f'    {path} -> {other}: {", ".join(symbols[:3])}{" .." if len(symbols) > 3 else ""}')
    return '\n'.join(lines)


def arrow_text(arrow):
    path, other, symbols = arrow
    return f'upward: {path} -> {other}{": " if symbols else ""}{", ".join(sorted(symbols))}'


def found_by_module(cycles, arrows, calls):
    """Returns, by module and kind, the number of findings and their descriptions."""
    found = collections.defaultdict(lambda: [0, []])
    for cycle in cycles:
        for module in sorted({module_of(path) for path in cycle}):
            found[module, 'cycle'][0] += sum(module_of(path) == module for path in cycle)
            found[module, 'cycle'][1].append(cycle_text(cycle, calls))
    for arrow in arrows:
        found[module_of(arrow[0]), 'call'][0] += 1
        found[module_of(arrow[0]), 'call'][1].append(arrow_text(arrow))
    return found


def report_findings(found, allowed):
    is_bad = False
    for key in sorted(set(found) | set(allowed)):
        (number, texts), most = found.get(key, (0, [])), allowed.get(key, 0)
        name = f'{key[0]} {key[1]}'
        if number > most:
            is_bad = True
            print(f'{name}: {number}, {ALLOW} has {most}', *texts, sep='\n')
        elif number < most:
            print(f'{name}: {number}; lower its line in {ALLOW}, which has {most}')
    return is_bad


# ---- figures

def depth_of(folder):
    """The number of folders between a module and its files."""
    parts = folder.split('/')
    return len(parts) - (1 if parts[0] == 'decoder' else 2)


def lines_of(path):
    with open(path, encoding='utf-8') as lines:
        return sum(1 for _ in lines)


def largest(figures):
    """Returns the largest figure of pairs (figure, name), and all names, largest first."""
    ordered = sorted(figures, key=lambda each: (-each[0], each[1]))
    return ordered[0][0] if ordered else 0, [f'{name} {figure}' for figure, name in ordered]


def read_figures(files, ours, libraries, cycles, arrows):
    """Returns, by name, a figure and the names that it counts, largest first."""
    structs = read_structs(files)
    by_module = collections.Counter(module_of(path) for cycle in cycles for path in cycle)
    folders = collections.Counter(os.path.dirname(path) for path in files)
    cycles_of_includes = components(ours)
    websockets, store = (files_that_see(ours, libraries, each) for each in (r'libwebsockets\.h', r'hiredis/'))
    return {
        'files in cycles': (sum(by_module.values()), largest((n, module) for module, n in by_module.items())[1]),
        'files of a cycle': largest((len(cycle), ' '.join(cycle)) for cycle in cycles),
        'upward calls': (len(arrows[0]), [arrow_text(arrow) for arrow in arrows[0]]),
        'upward includes': (len(arrows[1]), [arrow_text(arrow) for arrow in arrows[1]]),
        'include cycles': (len(cycles_of_includes), [' '.join(cycle) for cycle in cycles_of_includes]),
        'fields of a struct': largest((fields, name) for fields, name, _ in structs),
        'files of a folder': largest((n, folder) for folder, n in folders.items()),
        'lines of a header': largest((lines_of(path), path) for path in files if path.endswith('.h')),
        'depth of a folder': largest((depth_of(folder), folder) for folder in folders),
        'files that include libwebsockets': (len(websockets), websockets),
        'files that include hiredis': (len(store), store),
    }


def limit_text(name):
    return f' (limit: {LIMITS[name]})' if name in LIMITS else ''


def report(figures):
    for name, (figure, details) in figures.items():
        print(f'{name}: {figure}{limit_text(name)}{"; " if details else ""}{", ".join(details[:5])}')


def report_limits(figures):
    """Returns whether a figure is above its limit."""
    broken = [name for name in LIMITS if figures[name][0] > LIMITS[name]]
    for name in broken:
        figure, details = figures[name]
        print(f'{name}: {figure}{limit_text(name)}', *details[:20], sep='\n    ')
    return bool(broken)


def main():
    os.chdir(TOP)
    files = sources()
    ours, libraries = read_includes(files)
    calls, below, folders = read_calls(files), table('below'), table('folders')
    cycles = components({path: set(others) for path, others in calls.items()})
    arrows = upward_calls(calls, below, folders), upward_includes(ours, below, folders)
    if '--cycles' in sys.argv[1:]:
        print(*(cycle_text(cycle, calls) for cycle in cycles), sep='\n')
        return 0
    figures = read_figures(files, ours, libraries, cycles, arrows)
    if '--report' in sys.argv[1:]:
        report(figures)
        return 0
    is_bad = report_findings(found_by_module(cycles, arrows[0], calls), read_allowed())
    return 1 if report_limits(figures) or is_bad else 0


if __name__ == '__main__':
    sys.exit(main())
