# Tests the store cluster and the sentinels of the tests: slots move, primaries fail over, nodes join and leave.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $cluster = Clairon::Test::store_cluster();
is(scalar $cluster->primaries, 3, 'three primaries share the shards');
$cluster->execute('SET', "clairon:{$_}:name", $_) for 0 .. 15;
is_deeply([ map { $cluster->execute('GET', "clairon:{$_}:name") } 0 .. 15 ], [ 0 .. 15 ], 'a key is written to its primary');

my $node = $cluster->add_node;
$cluster->move($_, $node) for 0 .. 3;
is_deeply([ map { $cluster->primary_of($_)->{port} } 0 .. 3 ], [ ($node->{port}) x 4 ], 'slots move to a node that joined');
is_deeply([ map { $cluster->execute('GET', "clairon:{$_}:name") } 0 .. 3 ], [ 0 .. 3 ], 'the keys move with the slots');

my $to   = ($cluster->primaries)[0] == $node ? ($cluster->primaries)[1] : ($cluster->primaries)[0];
my $from = $cluster->begin_move(0, $to);
is($from, $node, 'a move starts');
ok(!eval { $node->execute('MGET', 'clairon:{0}:name', 'clairon:{0}:none'); 1 }, 'commands with a missing key are rejected during a move');
like($@, qr/^TRYAGAIN|^ASK/, 'the rejection is the reply for a moving slot');
$cluster->move_keys(0, $from, $to, 10);
$cluster->end_move(0, $from, $to);
$cluster->wait_agreed;    # a node that leaves takes the slots with it that others still assign to it
is($cluster->execute('GET', 'clairon:{0}:name'), 0, 'the command is accepted after the move');
$cluster->move($_, $to), $cluster->wait_agreed for 1 .. 3;
$cluster->remove_node($node);
is(scalar $cluster->primaries, 3, 'a node without slots leaves');

my $former = $cluster->primary_of(7);
$former->kill9;
my $new = $cluster->wait_failover(7, $former);
is($cluster->execute('GET', 'clairon:{7}:name'), 7, 'a replica has the data of a killed primary');
$former->start;
wait_until('the former primary is a replica', sub { $former->execute('ROLE')->[0] eq 'slave' });

# ---- nodes without a handshake, and the target of a move whose source has failed

my $late = $cluster->new_node;
$late->wait_loaded;
$cluster->wait_discovered;
is(scalar(map { Clairon::Test::StoreCluster::unknown_to($_, $cluster->alive) } $cluster->alive), 0, 'nodes whose handshakes were forgotten discover each other');

$former = $cluster->begin_move(7, $late);
$former->kill9;
$cluster->wait_failover(7, $former);
wait_until('the target considers the source failed', sub { $late->execute('CLUSTER', 'NODES') =~ /^$former->{id} \S+ \S*\bfail\b/m });
$cluster->wait_discovered;
pass('the wait for all nodes ends while a node imports a slot from a failed one');

my $sentinels = Clairon::Test::sentinels();
$sentinels->execute('SET', 'name', 1);
my $primary = $sentinels->primary;
wait_until('the replicas have the key', sub { !grep { $_->execute('EXISTS', 'name') == 0 } $sentinels->alive });
$primary->kill9;
isnt($sentinels->wait_failover($primary), $primary, 'the sentinels promote a replica');
is($sentinels->execute('GET', 'name'), 1, 'the new primary has the data');
$primary->start;
wait_until('the former primary is a replica', sub { (eval { $primary->execute('ROLE')->[0] } // '') eq 'slave' });    # sentinels may cut connections

done_testing();
