# Tests which states the history of live lists allows: states in commit order, and states of snapshots that lack an
# earlier commit, but no return to an earlier state.
use strict;
use warnings;

use Clairon::Test::Live::History;
use Test::More;

package Wal
{
    sub safe_psql { my ($self, $database, $sql) = @_; return $sql =~ /get_changes/ ? join "\n", splice @{ $self->{lines} } : '' }
}

my $wal = bless { lines => [] }, 'Wal';

# Returns a history with transactions 10, 11 and 12, in commit order, which insert these rows.
sub history
{
    my ($snapshot) = @_;
    my $history = Clairon::Test::Live::History->new($wal, keys => { t => ['id'] }, lists => { all => sub { join ' ', sort keys %{ $_[0]{t} } } });
    my @lines = map { my $x = $_->[0]; ("BEGIN $x", (map { "table public.t: INSERT: id[integer]:$_" } @{ $_->[1] }), "COMMIT $x") }
      [ 10, [1] ], [ 11, [2] ], [ 12, [ 3, 4 ] ];
    for my $first (0, 6)    # the second time, the slot returns transactions again, as after a crash
    {
        @{ $wal->{lines} } = @lines[ $first .. $#lines ];
        $history->extend;
    }
    $history->add_snapshot($snapshot) if $snapshot;
    return $history;
}

# Returns the number of states, in this order, until a state that the history does not allow.
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
is(allowed(history(), '1', '1 2 3 4'), 2, 'a list may skip a state');
is(allowed(history(), '1 2', '1'), 1, 'a list must not return to an earlier state');
is(allowed(history(), '2'), 0, 'without a snapshot, a state that lacks an earlier commit is not allowed');
is(allowed(history('10:12:10'), '2', '1 2', '1 2 3 4'), 3, 'a state that lacks an earlier commit is allowed if a snapshot lacks it; the missing changes follow');
is(allowed(history('10:12:10'), '2', '1'), 1, 'a commit in the snapshot must not disappear');
is(allowed(history('10:12:10'), '1 2', '2'), 1, 'a list must not return from all commits to the state of a snapshot');
is(allowed(history('10:13:10,11'), '3 4', '1 3 4', '1 2 3 4'), 3,
    'after a snapshot that lacks two commits, the earlier commit must appear first');
is(allowed(history('10:13:10,11'), '3 4', '2 3 4'), 1,
    'after a snapshot that lacks two commits, the later commit must not appear first');
is(allowed(history('11:12:'), '2'), 0, 'a snapshot that lacks no earlier commit allows no additional states');

done_testing();
