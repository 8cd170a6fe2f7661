# Tests that clairon.snapshot() contains a transaction if and only if its rows are visible to a query, even on a
# standby.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $primary = Clairon::Test::postgresql('primary', conf => 'max_prepared_transactions = 5');
$primary->safe_psql('postgres', q{CREATE TABLE t (mark text, x xid8 DEFAULT pg_current_xact_id());
    -- Above 64 subtransactions the WAL assigns them to their parent, and the standby forgets their ids.
    CREATE FUNCTION many_subtransactions() RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN 1..200 LOOP
            BEGIN
                INSERT INTO t VALUES ('sub');
            EXCEPTION WHEN division_by_zero THEN
                NULL;
            END;
        END LOOP;
    END $$;
    CREATE FUNCTION contained(x xid8, snapshot text) RETURNS boolean LANGUAGE sql AS $$
        SELECT x < split_part(snapshot, ':', 1)::xid8
               OR x < split_part(snapshot, ':', 2)::xid8
                  AND NOT x::text = ANY (string_to_array(split_part(snapshot, ':', 3), ',')) $$});
my $standby = Clairon::Test::standby($primary);

sub wait_replayed
{
    my $end = $primary->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
    wait_until('the standby replays the WAL', sub {
        $standby->safe_psql('postgres', "SELECT pg_last_wal_replay_lsn() >= '$end'") eq 't' });
    return;
}

# Returns the transactions that the snapshot contains, and the rows that the same query returns.
sub check
{
    my ($name, $ids, $expected) = @_;
    # A commit flushes all earlier WAL to disk, and only flushed WAL is sent to the standby.
    $primary->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS flushed (); DROP TABLE flushed');
    wait_replayed();
    for my $node ($primary, $standby)
    {
        for my $mark (sort keys %{$ids})
        {
            is($node->safe_psql('postgres', "SELECT contained('$ids->{$mark}', clairon.snapshot()), EXISTS (SELECT FROM t WHERE mark = '$mark')"),
                $expected->{$mark} ? 't|t' : 'f|f', "$name: $mark is in the snapshot if it is visible on " . $node->name);
        }
    }
    return;
}

my (%session, %id);
for my $mark (qw(plain overflowed aborted))
{
    $session{$mark} = $primary->background_psql('postgres');
    $id{$mark} = $session{$mark}->query_safe("BEGIN; INSERT INTO t VALUES ('$mark') RETURNING x");
    $session{$mark}->query_safe('SELECT many_subtransactions()') unless $mark eq 'plain';
}
$primary->safe_psql('postgres', q{BEGIN; INSERT INTO t VALUES ('prepared'); PREPARE TRANSACTION 'p'});
$id{prepared} = $primary->safe_psql('postgres', 'SELECT transaction::text FROM pg_prepared_xacts');
$id{committed} = $primary->safe_psql('postgres', q{INSERT INTO t VALUES ('committed') RETURNING x});
check('all running', \%id, { committed => 1 });
like($standby->safe_psql('postgres', 'SELECT clairon.snapshot()'), qr/^\d+:\d+:$id{plain},/,
    'a standby lists running transactions');

$session{overflowed}->query_safe('COMMIT');
$primary->safe_psql('postgres', q{COMMIT PREPARED 'p'});
check('two committed', \%id, { committed => 1, overflowed => 1, prepared => 1 });

$session{plain}->query_safe('COMMIT');
$session{aborted}->query_safe('ROLLBACK');
delete $id{aborted};    # the snapshot contains it, but it has no rows
check('none running', \%id, { map { $_ => 1 } keys %id });
is($primary->safe_psql('postgres', 'SELECT clairon.snapshot() = pg_current_snapshot()::text'), 't',
    'on a primary, the snapshot equals pg_current_snapshot()');
$_->quit for values %session;

done_testing();
