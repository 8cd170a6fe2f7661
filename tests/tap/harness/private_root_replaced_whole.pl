# Tests that a private PostgreSQL root is always complete while it is recreated during other tests.
use strict;
use warnings;

use Clairon::Test qw(scratch top);
use Test::More;

my $root = scratch() . '/root';
sub make_root { return system(top() . '/tests/tools/private-root.sh', $root) }

# Returns path and inode of each file and link in the folder.
sub all_files
{
    open my $find, '-|', 'find', $root, qw(! -type d -printf), '%i %p\n' or die "could not start find: $!";
    return sort <$find>;
}

is(make_root(), 0, 'a root is created');
my ($library) = glob "$root/usr/lib/postgresql/*/lib/clairon.so";
ok(defined $library && -r $library, 'the root contains the plugin');
my @before = all_files();
is(make_root(), 0, 'the root is recreated');
is_deeply([ all_files() ], \@before, 'unchanged files are not replaced');

open my $old, '<', $library or die "could not open $library: $!";
truncate $library, 0 or die "could not truncate $library: $!";
is(make_root(), 0, 'the root is recreated after one file changed');
ok(-s $library, 'the changed file is replaced');
is(-s $old, 0, 'the changed file has a new inode, so processes that have the file open keep the old content');

done_testing();
