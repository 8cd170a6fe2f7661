# Tests that a completed move of a slot ends the wait for its keys, although an unrelated node rejects the relay.
use strict;
use warnings;

use Clairon::Test;
use Test::More;

my $cluster = Clairon::Test::store_cluster(primaries => 5, replicas => 0, shards => 3);
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $shard = $cluster->shard_of('u1');
my $source = $cluster->primary_of($shard);
my %used = map { $_->{port} => 1 } $cluster->primaries;
# It has slots, but no shard.
my ($target, $unrelated) = grep { !$used{ $_->{port} } } @{ $cluster->{nodes} };
$unrelated->execute('CONFIG', 'SET', 'requirepass', 'secret');
my $relay = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'gate.ping' => '1h' });
my $client = $relay->client('u1');
my $last = 0;

sub ids { return map { $_->{payload}{after}{id} } $client->notifications }

sub check
{
    my ($when) = @_;
    my $from = $last + 1;
    $last += 5;
    $pg->safe_psql('postgres', "INSERT INTO t SELECT i, 'u1' FROM generate_series($from, $last) i");
    $client->run_until("$when: the rows arrive", sub { $client->ack_received; ids() >= $last });
    return is_deeply([ ids() ], [ 1 .. $last ], "$when: the user receives each row once, in order");
}

check('before the move');
my $mark = $relay->log_mark;
$cluster->begin_move($shard, $target);
$cluster->move_keys($shard, $source, $target, 0, qr/:(?:stream|meta|progress:clairon)$/);
# The second time, the relay has read the nodes between.
$relay->wait_for_log(qr/slot of a shard is moving: waiting/, from => $mark);
1 while $cluster->move_keys($shard, $source, $target, 10);
$cluster->end_move($shard, $source, $target);
check('after the move');

done_testing();
