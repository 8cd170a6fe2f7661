# Tests that relays wait if the target of an interrupted move fails, then its replica, which has taken over, and the source.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $MOVED   = qr/:(?:stream|meta|progress:clairon)$/;
my $cluster = Clairon::Test::store_cluster(primaries => 5, replicas => 0, shards => 3);
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $shard = $cluster->shard_of('u1');
my $source = $cluster->primary_of($shard);
my %used = map { $_->{port} => 1 } $cluster->primaries;
my ($target) = grep { !$used{ $_->{port} } } @{ $cluster->{nodes} };

sub replica_of
{
    my ($primary) = @_;
    my $replica = $cluster->add_node;
    $cluster->replicate($replica, $primary);
    $cluster->wait_replicated;
    return $replica;
}
sub wait_takeover { my ($node) = @_; return wait_until("$node->{name} takes over", sub { eval { $node->execute('ROLE')->[0] eq 'master' } }) }

my ($source_replica, $target_replica) = map { replica_of($_) } $source, $target;
my $relay = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'gate.ping' => '1h' });

sub key { return "clairon:{$shard}:$_[0]" }

$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(1, 10) i});
wait_until('the rows are stored', sub { $cluster->stored == 10 });
my $mark = $relay->log_mark;
$cluster->begin_move($shard, $target);
$cluster->move_keys($shard, $source, $target, 0, $MOVED);
$relay->wait_for_log(qr/slot of a shard is moving: waiting/, from => $mark);
wait_until('the replica of the target has the keys', sub { $target_replica->execute('CLUSTER', 'COUNTKEYSINSLOT', $cluster->slot($shard)) == 3 });
$target->kill9;
wait_takeover($target_replica);
$_->kill9 for $target_replica, $source;
wait_takeover($source_replica);
$source_replica->execute('CLUSTER', 'SETSLOT', $cluster->slot($shard), 'STABLE');
wait_until('both have failed', sub { 2 == grep { my $id = $_->{id}; $source_replica->execute('CLUSTER', 'NODES') =~ /^$id \S+ master,fail /m } $target, $target_replica });
$mark = $relay->log_mark;
# A relay that uses the node creates its keys.
wait_until('the relay waits for a node of the move, or uses the shard', sub {
    $relay->log_text($mark) =~ /(?:could not count the keys of a shard on another node: waiting.*){2}/s || $source_replica->execute('EXISTS', key('meta')) });
is($source_replica->execute('EXISTS', key('meta')), 0, 'the relay waits for the keys on the replica');

done_testing();
