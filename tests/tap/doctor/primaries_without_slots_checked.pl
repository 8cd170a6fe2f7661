# Tests that the doctor checks a primary of the cluster that has no slots: it may have keys of an interrupted move.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Doctor qw(doctor);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my $relay = $Clairon::Test::Doctor::relay = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0 });
my @others = @{ $cluster->{nodes} };
my $target = $cluster->add_node;
my $at     = "127.0.0.1:$target->{port}";

sub checks  { my ($name, @arguments) = @_; return grep { $_->{area} eq 'store' && $_->{check} =~ /^$name$/ } @{ JSON::decode_json((doctor('--json', @arguments))[1])->{checks} } }
sub details { return map { $_->{detail} } checks(@_) }
sub errors  { return map { "$_->{check}: $_->{detail}" } grep { !$_->{ok} } checks('.*', @_) }
sub hinted  { return map { "$_->{check}: $_->{detail}: $_->{hint}" } grep { $_->{level} eq 'warn' } checks(@_) }
sub url     { my ($host, @nodes) = @_; return '--store.url=redis+cluster://' . join ',', map { "$host:$_->{port}" } @nodes }

is_deeply([ errors() ], [], 'a cluster with a primary without slots passes all checks');
is(scalar details('connection'), 4, 'each primary is checked once');
is_deeply([ grep { /^$at/ } details('shards') ], [ "$at: primary without slots" ], 'the primary without slots is reported');
is_deeply([ sort map { /: 127\.0\.0\.1:(\d+): no replica/ } hinted('replicas') ], [ sort map { $_->{port} } @others ],
    'only primaries with slots need a replica');
is_deeply([ sort(details('connection', url('127.0.0.1', $target))) ], [ sort(details('connection')) ],
    'the same nodes are checked if the URL contains only the primary without slots');
SKIP: {
    Clairon::Test::StoreCluster::has_bus_port() or skip 'this store cannot announce host names', 1;
    $_->execute('CONFIG', 'SET', 'cluster-announce-hostname', 'localhost') for @others;
    is(scalar details('connection', url('localhost', @others)), 4, 'CLUSTER SLOTS with addresses and CLUSTER NODES with names: each node is checked once');
    $_->execute('CONFIG', 'SET', 'cluster-announce-hostname', '') for @others;
}

# The first move of a slot to the node is interrupted, and the slot is set to STABLE.
my $source = $cluster->begin_move(3, $target);
my $slot   = $cluster->slot(3);
is_deeply([ sort map { /^moving slots: \S+:(\d+): \[$slot-[<>]-/ } hinted('moving slots') ], [ sort $source->{port}, $target->{port} ],
    'both nodes report a slot that moves');
$cluster->move_keys(3, $source, $target, 2);
$_->execute('CLUSTER', 'SETSLOT', $slot, 'STABLE') for $source, $target;
my $keys = qr/^keys of shards: $at: 2 keys of slot $slot \(shard 3\), which 127\.0\.0\.1:$source->{port} has: The shard waits/;
like(join("\n", hinted('keys of shards')), $keys, 'keys on the primary without slots are reported');
like(join("\n", hinted('keys of shards', url('127.0.0.1', $target))), $keys, 'they are reported if the URL contains only this node');
SKIP: {
    Clairon::Test::StoreCluster::has_bus_port() or skip 'this store cannot deny a subcommand', 1;
    $_->execute('ACL', 'SETUSER', 'half', 'on', '>pw', '~*', '+@all', '-cluster|nodes') for @others;
    my $half = url('127.0.0.1', @others) =~ s{//}{//half:pw@}r;
    is_deeply([ grep { !/: .*NOPERM .*cluster\|nodes/ } errors($half) ], [], 'without CLUSTER NODES, only the missing permission is reported');
}

# The node rejects the relay, then it does not reply; it fails; it is removed.
$target->execute('CONFIG', 'SET', 'requirepass', 'pw');
like(join("\n", errors()), qr/^connection: $at: .*NOAUTH/, 'a node that rejects the password is an error');
$_->execute('CONFIG', 'SET', 'cluster-node-timeout', 600_000) for @others;
$target->kill9;
my $hint = qr/: Start this node.*CLUSTER FORGET on all other nodes/;
like(join("\n", hinted('connection')), qr/\Aconnection: $at: .*refused$hint/, 'a node that does not reply causes a warning');
$_->execute('CONFIG', 'SET', 'cluster-node-timeout', 2000) for @others;
wait_until('all nodes consider it failed', sub { !grep { $_->execute('CLUSTER', 'NODES') !~ /^$target->{id} .* master,fail /m } @others });
like(join("\n", hinted('connection')), qr/\Aconnection: $at: failed primary without slots, ID $target->{id}$hint/, 'a failed node causes a warning');
is_deeply([ errors() ], [], 'it is no error');
$_->execute('CLUSTER', 'FORGET', $target->{id}) for @others;
is_deeply([ hinted('connection') ], [], 'the command in the hint removes the warning');

done_testing();
