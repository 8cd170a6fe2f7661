# Tests that relays wait for a node that has keys of a shard, and fails after its slots were moved to another node.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $MOVED   = qr/:(?:stream|meta|progress:clairon)$/;
my $cluster = Clairon::Test::store_cluster(primaries => 5, replicas => 0, shards => 3, options => [ '--cluster-allow-replica-migration', 'no' ]);
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $shard = $cluster->shard_of('u1');
my $source = $cluster->primary_of($shard);
my %used = map { $_->{port} => 1 } $cluster->primaries;
my ($target, $other) = grep { !$used{ $_->{port} } } @{ $cluster->{nodes} };
my $relay = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'gate.ping' => '1h' });

sub key { return "clairon:{$shard}:$_[0]" }

$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(1, 10) i});
wait_until('the rows are stored', sub { $cluster->stored == 10 });
my $mark = $relay->log_mark;
$cluster->begin_move($shard, $target);
$cluster->move_keys($shard, $source, $target, 0, $MOVED);
$relay->wait_for_log(qr/slot of a shard is moving: waiting/, from => $mark);
$_->execute('CLUSTER', 'SETSLOT', $cluster->slot($shard), 'STABLE') for $source, $target;
$relay->wait_for_log(qr/keys of a shard are on several nodes/, from => $mark);
for my $slot (map { $_->[0] .. $_->[1] } grep { $_->[2][1] == $target->{port} } @{ $target->execute('CLUSTER', 'SLOTS') })
{
    $other->execute('CLUSTER', 'SETSLOT', $slot, 'NODE', $other->{id});
    eval { $target->execute('CLUSTER', 'SETSLOT', $slot, 'NODE', $other->{id}) };
}
$other->execute('CLUSTER', 'BUMPEPOCH');
wait_until('the target has no slots', sub { $source->execute('CLUSTER', 'NODES') =~ /^$target->{id} \S+ master [^\n]*connected$/m });
$mark = $relay->log_mark;
$relay->wait_for_log(qr/keys of a shard are on several nodes/, from => $mark);
$target->kill9;
wait_until('the target has failed', sub { $source->execute('CLUSTER', 'NODES') =~ /^$target->{id} \S+ master,fail /m });
$mark = $relay->log_mark;
# A relay that uses the node creates its keys.
wait_until('the relay waits for the target, or uses the shard', sub {
    $relay->log_text($mark) =~ /(?:could not count the keys.*server=\S*:$target->{port}\b.*){2}/s || $source->execute('EXISTS', key('meta')) });
is($source->execute('EXISTS', key('meta')), 0, 'the relay waits for the failed node, which has keys');

done_testing();
