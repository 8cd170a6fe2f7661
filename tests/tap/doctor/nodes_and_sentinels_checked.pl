# Tests that the doctor checks every node of a cluster, and every sentinel, primary and replica.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Doctor qw(doctor failed_checks finds repaired warns);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "max_slot_wal_keep_size = 1GB\n");
$pg->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text); ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'owner')});

sub all_checks { my ($name, @arguments) = @_; return grep { (!$name || $_->{check} eq $name) && $_->{area} eq 'store' } @{ JSON::decode_json((doctor('--json', @arguments))[1])->{checks} } }
sub details { return map { $_->{detail} } all_checks(@_) }
sub hinted { return map { "$_->{detail}: $_->{hint}" } grep { $_->{level} eq 'warn' } all_checks(@_) }

my $cluster = Clairon::Test::store_cluster();
my $relay = $Clairon::Test::Doctor::relay = Clairon::Test::relay($pg, $cluster, conf => { 'gate.max_connections' => 100 });
chmod 0600, $relay->{file};
repaired('a healthy cluster passes all checks');
# A cluster lists replicas only after they have received data.
wait_until('each node is checked', sub { 6 == details('connection') });
is(join(' ', details('slots')), '16384 of 16384 covered, 6 nodes', 'the check counts slots and nodes');
is((grep { /: (Valkey|version) [\d.]+, up for/ } details('server')), 6, 'the version of each node is reported');
my @shards = details('shards');
is(scalar @shards, 3, 'each primary is reported');
is_deeply([ sort { $a <=> $b } map { split /,/ } map { /: primary of shards ([\d,]+)$/ } @shards ], [ 0 .. 15 ], 'the check lists the shards of a primary');
is((grep { /: replica of 127\.0\.0\.1:\d+$/ } details('role')), 3, 'each replica is reported');
is((grep { /: 1 replica, 1 required$/ } details('store.min_replicas')), 3, 'the number of replicas is reported');

