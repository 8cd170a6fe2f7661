# Tests that a relay does not start to read a shard while it waits for the shard's keys: its stream seems empty, so a new
# session would receive older rows when the stream returns.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Client;
use Test::More;

my $cluster = Clairon::Test::store_cluster(replicas => 0, shards => 3);
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text); SELECT clairon.watch('t', 'USER', 'owner')});
my %conf  = ('store.min_replicas' => 0, 'gate.ping' => '1h');
my $feed  = Clairon::Test::relay($pg, $cluster, conf => {%conf});
my $relay = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => {%conf});
my ($user)  = grep { $cluster->shard_of($_) != 0 } map { "u$_" } 1 .. 99;
my $shard = $cluster->shard_of($user);
my $from  = $cluster->primary_of($shard);
my ($to)  = grep { $_ != $from } $cluster->primaries;

$pg->safe_psql('postgres', "INSERT INTO t SELECT i, '$user' FROM generate_series(1, 10) i");
wait_until('the rows are stored', sub { $cluster->stored == 10 });

# The slot is stable again, but the stream remains on the other node.
$cluster->begin_move($shard, $to);
$cluster->move_keys($shard, $from, $to, 0, qr/:stream$/);
$relay->wait_for_log(qr/shard is moving/);
$_->execute('CLUSTER', 'SETSLOT', $cluster->slot($shard), 'STABLE') for $from, $to;
$relay->wait_for_log(qr/shards are unavailable/);
my $followed = $relay->metric('clairon_store_followed_shards');
my $client = Clairon::Test::Client->new($relay->url('/v1/ws'));
$client->send({ t => 'connect', r => 1, token => Clairon::Test::token(sub => $user) });
$client->run_until('the relay opens the shard', sub { $relay->metric('clairon_store_followed_shards') > $followed });
my $mark = $relay->log_mark;
$relay->wait_for_log(qr/keys of a shard are on several nodes/, from => $mark);

# The stream returns.
$to->execute('CLUSTER', 'SETSLOT', $cluster->slot($shard), 'IMPORTING', $from->{id});
$cluster->move_keys($shard, $to, $from, 0, qr/:stream$/);
$to->execute('CLUSTER', 'SETSLOT', $cluster->slot($shard), 'STABLE');
$client->wait_for('connected');
$pg->safe_psql('postgres', "INSERT INTO t SELECT i, '$user' FROM generate_series(11, 13) i");
$client->wait_row(13);
is_deeply([ map { $_->{payload}{after}{id} } $client->notifications ], [ 11 .. 13 ], 'the new session receives only new rows');

done_testing();
