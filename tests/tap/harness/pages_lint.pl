# Tests that the pages lint fails on links, files and functions that do not exist, or are in another place.
use strict;
use warnings;

use Clairon::Test qw(scratch top);
use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Path qw(make_path);
use IPC::Run ();
use Test::More;

my $tree = scratch() . '/tree';

sub write_text
{
    my ($path, $text) = @_;
    make_path(dirname("$tree/$path"));
    open my $out, '>', "$tree/$path" or die "could not write $path: $!\n";
    print {$out} $text;
    close $out or die "could not write $path: $!\n";
    return;
}

# Returns the exit status and the output of the lint, with this content in docs/ARCHITECTURE.md.
sub lint
{
    my ($text) = @_;
    write_text('docs/ARCHITECTURE.md', $text);
    IPC::Run::run([ 'python3', "$tree/tests/lint/pages.py" ], \undef, \my $out, '2>&1');
    return ($? >> 8, $out);
}

sub passes
{
    my ($name, $text) = @_;
    is_deeply([ lint($text) ], [ 0, '' ], "$name: the lint passes");
    return;
}

sub fails
{
    my ($name, $text, $found) = @_;
    is_deeply([ lint($text) ], [ 1, "docs/ARCHITECTURE.md: $found\n" ], "$name: the lint fails");
    return;
}

make_path("$tree/tests/lint");
copy(top() . '/tests/lint/pages.py', "$tree/tests/lint/pages.py") or die "could not copy pages.py: $!\n";
write_text("docs/$_.md", "# Page\n") for qw(CONSISTENCY CONTRIBUTING STORE);
my $log_table = "# Page\n## Log messages\n| `component` | message | action |\n|---|---|---|\n| gate | `%s` | none |\n";
write_text('docker/MONITORING.md', sprintf($log_table, 'known message'));
write_text('relay/module/file.c',
    "static int\nknown_function(void)\n{\n    log_warn(\"gate\", \"known \"\n        \"message: hint\");\n    return 0;\n}\n");
write_text('relay/other/other.c', "static int\nother_function(void)\n{\n    return 0;\n}\n");

write_text('client/src/list.js',
    "export function createList() {\n  async function handleChange() {}\n  const isShort = (rows) => !rows.length;\n}\n");

passes('names that exist', 'See `relay/module/file.c`, `file.c`, `relay/module/` and `known_function()`; [a page](STORE.md#page).');
passes('a step', "1. `known_function()` (`file.c`) calls\n   `other_function()` (`relay/other/other.c`).\n2. It calls `known_function()`.");
passes('functions inside functions of the client', '1. `createList()` returns `handleChange()`, which calls `isShort()` (`client/src/list.js`).');
passes('a row of a folder', '| `relay/module/`, `relay/other/` | `file.c`, `other.c` |');
passes('a placeholder', 'Add `tests/unit/MODULE/test_NAME.c`.');
passes('a code block', "```\n[x](missing.md) `missing.c`\n```\n");
fails('a missing file', '`relay/module/missing.c`', 'no file relay/module/missing.c');
fails('a missing file without its folder', '`missing.c`', 'no file missing.c');
fails('a missing file in a table', "| change | open |\n|---|---|\n| this | `relay/module/missing.c` |", 'no file relay/module/missing.c');
fails('a missing function', '`missing_function()`', 'no function missing_function()');
fails('a missing function in a step', '1. `missing_function()` (`file.c`).', 'no function missing_function()');
fails('a function of another file',
    "1. `known_function()` calls\n   `other_function()` (`file.c`).",
    'other_function() is in relay/other/other.c, which its step does not name');
fails('a file of another folder', '| `relay/module/` | `other.c` |', 'other.c is not in relay/module/');
fails('a link to a missing page', '[page](missing.md)', 'link to missing.md, which does not exist');
fails('a link to a missing heading', '[page](STORE.md#keys)', 'link to STORE.md#keys, a heading that does not exist');

write_text('tests/tap/a/random.pl', "my \$seed = \$ENV{CLAIRON_A_SEED};\n");
write_text('docs/CONSISTENCY.md', "# Page\n```\nCLAIRON_A_SEED=1 make check-tap TESTS=tests/tap/a/random.pl\n```\n");
passes('a command with a test and its seed', '');
write_text('docs/CONSISTENCY.md', "# Page\n```\nCLAIRON_B_SEED=1 make check-tap TESTS=tests/tap/a/random.pl\nmake check-tap TESTS=tests/tap/a/missing.pl\n```\n");
is_deeply([ lint('') ],
    [ 1, "docs/CONSISTENCY.md: CLAIRON_B_SEED is read by none of the tests on its line\ndocs/CONSISTENCY.md: no test tests/tap/a/missing.pl\n" ],
    'a missing test, and a seed that no test reads: the lint fails');
write_text('docs/CONSISTENCY.md', "# Page\n");
write_text('llms.txt', "[page](docs/missing.md)\n");
is_deeply([ lint('') ], [ 1, "llms.txt: link to docs/missing.md, which does not exist\n" ], 'a missing page in llms.txt: the lint fails');
write_text('llms.txt', '');

write_text('docker/MONITORING.md', sprintf($log_table, 'unknown message'));
is_deeply([ lint('') ], [ 1, "docker/MONITORING.md: no log message 'unknown message'\n" ], 'a missing log message: the lint fails');

done_testing();
