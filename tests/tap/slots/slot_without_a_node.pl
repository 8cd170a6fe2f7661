# Tests that a relay reports slots that no node has: at its start, and when it has used the shard before.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg      = Clairon::Test::postgresql('main');
my $cluster = Clairon::Test::store_cluster(replicas => 0, shards => 3);
my %conf    = ('store.min_replicas' => 0);
my $slot    = $cluster->slot(1);
my $node    = $cluster->primary_of(1);
my $first   = Clairon::Test::relay($pg, $cluster, conf => {%conf});

$_->execute('CLUSTER', 'DELSLOTS', $slot) for $cluster->alive;
my $relay = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => {%conf}, wait => 0);
my $log = $relay->wait_for_log(qr/shards have no primary: waiting.*shards="1"/);
like($log, qr/level=warn.*shards have no primary.*hint="no node has their slots/, 'a relay that starts warns of the slot');
$log = $first->wait_for_log(qr/shard is unavailable: waiting/);
like($log, qr/level=info.*shard is moving.*CLUSTERDOWN.*level=warn.*shard is unavailable: waiting.*reason="CLUSTERDOWN.*hint=".*clairon doctor/s,
    'a relay that used the shard first expects a move, then warns');

$node->execute('CLUSTER', 'ADDSLOTS', $slot);
$node->execute('CLUSTER', 'BUMPEPOCH');
$relay->wait_ready;
wait_until('all shards are available', sub { $first->metric('clairon_store_unavailable_shards') == 0 });
pass('both relays use the shard again');

done_testing();
