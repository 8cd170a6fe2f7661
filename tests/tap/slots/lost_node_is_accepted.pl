# Tests that a shard whose move was interrupted by the loss of both nodes waits until a person accepts their loss with
# `clairon store accept`: the log names node, slot and command, all relays follow the decision, also those that start
# later, clients receive a gap, the doctor shows the decision, and it holds when a lost node returns.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Doctor qw(doctor);
use JSON ();
use Test::More;

my $NOT_YET = qr/could not count the keys of a shard on another node: waiting/;
my $cluster = Clairon::Test::store_cluster(replicas => 0, shards => 3);
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my %conf   = ('store.min_replicas' => 0, 'gate.ping' => '1h');
my $shard  = $cluster->shard_of('u1');
my $slot   = $cluster->slot($shard);
my $source = $cluster->primary_of($shard);
my $target = $cluster->add_node;
my $replica = $cluster->add_node;
$cluster->replicate($replica, $source);
$cluster->wait_replicated;
my ($other) = grep { $_ != $source } $cluster->primaries;
my $relay  = Clairon::Test::relay($pg, $cluster, conf => {%conf});
my $second = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => {%conf});

sub key { return "clairon:{$shard}:$_[0]" }
sub accept_loss { return $relay->run('store', 'accept', @_) }

# Returns the warnings of the doctor's check.
sub warnings_of
{
    my ($check) = @_;
    local $Clairon::Test::Doctor::relay = $relay;
    return map { $_->{detail} } grep { $_->{check} eq $check && $_->{level} eq 'warn' } @{ JSON::decode_json((doctor('--json'))[1])->{checks} };
}

my $client = $relay->client('u1');
$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(1, 10) i});
$client->wait_row(10);
is($cluster->execute('HGET', key('meta'), 'place'), $source->{id}, 'the node of the shard is stored');

# ---- both nodes of a move are lost; the replica of the source does not know of the move

my @marks = map { $_->log_mark } $relay, $second;
$cluster->begin_move($shard, $target);
$cluster->move_keys($shard, $source, $target, 0, qr/:(?:stream|meta|progress:clairon)$/);
$_->wait_for_log(qr/slot of a shard is moving: waiting/) for $relay, $second;
wait_until('the replica is in sync', sub { $source->execute('INFO', 'replication') =~ /^slave0:.*offset=(\d+).*^master_repl_offset:\1\r?$/ms });
$_->kill9 for $source, $target;
wait_until('the replica takes over', sub { eval { $replica->execute('ROLE')->[0] eq 'master' } });
$replica->execute('CLUSTER', 'SETSLOT', $slot, 'STABLE');
my $line = $relay->wait_for_log(qr/$NOT_YET.*node="?$target->{id}.*/, from => $marks[0]);
like($line, qr/command="clairon store accept $shard --without $target->{id}" slot=$slot\b/, 'the log names the command and the slot');
$second->wait_for_log($NOT_YET, from => $marks[1]);
$_->stop, $_->start for $relay, $second;
@marks = map { $_->log_mark } $relay, $second;
$relay->wait_for_log($NOT_YET, from => $marks[0]);
is($replica->execute('EXISTS', key('meta')), 0, 'a relay that starts waits too');

# ---- what is not accepted

my ($code, $out, $err) = accept_loss($shard, '--without', 'a' x 40);
is("$code $err", "1 clairon store: no other primary of the cluster has this ID or address: @{[ 'a' x 40 ]}\n", 'an unknown node is rejected');
($code, $out, $err) = accept_loss($shard, '--without', $other->{id});
is("$code $err", "1 clairon store: node $other->{id} replies, and has 0 keys of shard $shard: no shard waits for it\n", 'a node that replies is rejected');
($code, $out, $err) = accept_loss(7, '--without', $target->{id});
is("$code $err", "1 clairon store: no shard 7: the store has 3\n", 'an unknown shard is rejected');
is((accept_loss(@$_))[0], 2, "wrong usage is rejected: @$_") for [$shard], [ 'x', '--without', $target->{id} ], [ '--without', $target->{id} ];
is($replica->execute('EXISTS', key('meta')), 0, 'nothing was stored');

# ---- a person accepts the loss of both nodes

($code, $out, $err) = accept_loss($shard, '--without', "127.0.0.1:$target->{port}");
is("$code $out", "0 shard $shard is used without the keys on node $target->{id}\n", 'the loss of the target is accepted, by its address');
like($err, qr/^component=audit .* actor="\w+" act="accept" object="shard $shard without node $target->{id}"$/m, 'the decision is audited');
my $mark = $relay->log_mark;
$relay->wait_for_log(qr/$NOT_YET.*node="?$source->{id}/, from => $mark);
is((accept_loss($shard, '--without', $source->{id}))[0], 0, 'the loss of the source is accepted, by its ID');
$_->wait_ready for $relay, $second;
like($relay->log_text($marks[0]), qr/component=audit level=warn .*shard=$shard without="$target->{id} $source->{id}"/, 'the relay audits that it follows the decision');
is($replica->execute('HGET', key('meta'), 'place'), $replica->{id}, 'the new node of the shard is stored');
$client = $second->client('u1', pos => $client->pos);
$client->wait_for('connected');
$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(11, 15) i});
$client->wait_row(15);
is($client->gaps, 'epoch', 'the user receives a gap');
is(join(' ', warnings_of('abandoned keys')), "127.0.0.1:$replica->{port}: shard $shard is used without the keys on $target->{id} $source->{id}", 'the doctor shows the decision');

# ---- the target returns with its keys

$target->launch;
$target->wait_loaded;
$cluster->wait_discovered;
cmp_ok($target->execute('CLUSTER', 'COUNTKEYSINSLOT', $slot), '>', 0, 'the target still has its keys');
$second->restart;
$client = $second->client('u1', pos => $client->pos);
ok($client->wait_for('connected')->{resumed}, 'the shard is used without them');

done_testing();
