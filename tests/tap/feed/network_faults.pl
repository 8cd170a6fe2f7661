# Tests slow, broken and silent network connections on either side of the relay: faults are detected, and no row is
# lost.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "wal_sender_timeout = 2s\n");
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text, body text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store    = Clairon::Test::store();
my $to_store = Clairon::Test::proxy($store->{socket});
my $to_pg    = Clairon::Test::proxy($pg->host . '/.s.PGSQL.' . $pg->port);
# A long ping interval, because the client sends no pong while the test waits for other events.
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'gate.ping'     => '1h',
    'gate.console'  => 'on',
    'store.url'     => 'redis://localhost:' . $to_store->port,    # the name is resolved for each connection
    'feed.conninfo' => 'host=localhost dbname=postgres user=relay port=' . $to_pg->port });
my $client = $relay->client('u1');
my $rows   = 0;
my @mine;    # the ids of rows for the live client

sub sql { return $pg->safe_psql('postgres', $_[0]) }

sub insert
{
    my ($count, $owner, $bytes) = @_;
    sql(sprintf q{INSERT INTO t SELECT i, '%s', repeat('x', %d) FROM generate_series(%d, %d) i},
        $owner // 'u1', $bytes // 10, $rows + 1, $rows + $count);
    push @mine, $rows + 1 .. $rows + $count unless $owner;
    $rows += $count;
    return;
}

# Every row is stored once and in order, and delivered once to a live client.
sub check_complete
{
    my ($name) = @_;
    $client->wait_row($rows);
    my @stored;
    for my $stream ($store->keys('stream'))
    {
        my @found = map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 0 } $store->entries($stream);
        push @stored, @found unless grep { $found[$_] < $found[ $_ - 1 ] } 1 .. $#found;
    }
    is_deeply([ sort { $a <=> $b } @stored ], [ 1 .. $rows ], "$name: each row is stored once, in order");
    is_deeply([ map { $_->{payload}{after}{id} } $client->notifications ], \@mine,
        "$name: each row is delivered once to a live client");
    return;
}

sub walsenders { return sql('SELECT count(*) FROM pg_stat_replication') }

sub timeouts
{
    open my $file, '<', $pg->logfile or die $!;
    return scalar grep { /replication timeout/ } <$file>;
}

insert(10);
check_complete('initially');

# The connection is idle for longer than wal_sender_timeout: both sides still exchange messages.
my $start = sql('SELECT clock_timestamp()');
wait_until('the idle time has passed', sub {
    sql("SELECT reply_time > '$start'::timestamptz + interval '5 s' FROM pg_stat_replication") eq 't' });
is($relay->metric('clairon_feed_reconnects_total'), 0, 'idle: the connection stays open');
is(timeouts(), 0, 'idle: the connection survives wal_sender_timeout');

# With a slow store, data in transit is bounded, and TCP slows PostgreSQL down while keepalives continue.
my $before = $relay->metric('clairon_feed_bytes_total');
$to_store->freeze;
insert(4000, 'u2', 10_000);
wait_until('TCP blocks the walsender', sub {
    sql('SELECT wait_event FROM pg_stat_activity JOIN pg_stat_replication USING (pid)') eq 'WalSenderWriteData' });
my $last_reply = sql('SELECT clock_timestamp()');
wait_until('keepalives continue beyond wal_sender_timeout', sub {
    sql("SELECT reply_time > '$last_reply'::timestamptz + interval '3 s' FROM pg_stat_replication") eq 't' });
cmp_ok($relay->metric('clairon_feed_bytes_total') - $before, '<', 20_000_000,
    'a slow store: the relay does not buffer 40 MB');
$to_store->thaw;
$to_store->delay(0.1);
insert(10);
check_complete('a slow store and a slow network');
$to_store->delay(0);
is(timeouts(), 0, 'a slow store: the connection survives wal_sender_timeout');

# Both connections are cut while much data is in transit.
insert(2000);
$to_store->cut;
$to_pg->cut;
insert(100);
check_complete('cut on both sides');

# The store becomes unreachable: connections are half-open, and new connections fail.
my $mark = $relay->log_mark;
$to_store->freeze;
insert(500);
my $end = sql('SELECT pg_current_wal_lsn()');
$relay->wait_for_log(qr/component=store(?:-\d)? level.*reply timed out/, from => $mark);
wait_until('no store: the slot is released', sub { walsenders() == 0 });
is(sql("SELECT confirmed_flush_lsn < '$end' FROM pg_replication_slots"), 't', 'no store: no LSN is confirmed');
is(timeouts(), 0, 'no store: the connection does not end by wal_sender_timeout');
$to_store->thaw;
check_complete('no store');

# PostgreSQL becomes unreachable: both sides detect it.
$mark = $relay->log_mark;
$to_pg->freeze;
insert(500);
$relay->wait_for_log(qr/no message from PostgreSQL within wal_sender_timeout" timeout_s=2\.0/, from => $mark);
wait_until('PostgreSQL has closed the walsender', sub { walsenders() == 0 });
$to_pg->thaw;
check_complete('no PostgreSQL');
wait_confirmed($pg);
pass('all changes are confirmed at the end');
is($client->gaps, '', 'the client receives no gap');

# The server process of the connection hangs. The relay distinguishes it from another relay.
$mark = $relay->log_mark;
my $sender = sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'clairon'});
kill STOP => $sender;
$relay->wait_for_log(qr/level=warn .*slot is still in use by this relay's previous connection, waiting".* pid=$sender/, from => $mark);
like(($relay->get('/readyz'))[1], qr/"feed":"down"/, 'a relay whose former connection hangs is not in standby');
my $console = Clairon::Test::RawSocket->new($relay)->request(GET => '/v1/console', Host => 'x', Authorization => 'Bearer ' . token(sub => 'op', admin => JSON::true));
like($console->{json}{relay}{reason}, qr/^slot is still in use by this relay's previous connection, waiting\. PostgreSQL ends it/,
    'the console has the reason');
wait_until('the doctor reports the process', sub {
    sql(q{SELECT detail FROM clairon.doctor() WHERE check_name = 'reader of slot clairon' AND NOT ok}) =~ /process $sender has received nothing/ });
# A session that queries the status shows that the relay streams, with another clock.
my $status = $pg->background_psql('postgres');
$status->query_safe(q{SELECT 1 /* clairon.denials(slot_name) WHERE slot_name = 'clairon' */});
like(sql(q{SELECT check_name, ok, hint FROM clairon.doctor() WHERE check_name LIKE '%reader of slot%'}),
    qr/^clock of the reader of slot clairon\|t\|Synchronize/, 'clocks that differ are a warning');
$status->quit;
kill CONT => $sender;
wait_until('the relay streams again', sub { ($relay->get('/readyz'))[1] =~ /"feed":"streaming"/ });
pass('the relay streams once the process has ended');

done_testing();
