# Does PostgreSQL keep what the store does not hold, and is a loss told, when the store dies?
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

$store->kill9;
$relay->wait_for_log(qr/who=store(?:-\d)? .*store connection failed: .*\(\S+\); trying again/);
insert(11, 500);
my @ids = map { $_->{metadata}{id} } $client->notifications;
$client->ack(@ids);
is(($relay->get('/readyz'))[0], 503, 'without its store the relay is not ready');
my $end = $pg->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
is($pg->safe_psql('postgres',
    "SELECT confirmed_flush_lsn < '$end' FROM pg_replication_slots"), 't',
    'what is not stored is not confirmed');
$store->start;
$relay->wait_ready;
# The window lets 64 unacked messages through: acks make room for the rest.
my %acked = map { $_ => 1 } @ids;
my %rows;
wait_until('all rows are shown', sub {
    my @new = grep { !$acked{ $_->{metadata}{id} }++ } $client->notifications;
    $client->ack(map { $_->{metadata}{id} } @new) if @new;
    $rows{ $_->{payload}{after}{id} }++ for $client->notifications;
    $client->run_until('more', sub { keys %acked >= 500 || $client->notifications > keys %acked });
    keys %acked >= 500 });
is(scalar $store->entries, 500, 'each row is stored once');
wait_until('acks, also those of the outage, came home', sub { $store->pending == 0 });
pass('the acks given while the store was away are not lost');

# Emptied: the loss is told. What is not confirmed yet would come again, and fill the client's window.
wait_confirmed($pg);
$store->execute('FLUSHALL');
$store->restart;
$relay->wait_ready;
is($client->wait_for('gap')->{why}, 'epoch', 'a client that stayed is told that the store was emptied');
$relay->wait_for_log(qr/the store was emptied/);
insert(501, 510);
$client->wait_row(510);
pass('and gets what comes after');

# Killed, and back with nothing.
$store->kill9;
system("rm -rf $store->{folder}/append* $store->{folder}/*.rdb") == 0 or die 'could not empty the store';
$client->{messages} = [];
$store->start;
is($client->wait_for('gap')->{why}, 'epoch', 'as is one that comes back empty');
cmp_ok($relay->metric('clairon_hub_gaps_total{why="epoch"}'), '>=', 2, 'and it is counted');
insert(531, 540);
$client->wait_row(540);
sub stored_in { my ($from, $to) = @_; return [ grep { $_ >= $from && $_ <= $to } map { $_->{data} =~ /"after":\{"id":(\d+)/ } $store->entries ] }
is_deeply(stored_in(531, 540), [ 531 .. 540 ], 'what comes then is stored once');

# Scripts flushed under our feet.
$store->execute('SCRIPT', 'FLUSH');
insert(541, 550);
$client->wait_row(550);
is_deeply(stored_in(541, 550), [ 541 .. 550 ], 'flushed scripts are loaded again, nothing is stored twice');

done_testing();
