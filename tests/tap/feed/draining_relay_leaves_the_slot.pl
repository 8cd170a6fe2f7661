# Tests that a draining relay releases its slot to the next relay, even if the store restarts during the drain.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store = Clairon::Test::store();
my $first = Clairon::Test::relay($pg, $store, conf => { 'gate.drain' => '10m', 'gate.connect_timeout' => '10m' });
$first->wait_for_log(qr/streaming from slot/);

# Without its body, the request stays in progress as long as this test needs.
my $request = Clairon::Test::RawSocket->new($first);
$request->write("POST /v1/ack HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'u1') . "\r\nContent-Length: 20\r\nExpect: 100-continue\r\n\r\n");
is($request->read_response->{status}, 100, 'a request is in progress');
kill TERM => $first->pid;
$first->wait_for_log(qr/draining connections/);
wait_until('the slot is free', sub { $pg->safe_psql('postgres', 'SELECT active FROM pg_replication_slots') eq 'f' });

my $mark = $first->log_mark;
$store->restart;
wait_until('the draining relay reconnects to the store', sub { $first->log_text($mark) =~ /store connected/ });

my $second = Clairon::Test::relay($pg, $store, wait => 0);
$second->wait_for_log(qr/streaming from slot|waiting as standby/);
like($second->log_text, qr/streaming from slot/, 'the next relay streams');
is($pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'}),
    1, 'the draining relay does not connect to PostgreSQL again');
my $client = $second->client('u1');
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1')});
is($client->wait_for('msg')->{n}{payload}{after}{id}, 1, 'the next relay delivers the row');

ok($first->is_alive, 'the first relay is still draining');
$request->disconnect;
is($first->wait_end, 0, 'the draining relay exits with status 0');
is($second->stop, 0, 'the next relay also exits with status 0');

# Neither a drain nor a crash leaves a command on the server that still creates the slot.
my $open = $pg->background_psql('postgres');
$open->query_safe('BEGIN; SELECT pg_current_xact_id()');
my $third = Clairon::Test::relay($pg, Clairon::Test::store(), wait => 0, conf => { 'feed.slot' => 'third' });
for my $signal (qw(TERM KILL))
{
    my $start = $third->log_mark;
    $third->start unless $third->is_alive;
    $third->wait_for_log(qr/creating slot/, from => $start) if $signal eq 'KILL';
    wait_until('the slot is being created', sub { $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'third'}) == 1 });
    $signal eq 'TERM' ? $third->stop : $third->kill9;
    wait_until('the server ends the command', sub { $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'third'}) == 0 });
    pass("after SIG$signal, the server ends the creation of the slot");
}
$open->query_safe('COMMIT');
$open->quit;

done_testing();
