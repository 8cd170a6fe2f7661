# Tests that relays wait for the whole shard if both nodes of an interrupted move fail: the replica of the source does not
# know of the move, and takes over while the target is away. Other failed primaries are not waited for. A node that rejects
# the relay, or denies the count of its keys, may have some.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $MOVED   = qr/:(?:stream|meta|progress:clairon)$/;
my $NOT_YET = qr/could not count the keys of a shard on another node/;
my $SEVERAL = qr/keys of a shard are on several nodes/;

# With five primaries, the other three elect the replicas.
my $cluster = Clairon::Test::store_cluster(primaries => 5, replicas => 0, shards => 3);
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $shard = $cluster->shard_of('u1');
my $last = 0;

sub replica_of
{
    my ($primary) = @_;
    my $replica = $cluster->add_node;
    $cluster->replicate($replica, $primary);
    $cluster->wait_replicated;
    return $replica;
}

my $source = $cluster->primary_of($shard);
my %used = map { $_->{port} => 1 } $cluster->primaries;
my ($target, $unrelated) = grep { !$used{ $_->{port} } } @{ $cluster->{nodes} };
my ($source_replica, $target_replica) = map { replica_of($_) } $source, $target;
my $relay = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h' });
my $client = $relay->client('u1');
my ($epoch, @earlier);

sub insert
{
    my ($count) = @_;
    my $from = $last + 1;
    $last += $count;
    $pg->safe_psql('postgres', "INSERT INTO t SELECT i, 'u1' FROM generate_series($from, $last) i");
    return;
}

sub key       { return "clairon:{$shard}:$_[0]" }
sub exists_on { my ($node, $name) = @_; return eval { $node->execute('EXISTS', key($name)) } }
sub ids       { my @ids = (@earlier, map { $_->{payload}{after}{id} } $client->notifications); return @ids }

sub check
{
    my ($when) = @_;
    eval { $client->run_until("$when: the rows arrive", sub { $client->ack_received; ids() >= $last }) } or diag $@;
    is_deeply([ ids() ], [ 1 .. $last ], "$when: the user receives each row once, in order");
    $client->run_until("$when: all notifications are acknowledged", sub { $client->ack_received; $cluster->pending == 0 });
    is($cluster->stored, $last, "$when: each row is stored once");
    $epoch //= $cluster->execute('HGET', key('meta'), 'epoch');
    return is($cluster->execute('HGET', key('meta'), 'epoch'), $epoch, "$when: the epoch is the same");
}

# Moves a part of the keys, so that the relay meets the moving slot.
sub interrupt_move
{
    my ($from, $to) = @_;
    my $mark = $relay->log_mark;
    $cluster->begin_move($shard, $to);
    $cluster->move_keys($shard, $from, $to, 0, $MOVED);
    # The second time, it has read the nodes between.
    $relay->wait_for_log(qr/slot of a shard is moving: waiting/, from => $mark);
    return;
}

sub complete_move
{
    my ($from, $to) = @_;
    $cluster->begin_move($shard, $to);
    1 while $cluster->move_keys($shard, $from, $to, 10);
    $cluster->end_move($shard, $from, $to);
    return;
}

sub wait_in_sync
{
    my ($node, $replica) = @_;
    return wait_until("$replica->{name} has all data", sub { $node->execute('INFO', 'replication') =~ /^slave0:.*offset=(\d+).*^master_repl_offset:\1\r?$/ms });
}

sub wait_takeover { my ($node) = @_; return wait_until("$node->{name} takes over", sub { eval { $node->execute('ROLE')->[0] eq 'master' } }) }

# Since Valkey 8, a replica knows of the move of its primary. It would reply with ASK after it takes over, so that the relay
# waits for another reason. Other stores ignore the command.
sub cancel_move { my ($node) = @_; return $node->execute('CLUSTER', 'SETSLOT', $cluster->slot($shard), 'STABLE') }

insert(10);
check('initially');

# ---- each node has a replica; that of the target takes over later

