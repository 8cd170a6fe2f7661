# Tests that the graph lint fails on call cycles, on upward calls and includes between modules and folders, and on
# figures above their limits. The allow-list can permit cycles and calls.
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

# Writes a C file and its object.
sub compile
{
    my ($path, $text) = @_;
    write_text($path, $text);
    (my $object = $path =~ m{^decoder/} ? $path : "build/obj/$path") =~ s/c$/o/;
    make_path(dirname("$tree/$object"));
    system('cc', "-I$tree/relay", '-c', '-o', "$tree/$object", "$tree/$path") == 0 or die "could not compile $path\n";
    return;
}

# Returns the exit status and the output of the lint in the tree, with this allow-list.
sub lint
{
    my ($allowed, @arguments) = @_;
    delete local $ENV{BUILD};
    write_text('tests/lint/graph.allow', $allowed);
    IPC::Run::run([ "$tree/tests/lint/graph.py", @arguments ], \undef, \my $out, '2>&1');
    return ($? >> 8, $out);
}

sub fails
{
    my ($name, @found) = @_;
    my ($code, $out) = lint('');
    is($code, 1, "$name: the lint fails");
    like($out, qr/^\s*\Q$_\E/m, "$name: the lint reports $_") for @found;
    return;
}

write_text('tests/lint/graph.allow', '');
for my $file (qw(graph.py include_arrows.sh))
{
    copy(top() . "/tests/lint/$file", "$tree/tests/lint/$file") or die "could not copy $file: $!\n";
}
chmod 0755, "$tree/tests/lint/graph.py" or die "could not chmod: $!\n";

# One module of the tree has a folder above its own files.
system('sed', '-i', 's/^declare -A folders=(/&\n    [base]=". core"/', "$tree/tests/lint/include_arrows.sh") == 0
    or die "could not write include_arrows.sh\n";

# Returns a struct with this number of fields.
sub struct_text
{
    my ($name, $fields) = @_;
    return "struct $name {\n" . join('', map { "    int i$_;\n" } 1 .. $fields) . "};\n";
}

