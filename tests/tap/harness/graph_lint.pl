# Tests that the graph lint fails on circles of calls and on upward arrows between rooms and folders, except for those
# in the allow-list.
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
    (my $object = "build/lint/$path") =~ s/c$/o/;
    make_path(dirname("$tree/$object"));
    system('cc', "-I$tree/relay", '-c', '-o', "$tree/$object", "$tree/$path") == 0 or die "could not compile $path\n";
    return;
}

# The exit code and the output of the lint in the tree, with this allow-list.
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
    is($code, 1, "$name: fails");
    like($out, qr/^\s*\Q$_\E/m, "$name: $_") for @found;
    return;
}

write_text('tests/lint/graph.allow', '');
for my $file (qw(graph.py include_arrows.sh))
{
    copy(top() . "/tests/lint/$file", "$tree/tests/lint/$file") or die "could not copy $file: $!\n";
}
chmod 0755, "$tree/tests/lint/graph.py" or die "could not chmod: $!\n";

# Downward arrows.
my $low  = "void low(void);\nvoid low(void) {}\n";
my $main = "void on_read(void);\nint main(void);\nint main(void) { on_read(); return 0; }\n";
write_text('relay/gate/net/net.h', "#include <stdbool.h>\nstruct gate { int a, b; bool c; struct { int d; } e; };\n");
compile('relay/base/low.c', $low);
compile('relay/gate/net/read.c', qq{#include "gate/net/net.h"\nvoid low(void);\nvoid on_read(void);\nvoid on_read(void) { low(); }\n});
compile('relay/gate/ws/send.c',  "void on_read(void);\nvoid on_send(void);\nvoid on_send(void) { on_read(); }\n");
compile('relay/main.c', $main);
is_deeply([ lint('') ], [ 0, '' ], 'downward calls pass');

# One case of each kind.
compile('relay/base/low.c', "void on_send(void);\nvoid low(void);\nvoid low(void) { on_send(); }\n");
fails('a call of a room above', 'upward: relay/base/low.c -> relay/gate/ws/send.c: on_send', 'base circle: 1, tests/lint/graph.allow has 0',
    'gate circle: 2, tests/lint/graph.allow has 0', 'circle of 3 files');
my ($code, $out) = lint("base circle 1: a\nbase call 1: b\ngate circle 2: c\n");
is_deeply([ $code, $out ], [ 0, '' ], 'arrows in the allow-list pass');
($code, $out) = lint("base circle 1: a\nbase call 2: b\ngate circle 2: c\n");
is_deeply([ $code, $out ], [ 0, "base call: 1; lower its line in tests/lint/graph.allow, which has 2\n" ], 'with a remark when there are fewer');
($code, $out) = lint("base circle 1\n");
is($code, 1, 'a line of the allow-list without a reason fails');
like($out, qr/^tests\/lint\/graph\.allow:1: /, 'and is reported with its line');
compile('relay/base/low.c', $low);

compile('relay/gate/net/read.c', "void low(void);\nvoid helper(void);\nvoid on_read(void);\nvoid on_read(void) { low(); helper(); }\n");
compile('relay/gate/api/help.c', "void helper(void);\nvoid helper(void) {}\n");
fails('a call of a folder above', 'upward: relay/gate/net/read.c -> relay/gate/api/help.c: helper');
compile('relay/gate/net/read.c', qq{#include "gate/net/net.h"\nvoid low(void);\nvoid on_read(void);\nvoid on_read(void) { low(); }\n});

compile('relay/base/low.c', qq{#include "gate/net/net.h"\n$low});
fails('an include of a room above', 'upward: relay/base/low.c -> relay/gate/net/net.h');
compile('relay/base/low.c', $low);

write_text('relay/base/a.h', qq{#include "base/b.h"\n});
write_text('relay/base/b.h', qq{#include "base/a.h"\n});
fails('headers that include each other', 'circle of includes: relay/base/a.h relay/base/b.h');
unlink "$tree/relay/base/a.h", "$tree/relay/base/b.h";
is_deeply([ lint('') ], [ 0, '' ], 'without them the tree passes again');

# The figures.
($code, $out) = lint('', '--report');
is($code, 0, 'the report passes');
like($out, qr/^fields of a struct: 4 .*gate 4\/1 bool/m, 'fields are counted, including those of nested structs');
like($out, qr/^files in circles: 0 \(aim: 6\)/m, 'with the aim');

# A missing object is not taken for a file without calls.
unlink "$tree/build/lint/relay/base/low.o";
($code, $out) = lint('');
is_deeply([ $code, $out ], [ 1, "relay/base/low.c is not compiled: run make lint\n" ], 'a file that is not compiled fails');

done_testing();
