# Tests that, after the store is killed, PostgreSQL retains rows that are not stored, and that losses are announced.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $store = Clairon::Test::store(fsync => 'always');
my $relay = Clairon::Test::relay($pg, $store);
my $client = $relay->client('u1');

sub insert
{
    my ($from, $to) = @_;
    $pg->safe_psql('postgres', "INSERT INTO t SELECT i, 'u1' FROM generate_series($from, $to) i");
    return;
}

insert(1, 10);
$client->wait_notifications(10);

# A batch is in flight when the connection is lost.
$store->pause;
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (0, 'nobody')});
wait_until('the relay has received the row', sub { $relay->metric('clairon_feed_unconfirmed_bytes') > 0 });
$store->kill9;
$relay->wait_for_log(qr/component=feed .*"store connection lost before the reply to a batch"/);
unlike($relay->log_text, qr/rejected a batch/, 'a lost connection is not logged as a rejected batch');
$relay->wait_for_log(qr/component=store(?:-\d)? .*store connection failed" error=.* server=\S+ retry_ms=\d/);
insert(11, 500);
my @ids = map { $_->{metadata}{id} } $client->notifications;
$client->ack(@ids);
is(($relay->get('/readyz'))[0], 503, 'without the store, the relay is not ready');
my $end = $pg->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
is($pg->safe_psql('postgres',
    "SELECT confirmed_flush_lsn < '$end' FROM pg_replication_slots"), 't',
    'rows that are not stored are not confirmed');
$store->start;
$relay->wait_ready;
# The in-flight window has 64 slots, so the remaining notifications arrive as acks are sent.
my %acked = map { $_ => 1 } @ids;
my %rows;
wait_until('all rows are delivered', sub {
    my @new = grep { !$acked{ $_->{metadata}{id} }++ } $client->notifications;
    $client->ack(map { $_->{metadata}{id} } @new) if @new;
    $rows{ $_->{payload}{after}{id} }++ for $client->notifications;
    $client->run_until('more notifications arrive', sub { keys %acked >= 500 || $client->notifications > keys %acked });
    keys %acked >= 500 });
is(scalar $store->entries, 501, 'each row is stored once');
wait_until('all acks are stored, including acks sent during the outage', sub { $store->pending == 1 }); # of nobody
pass('acks sent during the outage are not lost');

# The store is emptied, and the loss is announced. All rows are confirmed first, because unconfirmed rows would be
# replayed and fill the client's in-flight window.
wait_confirmed($pg);
$store->execute('FLUSHALL');
$store->restart;
$relay->wait_ready;
is($client->wait_for('gap')->{why}, 'epoch', 'an emptied store causes a gap for a live client');
$relay->wait_for_log(qr/store was emptied/);
insert(501, 510);
$client->wait_row(510);
pass('later rows are delivered');

# The store is killed, and restarted without data.
$store->kill9;
system("rm -rf $store->{folder}/append* $store->{folder}/*.rdb") == 0 or die 'could not empty the store';
$client->{messages} = [];
$store->start;
is($client->wait_for('gap')->{why}, 'epoch', 'a restart without data causes a gap');
cmp_ok($relay->metric('clairon_hub_gaps_total{why="epoch"}'), '>=', 2, 'the gap of a restart without data is counted');
insert(531, 540);
$client->wait_row(540);
sub stored_in { my ($from, $to) = @_; return [ grep { $_ >= $from && $_ <= $to } map { $_->{data} =~ /"after":\{"id":(\d+)/ } $store->entries ] }
is_deeply(stored_in(531, 540), [ 531 .. 540 ], 'rows written after the restart are stored once');

# Flushed scripts are loaded again.
$store->execute('SCRIPT', 'FLUSH');
insert(541, 550);
$client->wait_row(550);
is_deeply(stored_in(541, 550), [ 541 .. 550 ], 'after a script flush, rows are stored without duplicates');

done_testing();
