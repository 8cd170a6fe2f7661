# Tests a relay that stops reading the shards of a node after the node was killed: the relay is ready again when the
# node returns.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg      = Clairon::Test::postgresql('main');
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my $relay   = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0 });

my $shared = $cluster->primary_of(0);
my ($shard) = grep { $cluster->primary_of($_) != $shared } 1 .. 15;
my ($user)  = grep { $cluster->shard_of($_) == $shard } map { "u$_" } 1 .. 999;
my $node    = $cluster->primary_of($shard);

my $client = $relay->client($user);
$client->close;
$node->kill9;
wait_until('the relay stops reading the shard', sub { $relay->metric('clairon_store_followed_shards') == 1 });
$node->start;
wait_until('all shards are available', sub { $relay->metric('clairon_store_unavailable_shards') == 0 });
wait_until('the relay is ready', sub { ($relay->get('/readyz'))[0] == 200 });
is($relay->metric('clairon_store_connected'), 1, 'the relay is ready');

done_testing();
