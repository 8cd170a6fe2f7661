# Tests which states the history of live lists allows: states in commit order, and states of snapshots that lack an
# earlier commit, but no state that precedes an earlier one.
use strict;
use warnings;

use Clairon::Test::Live::History;
use Test::More;

package Wal
{
    sub safe_psql { my ($self, $database, $sql) = @_; return $sql =~ /get_changes/ ? join "\n", splice @{ $self->{lines} } : '' }
}

my $wal = bless { lines => [] }, 'Wal';

# A history with transactions 10, 11 and 12, in commit order, which insert these rows.
sub history
{
    my ($snapshot) = @_;
    my $history = Clairon::Test::Live::History->new($wal, keys => { t => ['id'] }, lists => { all => sub { join ' ', sort keys %{ $_[0]{t} } } });
    my @lines = map { my $x = $_->[0]; ("BEGIN $x", (map { "table public.t: INSERT: id[integer]:$_" } @{ $_->[1] }), "COMMIT $x") }
      [ 10, [1] ], [ 11, [2] ], [ 12, [ 3, 4 ] ];
    for my $first (0, 6)    # the second time as after a crash
    {
        @{ $wal->{lines} } = @lines[ $first .. $#lines ];
        $history->extend;
    }
    $history->add_snapshot($snapshot) if $snapshot;
    return $history;
}

# The number of states that the history allows, in this order.
sub allowed
{
    my ($history, @states) = @_;
    my ($progress, $count) = ({}, 0);
    for my $state (@states)
    {
        last if $history->follow($progress, 'all', $state);
        $count++;
    }
    return $count;
}

is(allowed(history(), '', '1', '1 2', '1 2 3', '1 2 3 4'), 5, 'changes may appear one by one, in commit order');
is(history()->transaction_count, 3, 'a transaction that the slot returns again is ignored');
is(allowed(history(), '1', '1 2 3 4'), 2, 'a state may be skipped');
is(allowed(history(), '1 2', '1'), 1, 'a state must not precede an earlier one');
is(allowed(history(), '2'), 0, 'a state without an earlier commit never existed');
is(allowed(history('10:12:10'), '2', '1 2', '1 2 3 4'), 3, 'a state is allowed if a snapshot lacks the earlier commit; the missing changes follow');
is(allowed(history('10:12:10'), '2', '1'), 1, 'a commit in the snapshot does not disappear');
is(allowed(history('10:12:10'), '1 2', '2'), 1, 'a state of a snapshot must not precede an earlier one');
is(allowed(history('10:13:10,11'), '3 4', '1 3 4', '1 2 3 4'), 3,
    'after a snapshot that lacks two commits, the earlier commit must follow first');
is(allowed(history('10:13:10,11'), '3 4', '2 3 4'), 1,
    'after a snapshot that lacks two commits, the later commit must not follow first');
is(allowed(history('11:12:'), '2'), 0, 'a snapshot that lacks no earlier commit allows no other states');

done_testing();
