# Tests that clairon.live_rows() on a standby returns exactly the rows that its snapshot contains.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $primary = Clairon::Test::postgresql('primary');
sub sql { return $primary->safe_psql('postgres', $_[0]) }

sql(q{
    CREATE TABLE t (id int PRIMARY KEY, who text, groups text[], x text DEFAULT pg_current_xact_id()::text, body text);
    CREATE INDEX ON t (who);
    ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'who', live => true);
    SELECT clairon.watch('t', 'G', 'groups', name => 'groups', live => true);
    SELECT clairon.watch('t', 'ALL', name => 'condition', only_when => $$lower(body) LIKE 'b%' AND 10 / (id - 3) IS NOT NULL$$, live => true);
    INSERT INTO clairon.member VALUES ('G', 'g1', 'u1');
    INSERT INTO t VALUES (2, 'u1', '{g1}', DEFAULT, repeat('B', 5000)), (1, 'u1', '{g2}', DEFAULT, 'a'), (3, 'u2', NULL, DEFAULT, 'b')});
my $standby = Clairon::Test::standby($primary);

sub wait_replayed
{
    # A commit flushes all earlier WAL to disk, and only flushed WAL is sent to the standby.
    sql('CREATE TABLE IF NOT EXISTS flushed (); DROP TABLE flushed');
    my $end = sql('SELECT pg_current_wal_insert_lsn()');
    wait_until('the standby replays the WAL', sub {
        $standby->safe_psql('postgres', "SELECT pg_last_wal_replay_lsn() >= '$end'") eq 't' });
    return;
}

# Returns the header and the rows, as a relay's role reads them.
sub read_rows
{
    my ($node, $rule, $user) = @_;
    my ($header, @rows) = map { JSON::decode_json($_) } split /\n/,
      $node->safe_psql('postgres', qq{SET SESSION AUTHORIZATION relay; SET work_mem = '64kB';
        SELECT * FROM clairon.live_rows('t', '$rule', '$user', '{}', 10000, 10000000)});
    return ($header, @rows);
}

sub ids { my ($header, @rows) = @_; return join ' ', map { $_->{id} } @rows }

sub contains
{
    my ($header, $x) = @_;
    my ($xmin, $xmax, @running) = split /[:,]/, $header->{snapshot};
    return $x < $xmin || $x < $xmax && !grep { $_ eq $x } @running;
}

wait_replayed();
for my $node ($primary, $standby)
{
    is(ids(read_rows($node, 'default', 'u1')), '1 2', 'rows of a user are in key order on ' . $node->name);
    is(ids(read_rows($node, 'groups', 'u1')), '2', 'rows of a group are returned on ' . $node->name);
    is(ids(read_rows($node, 'condition', 'u9')), '2', 'rows with only_when, in a subtransaction, are returned on ' . $node->name);
    is(ids(read_rows($node, 'default', 'u9')), '', 'no rows of other users are returned on ' . $node->name);
}
is_deeply([ read_rows($standby, 'default', 'u1') ]->[0]{key}, ['id'], 'the key is returned on a standby');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM clairon.live_rows('t', 'none', 'u1', '{}', 10, 10000)}), '0', 'an unknown rule has no header on a standby');

# Running transactions are contained neither in the rows nor in the snapshot.
my $first  = $primary->background_psql('postgres');
my $second = $primary->background_psql('postgres');
my $x1 = $first->query_safe(q{BEGIN; INSERT INTO t VALUES (4, 'u1') RETURNING x});
my $x2 = $second->query_safe(q{BEGIN; SAVEPOINT s; INSERT INTO t VALUES (5, 'u1'); RELEASE s; SELECT pg_current_xact_id()});
my $check = sub {
    my ($name, $expected, %contained) = @_;
    wait_replayed();
    for my $node ($primary, $standby)
    {
        my ($header, @rows) = read_rows($node, 'default', 'u1');
        is(ids($header, @rows), $expected, "$name: exactly the visible rows are returned on " . $node->name);
        is_deeply({ map { $_ => contains($header, $_) ? 1 : 0 } keys %contained }, \%contained,
            "$name: the snapshot contains exactly the visible transactions on " . $node->name);
    }
};
$check->('both transactions are running', '1 2', $x1 => 0, $x2 => 0);
$second->query_safe('COMMIT');
$check->('the later transaction is committed', '1 2 5', $x1 => 0, $x2 => 1);
$first->query_safe('COMMIT');
$check->('both transactions are committed', '1 2 4 5', $x1 => 1, $x2 => 1);
$_->quit for $first, $second;

# A sort of more rows than work_mem allows needs temporary files on the standby.
sql(q{INSERT INTO t (id, who, body) SELECT n, 'u3', repeat('x', 100) FROM generate_series(2000, 1001, -1) AS n});
wait_replayed();
is(ids(read_rows($standby, 'default', 'u3')), join(' ', 1001 .. 2000), 'rows are sorted on disk');

$primary->stop;
$standby->promote;
$standby->safe_psql('postgres', q{INSERT INTO t VALUES (6, 'u1')});
is(ids(read_rows($standby, 'default', 'u1')), '1 2 4 5 6', 'after a promotion');

done_testing();