# Calls of lower modules pass.
my $low  = "void low(void);\nvoid low(void) {}\n";
my $main = "void on_read(void);\nint main(void);\nint main(void) { on_read(); return 0; }\n";
write_text('relay/gate/net/net.h', "#include <stdbool.h>\nstruct gate { int a, b; bool c; struct { int d; } e; };\n");
compile('relay/base/low.c', $low);
compile('relay/gate/net/read.c', qq{#include "gate/net/net.h"\nvoid low(void);\nvoid on_read(void);\nvoid on_read(void) { low(); }\n});
compile('relay/gate/ws/send.c',  "void on_read(void);\nvoid on_send(void);\nvoid on_send(void) { on_read(); }\n");
compile('relay/main.c', $main);
write_text('relay/hub/session/session.h', struct_text(session => 25));
is_deeply([ lint('') ], [ 0, '' ], 'downward calls pass');

# The lint reports each kind of violation.
compile('relay/base/low.c', "void on_send(void);\nvoid low(void);\nvoid low(void) { on_send(); }\n");
fails('a call of a higher module', 'upward: relay/base/low.c -> relay/gate/ws/send.c: on_send', 'base cycle: 1, tests/lint/graph.allow has 0',
    'gate cycle: 2, tests/lint/graph.allow has 0', 'cycle of 3 files');
my ($code, $out) = lint("base cycle 1: a\nbase call 1: b\ngate cycle 2: c\n");
is_deeply([ $code, $out ], [ 0, '' ], 'upward calls in the allow-list pass');
($code, $out) = lint("base cycle 1: a\nbase call 2: b\ngate cycle 2: c\n");
is_deeply([ $code, $out ], [ 0, "base call: 1; lower its line in tests/lint/graph.allow, which has 2\n" ], 'an allowed call that does not exist is reported');
($code, $out) = lint("base cycle 1\n");
is($code, 1, 'a line of the allow-list without a reason fails');
like($out, qr/^tests\/lint\/graph\.allow:1: /, 'a line of the allow-list is reported with its number');
compile('relay/base/low.c', $low);

compile('relay/gate/net/read.c', "void low(void);\nvoid helper(void);\nvoid on_read(void);\nvoid on_read(void) { low(); helper(); }\n");
compile('relay/gate/ws/help.c', "void helper(void);\nvoid helper(void) {}\n");
fails('a call of a higher folder', 'upward: relay/gate/net/read.c -> relay/gate/ws/help.c: helper');
compile('relay/gate/net/read.c', qq{#include "gate/net/net.h"\nvoid low(void);\nvoid on_read(void);\nvoid on_read(void) { low(); }\n});

# The files that are directly in a module have a position among its folders, which can be any position.
compile('relay/base/core/memory.c', "void memory(void);\nvoid memory(void) {}\n");
compile('relay/base/low.c', "void memory(void);\nvoid low(void);\nvoid low(void) { memory(); }\n");
fails('a call from a module to its parent folder', 'upward: relay/base/low.c -> relay/base/core/memory.c: memory');
compile('relay/base/low.c', $low);
compile('relay/base/core/memory.c', "void low(void);\nvoid memory(void);\nvoid memory(void) { low(); }\n");
is_deeply([ lint('') ], [ 0, '' ], 'a call from a folder to its module\'s files, which are lower, passes');
compile('relay/wire/new/text.c', "void text(void);\nvoid text(void) {}\n");
compile('relay/wire/frame.c', "void text(void);\nvoid frame(void);\nvoid frame(void) { text(); }\n");
fails('a call of a folder that is not in the order', 'upward: relay/wire/frame.c -> relay/wire/new/text.c: text');
unlink map { "$tree/relay/wire/$_" } qw(frame.c new/text.c) or die "could not remove: $!\n";

compile('relay/base/low.c', qq{#include "gate/net/net.h"\n$low});
fails('an include of a higher module', 'upward includes: 1 (limit: 0)', 'upward: relay/base/low.c -> relay/gate/net/net.h');
($code, $out) = lint("base include 1: a\n");
like($out, qr/^tests\/lint\/graph\.allow:1: /, 'the allow-list accepts no includes');
compile('relay/base/low.c', qq{#ifndef X\n#  include "gate/net/net.h"\n#endif\n$low});
fails('an indented include', 'upward: relay/base/low.c -> relay/gate/net/net.h');
compile('relay/base/low.c', $low);

write_text('relay/base/a.h', qq{#include "base/b.h"\n});
write_text('relay/base/b.h', qq{#include "base/a.h"\n});
fails('headers that include each other', 'include cycles: 1 (limit: 0)', 'relay/base/a.h relay/base/b.h');
unlink "$tree/relay/base/a.h", "$tree/relay/base/b.h";
is_deeply([ lint('') ], [ 0, '' ], 'the tree passes without upward dependencies');

# Figures above their limits fail.
sub exceeds
{
    my ($name, $path, $text, $found) = @_;
    write_text($path, $text);
    fails($name, $found);
    unlink "$tree/$path" or die "could not remove $path: $!\n";
    return;
}

exceeds('depth of a folder', 'relay/base/core/deep/a.h', "\n", 'depth of a folder: 2 (limit: 1)');

# Sixteen files include the header of libwebsockets through another header.
write_text('relay/gate/net/server.h', "#include <libwebsockets.h>\n");
sub see
{
    my ($number) = @_;
    write_text("relay/gate/net/see$number.c", qq{#include "gate/net/server.h"\n});
    system('cc', '-c', '-x', 'c', '-o', "$tree/build/obj/relay/gate/net/see$number.o", '/dev/null') == 0 or die "could not compile: $?\n";
    return;
}
see($_) for 1 .. 16;
is_deeply([ lint('') ], [ 0, '' ], 'sixteen files that include libwebsockets pass');
see(17);
fails('files that include libwebsockets', 'files that include libwebsockets: 17 (limit: 16)');
unlink glob("$tree/relay/gate/net/see*.c"), "$tree/relay/gate/net/server.h" or die "could not remove: $!\n";

# Call cycles of two of three files pass if the allow-list permits them.
sub call_around
{
    my ($prefix, $count) = @_;
    for my $i (1 .. $count)
    {
        my $next = $i % $count + 1;
        compile("relay/hub/parts/$prefix$i.c",
            "void $prefix$next(void);\nvoid $prefix$i(void);\nvoid $prefix$i(void) { $prefix$next(); }\n");
    }
    return;
}
call_around(x => 3);
call_around(y => 3);
is_deeply([ lint("hub cycle 6: a\n") ], [ 0, '' ], 'two cycles of three files pass');
call_around(z => 2);
($code, $out) = lint("hub cycle 8: a\n");
is($code, 1, 'more files in cycles fail, regardless of the allow-list');
like($out, qr/^files in cycles: 8 \(limit: 6\)/m, 'the report has the number of files in cycles');
unlink glob("$tree/relay/hub/parts/[xyz]?.c") or die "could not remove: $!\n";
call_around(x => 4);
($code, $out) = lint("hub cycle 4: a\n");
is($code, 1, 'a cycle of four files fails, regardless of the allow-list');
like($out, qr/^files of a cycle: 4 \(limit: 3\)/m, 'the report has the size of the cycle');
unlink glob("$tree/relay/hub/parts/x?.c") or die "could not remove: $!\n";

($code, $out) = lint('', '--report');
is($code, 0, 'the report passes');
like($out, qr/^fields of a struct: 25; session 25, gate 4$/m, 'fields are counted, including fields of nested structs');
like($out, qr/^files in cycles: 0 \(limit: 6\)/m, 'the report has each limit');

# A missing object file must not be mistaken for a file without calls.
unlink "$tree/build/obj/relay/base/low.o";
($code, $out) = lint('');
is_deeply([ $code, $out ], [ 1, "relay/base/low.c is not compiled: run make\n" ], 'a file that is not compiled fails');

done_testing();