interrupt_move($source, $target);
wait_in_sync($source, $source_replica);
wait_in_sync($target, $target_replica);
$cluster->pause($target_replica);
$_->kill9 for $source, $target;
wait_takeover($source_replica);
cancel_move($source_replica);
my $mark = $relay->log_mark;
insert(5);
# A relay that uses the node creates its keys.
wait_until('the relay waits for the target, or uses the shard', sub { $relay->log_text($mark) =~ $NOT_YET || exists_on($source_replica, 'meta') });
$cluster->resume($target_replica);
wait_takeover($target_replica);
$relay->wait_for_log($SEVERAL, from => $mark);
is(exists_on($source_replica, 'stream'), 0, 'the relay has not created the missing keys');
complete_move($source_replica, $target_replica);
# The source was a node of this move, so a person decides that it is lost.
$cluster->remove_node($source);
$cluster->wait_agreed;
check('both nodes have failed');

# ---- the former target is still listed as a failed primary, without slots; another failed primary has slots

$unrelated->kill9;
wait_until('the cluster considers it failed', sub { $target_replica->execute('CLUSTER', 'NODES') =~ /^$unrelated->{id} \S+ master,fail /m });
my ($next) = grep { $_ != $target_replica } $cluster->primaries;
$mark = $relay->log_mark;
interrupt_move($target_replica, $next);
insert(5);
complete_move($target_replica, $next);
$cluster->wait_agreed;
check('a slot moves while failed primaries are listed');
unlike($relay->log_text($mark), $NOT_YET, 'the relay does not wait for failed primaries that cannot have keys');
$unrelated->launch;
$unrelated->wait_loaded;

# ---- the target has neither slots nor a replica: it is not replaced

my $empty = $cluster->add_node;
my $next_replica = replica_of($next);
my ($stored) = $cluster->entries(key('stream'));
$cluster->execute_bytes('XADD', key('errors'), '*', id => $stored->{id}, reason => 'exhausted', attempts => 0, users => '["u1"]', map { $_ => $stored->{$_} } qw(data route));
interrupt_move($next, $empty);
wait_in_sync($next, $next_replica);
$mark = $relay->log_mark;
$_->kill9 for $next, $empty;
wait_takeover($next_replica);
cancel_move($next_replica);
insert(5);
$relay->wait_for_log(qr/$NOT_YET.*server=\S*:$empty->{port}\b/, from => $mark);
is(exists_on($next_replica, 'stream'), 0, 'the relay waits for the target without slots');
isnt(($relay->run('errors', 'redrive', '--all'))[0], 0, 'a command does not redrive a notification of this shard');
is(exists_on($next_replica, 'stream'), 0, 'it creates no keys');

# ---- it starts again, but rejects the relay

$empty->launch;
$empty->wait_loaded;
$empty->execute('CONFIG', 'SET', 'requirepass', 'secret');
$mark = $relay->log_mark;
$relay->wait_for_log(qr/$NOT_YET.*error="NOAUTH.*server=\S*:$empty->{port}\b/, from => $mark);
is(exists_on($next_replica, 'stream'), 0, 'the relay waits for the node that rejects the connection');
$empty->execute('CONFIG', 'SET', 'requirepass', '');
$relay->wait_for_log($SEVERAL, from => $mark);

# ---- it denies the count to a relay that does not know of the move

$relay->stop;
SKIP: {
    Clairon::Test::StoreCluster::has_bus_port() or skip 'this store cannot deny a subcommand', 3;
    $empty->execute('ACL', 'SETUSER', 'default', '-cluster|countkeysinslot');
    $mark = $relay->log_mark;
    $relay->start;
    $relay->wait_for_log(qr/$NOT_YET.*error="NOPERM.*hint="the relay's ACL user needs.*server=\S*:$empty->{port}\b/, from => $mark);
    my ($status, undef, $error) = $relay->run('errors', 'list');
    isnt($status, 0, 'no errors are listed');
    like($error, qr/could not count the keys of shard \d on another node: .*NOPERM/, 'the message contains the reason');
    is(exists_on($next_replica, 'stream'), 0, 'the relay waits for the node that denies the count');
    $empty->execute('ACL', 'SETUSER', 'default', '+cluster|countkeysinslot');
    $relay->wait_for_log($SEVERAL, from => $mark);
    $relay->stop;
}
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log($SEVERAL, from => $mark);
$cluster->wait_discovered;
complete_move($next_replica, $empty);
$relay->wait_ready;
@earlier = ids();
$client = $relay->client('u1', pos => $client->pos);
check('the target without slots has failed');

done_testing();
