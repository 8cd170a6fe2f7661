# Tests that clients receive one gap if all shards are rewound or emptied: a relay without a feed, which checks most shards
# rarely, reads all new epochs together.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 16 }
use Clairon::Test qw(wait_until);
use Test::More;

use constant { USERS => 20, HEARTBEATS => 6 };

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id bigserial PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store = Clairon::Test::store();
my $feed  = Clairon::Test::relay($pg, $store);
my $gate  = Clairon::Test::relay(undef, $store, roles => 'gate');

sub insert { $pg->safe_psql('postgres', sprintf q{INSERT INTO t (owner) SELECT 'u' || i FROM generate_series(1, %d) i}, USERS); return }

# At each heartbeat, a relay checks the epochs of some shards.
sub wait_checked
{
    my ($client) = @_;
    my ($count, $last) = (0, '');
    return $client->run_until('the relays check shards', sub {
        my $newest = $store->execute(qw(XREVRANGE clairon:{0}:heartbeat + - COUNT 1))->[0][0] // '';
        $count++ if $newest ne $last;
        $last = $newest;
        return $count > HEARTBEATS });
}

# The clients receive one gap, and then the next rows.
sub check_gaps
{
    my ($what, @clients) = @_;
    for my $client (@clients) { $client->run_until('a gap arrives', sub { $client->gaps }) }
    wait_checked($clients[0]);
    is(join(' ', map { $_->gaps } @clients), join(' ', map { 'epoch' } @clients), "$what: each client receives one gap");
    insert();
    my $last = $pg->safe_psql('postgres', 'SELECT max(id) FROM t');
    for my $client (@clients) { $client->run_until('the next row arrives', sub { grep { $_->{payload}{after}{id} > $last - USERS } $client->notifications }) }
    is(join(' ', map { $_->gaps } @clients), join(' ', map { 'epoch' } @clients), "$what: and no other gap");
    return;
}

sub clients { my (@relays) = @_; return map { my $relay = $_; map { $relay->client("u$_") } 1 .. USERS } @relays }

my @clients = clients($gate);
insert();
$_->wait_notifications(1) for @clients;
$feed->stop;
$pg->safe_psql('postgres', q{SELECT pg_drop_replication_slot('clairon')});
$feed->start;
$feed->wait_ready;
check_gaps('the slot is lost', @clients);
$_->close for @clients;

@clients = clients($feed, $gate);
$store->execute('FLUSHALL');
check_gaps('the store is emptied', @clients);

done_testing();
