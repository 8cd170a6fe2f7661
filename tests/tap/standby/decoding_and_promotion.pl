# Tests that a relay reads the same notifications, with the same ids, from a standby as from the primary, even during
# the standby's promotion.
use strict;
use warnings;

use Clairon::Test qw(wait_until pg_major);
use IPC::Run ();
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file run_log);
use Test::More;

my $primary = Clairon::Test::postgresql('primary');
my $standby = Clairon::Test::standby($primary);
my $files   = 0;

sub sql { return $primary->safe_psql('postgres', $_[0]) }
sub standby_sql { return $standby->safe_psql('postgres', $_[0]) }

sub wait_replayed
{
    my $end = sql('SELECT pg_current_wal_flush_lsn()');
    wait_until('the standby replays the WAL', sub {
        standby_sql("SELECT pg_last_wal_replay_lsn() >= '$end'") eq 't' });
    return $end;
}

# A slot on a standby requires a record of the primary's running transactions, which an idle primary does not write to
# the WAL.
sub log_running_transactions
{
    my ($slot) = @_;
    wait_until("slot $slot is being created", sub {
        standby_sql("SELECT count(*) FROM pg_replication_slots
            WHERE slot_name = '$slot' AND restart_lsn IS NOT NULL") });
    sql('SELECT pg_log_standby_snapshot()');
    return;
}

sub make_text_slot
{
    my $maker = IPC::Run::start([ 'pg_recvlogical', '-d', $standby->connstr('postgres') . ' user=relay',
            '--slot', 'text', '--create-slot', '-P', 'clairon' ],
        IPC::Run::timeout($Clairon::Test::SECONDS));
    log_running_transactions('text');
    return $maker->finish;
}

# Returns the notifications of slot `text` on the standby, from its position to `$end`.
sub read_text
{
    my ($end) = @_;
    my $file = PostgreSQL::Test::Utils::tempdir() . '/' . ++$files;
    ok(run_log([ 'pg_recvlogical', '-d', $standby->connstr('postgres') . ' user=relay', '--slot', 'text',
            '--start', '--no-loop', '--endpos', $end, '-f', $file ]), 'text mode is read on the standby');
    return map { JSON::decode_json($_) } split /\n/, slurp_file($file);
}

sub reader_of
{
    return standby_sql("SELECT active_pid FROM pg_replication_slots WHERE slot_name = '$_[0]'");
}

# Functions that write are rejected before they reach the WAL.
wait_replayed();
my %writes = (notify => q{'ALL', NULL, '{}'}, watch => q{'pg_class', 'ALL'}, unwatch => q{'pg_class'});
for my $name (sort keys %writes)
{
    my (undef, undef, $error) = $standby->psql('postgres', "SELECT clairon.$name($writes{$name})");
    like($error, qr/cannot execute clairon\.$name\(\) during recovery/, "$name is rejected on a standby");
}

my $store = Clairon::Test::store();

if ((my $major = pg_major()) < 16)
{
    my $relay = Clairon::Test::relay($standby, $store, wait => 0);
    $relay->wait_for_log(qr/PostgreSQL before 16 cannot decode on a standby/);
    pass('the relay logs why it cannot read from this standby');
    SKIP: { skip "PostgreSQL $major cannot decode on a standby", 1 }
    done_testing();
    exit;
}

sql(<<'SQL');
CREATE TABLE t (id int PRIMARY KEY, owner text, body text);
ALTER TABLE t REPLICA IDENTITY FULL;
INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u1');
SELECT clairon.watch('t', 'USER', 'owner');
-- An output function that raises an error, but for the number of an enum's value.
CREATE TYPE odd;
CREATE FUNCTION odd_in(cstring) RETURNS odd IMMUTABLE STRICT LANGUAGE internal AS 'oidin';
CREATE FUNCTION odd_out(odd) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'enum_out';
CREATE TYPE odd (input = odd_in, output = odd_out, like = oid);
CREATE TABLE strange (id int, o odd);
SELECT clairon.watch('strange', 'USER', '=u1', only_when => 'id < 100', topic => 'strange');
SELECT pg_create_logical_replication_slot('text', 'clairon');
SQL

# The role of the relay creates the slots while the primary is idle.
wait_replayed();
ok(make_text_slot(), 'the relay\'s role creates a slot on the standby');
my $relay = Clairon::Test::relay($standby, $store, wait => 0);
$relay->wait_for_log(qr/creating slot .*pg_log_standby_snapshot\(\)/);
pass('the relay logs that slot creation waits for the primary');
log_running_transactions('clairon');
$relay->wait_for_log(qr/streaming from slot/);
wait_until('the primary retains the rows that the slots require', sub {
    sql("SELECT catalog_xmin FROM pg_replication_slots WHERE slot_name = 'standby'") });
is($standby->safe_psql('postgres', q{SELECT ok FROM clairon.doctor()
    WHERE check_name = 'hot_standby_feedback'}, connstr => $standby->connstr('postgres') . ' user=relay'),
    't', 'the doctor, run by that role, accepts the standby for decoding');

# Rows are written, with rule changes in between.
my $client = $relay->client('u1');
sql($_) for (
    q{INSERT INTO t VALUES (1, 'u1', 'by the first rule')},
    q{UPDATE t SET body = repeat('long', 10000) WHERE id = 1},
    q{SELECT clairon.watch('t', 'USER', 'owner', type => 'SYSTEM', topic => 'second')},
    q{INSERT INTO t VALUES (2, 'u1', 'by the second')},
    q{SELECT clairon.unwatch('t')},
    q{INSERT INTO t VALUES (3, 'u1', 'by none')},
    q{SELECT clairon.watch('t', 'STRUCTURE', '=s1', operations => '{delete}', topic => 'third')},
    q{DELETE FROM t WHERE id = 1},
    q{VACUUM FULL clairon.rule},
    q{ALTER TABLE t ADD COLUMN more int DEFAULT 7},
    q{SELECT clairon.watch('t', 'USER', 'owner')},
    q{INSERT INTO t VALUES (4, 'u1', 'by the fourth')},
    q{INSERT INTO strange VALUES (1, '1'), (100, '2')},
    q{SELECT clairon.notify('USER', '{u1}', '{"text": "on the primary"}')});
my @notifications = $client->wait_notifications(7);
is_deeply([ map { $_->{metadata}{topic} } @notifications ],
    [ 'postgres.t', 'postgres.t', 'second', 'third', 'postgres.t', 'strange', 'postgres.notify' ],
    'rows written on the primary arrive, by the rules at their WAL position');
is($notifications[4]{payload}{after}{more}, 7, 'a row has the columns at its WAL position');
is_deeply($notifications[5]{payload}, { before => undef, after => { id => 1, o => undef }, undecodable => ['o'] },
    'a value that cannot be decoded is listed');
my @on_primary = map { JSON::decode_json($_) }
  split /\n/, sql(q{SELECT data FROM pg_logical_slot_peek_changes('text', NULL, NULL)});
is_deeply([ map { $_->{metadata}{id} } @notifications ], [ map { $_->{metadata}{id} } @on_primary ],
    'the ids decoded on the standby equal the ids decoded on the primary');
is_deeply(\@notifications, \@on_primary,
    'the notifications decoded on the standby equal the notifications decoded on the primary');

# Old rules that the primary no longer needs are retained for the lagging slot.
sql(q{SELECT pg_drop_replication_slot('text')});
sql("VACUUM (FREEZE) $_") for qw(clairon.rule pg_attribute pg_class);
is_deeply([ read_text(wait_replayed()) ], \@on_primary, 'text mode returns the same notifications, even after a VACUUM');

# The primary is lost and the standby is promoted.
my $mark   = $relay->log_mark;
my $reader = reader_of('clairon');
$primary->stop('immediate');
$standby->promote;
standby_sql(q{INSERT INTO t VALUES (10, 'u1', 'after the promotion')});
is(($client->wait_notifications(8))[7]{payload}{after}{id}, 10, 'rows written after the promotion arrive');
isnt(reader_of('clairon'), $reader, 'the relay uses a new connection with the new timeline');
is($store->execute('HGET', $store->shared('progress:clairon'), 'timeline'), 2, 'the progress is on the new timeline');
is_deeply([ read_text(standby_sql('SELECT pg_current_wal_flush_lsn()')) ], [ ($client->notifications)[7] ],
    'text mode returns the row once');

my $log = $relay->log_text($mark);
like($log, qr/component=store level=info .*rewound the slot's progress, reconnecting/, 'the log explains the progress');
unlike($log, qr/component=store level=(?:warn|error)/, 'the log has no warnings about the store');

# The promotion undoes no change, so there is no replay and no gap.
$relay->restart;
$relay->wait_for_log(qr/streaming from slot" .*timeline=2 /);
$relay->wait_ready;
my $reconnected = $relay->client('u1', pos => $client->pos);
standby_sql(q{UPDATE t SET body = 'again' WHERE id = 10});
$reconnected->wait_for(sub { $_[0]{t} eq 'msg' && ($_[0]{n}{payload}{after}{body} // '') eq 'again' });
is(scalar $store->entries, 9, 'the new timeline is read without losses and duplicates');
is($client->gaps . $reconnected->gaps, '', 'the client receives no gap');

done_testing();