my ($primary) = $cluster->primaries;
my ($replica) = grep { $_->execute('ROLE')->[0] eq 'slave' } @{ $cluster->{nodes} };
my $at = '127\.0\.0\.1:';
finds('a primary with few replicas', 'store: store.min_replicas', qr/^$at\d+: 1 replica, 2 required$/, qr/lower \[store\] min_replicas/, '--store.min_replicas=2');
$replica->execute('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
finds('eviction on a replica', 'store: maxmemory-policy', qr/^$at$replica->{port}: allkeys-lru$/, qr/noeviction/);
$replica->execute('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
$replica->execute('CONFIG', 'SET', 'appendonly', 'no');
finds('a replica without an append-only file', 'store: appendonly', qr/^$at$replica->{port}: no$/, qr/appendonly yes/);
$replica->execute('CONFIG', 'SET', 'appendonly', 'yes');
repaired('the repaired replica passes all checks');
$primary->execute('CONFIG', 'SET', 'cluster-require-full-coverage', 'yes');
like(join("\n", hinted('cluster-require-full-coverage')), qr/^$at$primary->{port}: yes: A failed primary.*cluster-require-full-coverage no/, 'a node that rejects requests while another node is lost causes a warning');
$primary->execute('CONFIG', 'SET', 'cluster-require-full-coverage', 'no');
is_deeply([ hinted('cluster-require-full-coverage') ], [], 'the command in the hint removes the warning');

# The move of a slot is incomplete.
my $target = (grep { $_ != $cluster->primary_of(3) } $cluster->primaries)[0];
my $source = $cluster->begin_move(3, $target);
my $moving = $cluster->slot(3);
is_deeply([ sort map { /^$at(\d+: \[$moving-[<>]-)/ } hinted('moving slots') ], [ sort "$source->{port}: [$moving->-", "$target->{port}: [$moving-<-" ],
    'both nodes report a slot that moves');
like((hinted('moving slots'))[0], qr/CLUSTER/, 'the hint names the page');
$cluster->move_keys(3, $source, $target, 2);
$_->execute('CLUSTER', 'SETSLOT', $moving, 'STABLE') for $source, $target;
is_deeply([ hinted('moving slots') ], [], 'a move that was closed is not reported');
like(join("\n", hinted('keys of shards')), qr/^$at$target->{port}: [12] keys of slot $moving \(shard 3\), which 127\.0\.0\.1:$source->{port} has: The shard waits/, 'keys on another node are reported');
$cluster->begin_move(3, $target);
# Until the relay noticed, it may have written these keys again (docker/CLUSTER.md).
wait_until('the lease has expired', sub { !grep { /:retry_lease$/ } map { @{ $_->execute('CLUSTER', 'GETKEYSINSLOT', $moving, 100) } } $source, $target });
for my $key ('heartbeat', 'covered')
{
    $target->execute('ASKING');
    $target->execute('DEL', "clairon:{3}:$key");
}
1 while $cluster->move_keys(3, $source, $target, 10);
$cluster->end_move(3, $source, $target);
is_deeply([ hinted('moving slots'), hinted('keys of shards') ], [], 'a slot that has moved is not reported');
# Until the relay uses the shard on its new node, its slot in PostgreSQL is inactive, which the doctor reports too.
$relay->wait_for_log(qr/shards moved to another server/);
wait_until('the feed continues', sub { ($relay->get('/readyz'))[0] == 200 && $relay->metric('clairon_feed_connected') == 1 });

# Permissions are checked on every node.
for my $node (@{ $cluster->{nodes} })
{
    $node->execute('ACL', 'SETUSER', 'half', 'on', '>pw', '~clairon:*', '+@all', '-@dangerous', '+info', '+config|get', '+cluster|slots', '+cluster|info', '+cluster|nodes', '+cluster|countkeysinslot');
}
my $url = '--store.url=' . $cluster->url =~ s{//}{//half:pw@}r;
repaired('the permissions in the hint are sufficient', $url);
$replica->execute('ACL', 'SETUSER', 'half', '-xadd');
finds('a missing permission on a replica', 'store: commands', qr/^$at$replica->{port}: .*not XADD/, qr/ACL user needs/, $url);
SKIP: {
    Clairon::Test::StoreCluster::has_bus_port() or skip 'this store cannot deny a subcommand', 2;
    $replica->execute('ACL', 'SETUSER', 'half', '+xadd');
    $primary->execute('ACL', 'SETUSER', 'half', '-cluster|countkeysinslot');
    finds('a user that cannot count keys', 'store: keys of shards', qr/^$at$primary->{port}: .*NOPERM/, qr/countkeysinslot/, $url);
}

# The number of shards differs, and the URL is of another kind.
finds('another number of shards', 'store: store.shards', qr/created with \[store\] shards = 16, not 8/, qr/Restore the old number/, '--store.shards=8');
finds('a node as the only server', 'store: cluster mode', qr/^on$/, qr/redis\+cluster:/, "--store.url=redis://127.0.0.1:$primary->{port}", '--store.shards=16');

# A node in the URL was removed from the cluster, but still runs.
my $removed = $cluster->add_node;
$cluster->delete_node($removed);
for my $ports ([ $removed, $primary ], [ $primary, $removed ])
{
    my $mixed = '--store.url=redis+cluster://' . join ',', map { "127.0.0.1:$_->{port}" } @$ports;
    warns('a removed node in the URL', 'store: store.url', qr/^$at$removed->{port}: not a node of the cluster$/, qr/remove it from \[store\] url/, $mixed);
    is(join(' ', details('slots', $mixed)), '16384 of 16384 covered, 6 nodes', 'the slots of the other nodes count');
}
finds('a URL with only a removed node', 'store: slots', qr/^0 of 16384 covered/, qr/^Name nodes of the cluster/, "--store.url=redis+cluster://127.0.0.1:$removed->{port}");
$removed->kill9;

# The first node lists slots without an owner; then a node does not reply.
my ($seed) = @{ $cluster->{nodes} };
my $slot = $cluster->slot_of_key('{7}');
my $owner = $cluster->primary_of_slot($slot);
my $seeds = join ',', map { "127.0.0.1:$_->{port}" } $owner, $seed;
$owner->execute('CLUSTER', 'DELSLOTS', $slot);
finds('a slot without a node', 'store: slots', qr/^16383 of 16384 covered/, qr/--cluster fix/, "--store.url=redis+cluster://$seeds");
$owner->execute('CLUSTER', 'ADDSLOTS', $slot);
$replica->kill9;
wait_until('the primary has no replica', sub { grep { @{ $_->execute('ROLE')->[2] } == 0 } $cluster->primaries });
finds('a primary without a replica', 'store: store.min_replicas', qr/^$at\d+: 0 replicas, 1 required$/, qr/start them, or lower/);
like(join("\n", hinted('replicas', '--store.min_replicas=0')), qr/^$at\d+: no replica: .*add a replica/m,
    'a missing replica causes a warning if no replica is required');
$relay->stop;
$cluster->end;
like(failed_checks()->{'store: connection'}{hint}, qr/Start this node/, 'a cluster that does not reply is reported');

# The sentinels, their primary and its replicas are checked.
my $sentinels = Clairon::Test::sentinels();
$pg->drop_slot('clairon');
$relay = $Clairon::Test::Doctor::relay = Clairon::Test::relay($pg, $sentinels, conf => { 'gate.max_connections' => 100 });
chmod 0600, $relay->{file};
repaired('a healthy primary with sentinels passes all checks');
is(scalar details('connection'), 3, 'the primary and its replicas are checked');
is(scalar(grep { /: primary $at\d+, 2 replicas, 2 other sentinels, quorum 2$/ } details('sentinel')), 3, 'each sentinel is checked');
is(join(' ', details('sentinels')), '3 of 3 reachable, 2 required for a failover', 'a failover is possible');
($replica) = grep { $_->execute('ROLE')->[0] eq 'slave' } @{ $sentinels->{nodes} };
$replica->execute('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
finds('eviction on a replica', 'store: maxmemory-policy', qr/^$at$replica->{port}: allkeys-lru$/, qr/noeviction/);
$replica->execute('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
finds('a primary with few replicas', 'store: store.min_replicas', qr/2 replicas, 3 required$/, qr/lower/, '--store.min_replicas=3');
# The sentinels' user, with the rules of docker/CLUSTER.md, and without one of them.
$relay->write_file(my $word = Clairon::Test::scratch() . '/word', "word\n");
chmod 0600, $word;
my @user = ('--store.sentinel_user=watcher', "--store.sentinel_password_file=$word");
my @rules = qw(resetchannels &+switch-master +sentinel|master +sentinel|replicas +subscribe);
for my $missing (1 .. $#rules)
{
    $_->execute('ACL', 'SETUSER', 'watcher', 'reset', 'on', '>word', @rules[ grep { $_ != $missing } 0 .. $#rules ]) for @{ $sentinels->{sentinels} };
    my ($found) = grep { $_->{check} =~ /^sentinel/ && $_->{hint} =~ /\Q$rules[$missing]\E/ } all_checks(undef, @user);
    like($found ? $found->{detail} : 'not found', qr/^$at\d+: .*NOPERM/, "a sentinels' user without $rules[$missing] is reported");
}
$_->execute('ACL', 'SETUSER', 'watcher', @rules) for @{ $sentinels->{sentinels} };
repaired('the rules in the hint are sufficient', @user);
is_deeply([ hinted('sentinel user', @user) ], [], 'the rules in the hint remove the warning');
finds('an unknown primary', 'store: sentinel', qr/No such master/, qr/sentinel monitor/, '--store.url=' . $sentinels->url =~ s{/\w+$}{/other}r);
my $astray = Clairon::Test::relay($pg, $sentinels, wait => 0, conf => { 'store.url' => $sentinels->url =~ s{/\w+$}{/other}r });
$astray->wait_for_log(qr/could not find the primaries of the store" source="?sentinels"? primary="?other"? error=".*No such master/);
pass('the log of a relay names the primary that the sentinels do not know');
$astray->stop;
my $switching = Clairon::Test::proxy($sentinels->{sentinels}[0]{socket}, edit => sub { $_[0] =~ s/\$6\r\nmaster\r\n/\$27\r\nmaster,failover_in_progress\r\n/ });
finds('a failover', 'store: sentinel', qr/primary $at\d+, failover in progress/, qr/wait for the failover/, '--store.url=redis+sentinel://127.0.0.1:' . $switching->port . '/clairon');
my ($first, $second) = @{ $sentinels->{sentinels} };
$first->kill9;
my $found = finds('a sentinel that does not reply', 'store: sentinel', qr/^$at$first->{port}: .*refused/, qr/Start this sentinel/);
ok(!$found->{'store: sentinels'}, 'two of three sentinels are sufficient');
$second->kill9;
finds('too few sentinels', 'store: sentinels', qr/^1 of 3 reachable, 2 required/, qr/start the other sentinels/);

done_testing();
