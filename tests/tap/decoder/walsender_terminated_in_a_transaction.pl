# Tests that a walsender can be terminated within a huge transaction, and that the next walsender reads it completely.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $rows = 300_000;
my $pg = Clairon::Test::postgresql('main', conf => <<'CONF');
autovacuum = off
max_wal_size = 4GB
logical_decoding_work_mem = 1MB
CONF
my $connection = $pg->connstr('postgres');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Starts a client that stops after 1 MB of the transaction; returns the client and its walsender.
sub start_reader
{
    my @command = (
        'pg_recvlogical', '-d', $connection, '--slot', 's', '--start', '--no-loop',
        '-f', '-', '-o', 'mode=framed', @_);
    my $child = open my $out, '-|', @command or die "pg_recvlogical: $!";
    my $got = 0;
    while ($got < 1_000_000) { $got += sysread($out, my $piece, 65536) || die 'no output' }
    my $walsender = sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 's'});
    return { child => $child, out => $out, walsender => $walsender };
}

sub wait_ended
{
    my ($what, $pid) = @_;
    wait_until("$what: the walsender ends", sub { !kill 0, $pid });
    pass("$what: the walsender ends");
    return;
}

# Drains the socket, because a walsender writes the reason before it ends.
sub end_reader
{
    my ($reader) = @_;
    my $got = 0;
    while (my $len = sysread $reader->{out}, my $piece, 65536) { $got += $len }
    close $reader->{out};
    return $got;
}

sql('CREATE TABLE t (id int, v text)');
sql(q{SELECT clairon.watch('t', 'ALL'); SELECT pg_create_logical_replication_slot('s', 'clairon');
    SELECT pg_create_logical_replication_slot('kept', 'clairon')});
sql("INSERT INTO t SELECT i, 'value ' || i FROM generate_series(1, $rows) AS i");

for my $how (qw(pg_terminate_backend pg_cancel_backend))
{
    my $reader = start_reader();
    is(sql("SELECT $how($reader->{walsender})"), 't', "$how reaches the walsender within the transaction");
    cmp_ok(end_reader($reader), '<', 100 * $rows, "$how: the remaining rows are not sent");
    wait_ended($how, $reader->{walsender});
}

my $reader = start_reader();
kill 'KILL', $reader->{child};
end_reader($reader);
wait_ended('the client dies', $reader->{walsender});

# A session reads the slot by SQL.
my $all = "SELECT count(*) FROM pg_logical_slot_peek_changes('s', NULL, NULL)";
open my $session, '-|', qq{psql -XAt -d "$connection" -c "$all" -c "SELECT 'alive'" 2>&1}
    or die "psql: $!";
my $backend = wait_until(
    'the slot is active',
    sub { sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 's'}) });
is(sql("SELECT pg_cancel_backend($backend)"), 't', 'pg_cancel_backend reaches a session that reads the slot');
like(join('', <$session>), qr/^ERROR:  canceling statement.*^alive$/ms,
    'the session survives the cancellation');
close $session;

# A shutdown waits until walsenders have sent all WAL, so the client must resume reading.
$reader = start_reader();
my $stopper = fork // die "fork: $!";
if ($stopper == 0)
{
    exec 'pg_ctl', '-D', $pg->data_dir, '-m', 'fast', '-w', '-t', $Clairon::Test::SECONDS, '-s', 'stop';
    die "pg_ctl: $!";
}
end_reader($reader);
waitpid $stopper, 0;
is($?, 0, 'a fast shutdown completes');
$pg->_update_pid(0);
$pg->start;
# The next walsender reads the other slot, because with PostgreSQL 17 and later a client may have confirmed changes that
# were sent at the shutdown.
is(sql(q{SELECT count(*) FROM pg_logical_slot_get_changes('kept', NULL, NULL)}), $rows,
    'the next walsender reads all rows');

done_testing();
