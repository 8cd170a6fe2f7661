# Tests that the commands of CLUSTER.md work as printed, with the store's own client, on each store: Redis, Valkey and
# KeyDB (STORE_SERVER). A server with data becomes a cluster of three primaries with a replica each, while a relay uses it.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Pages;
use Clairon::Test::StoreCluster;
use Test::More;

my $pages = Clairon::Test::Pages->new(Clairon::Test::new_folder('client'));
my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('one', 'USER', 'owner')});

# All nodes have the settings of the page.
my $settings = [ Clairon::Test::Store::as_arguments(Clairon::Test::Pages::directives('CLUSTER', 'Every node needs these settings:')) ];
my $cluster = Clairon::Test::StoreCluster->new(folder => Clairon::Test::new_folder('cluster'), options => $settings);
Clairon::Test::remember($cluster);
my $server = $cluster->new_node;
$server->stop;
my @as_node = @{ $server->{options} };
push @{ $server->{options} }, '--cluster-enabled', 'no';
unlink glob "$server->{folder}/nodes*.conf";
$server->start;
my $relay = Clairon::Test::relay($pg, $cluster, conf => { 'store.url' => "redis://127.0.0.1:$server->{port}", 'store.min_replicas' => 0 });
my $client = $relay->client('u1');
my $rows = 0;

sub type { my ($pattern, %options) = @_; return $pages->type('CLUSTER', $pattern, %options) }
sub insert { $rows++; return $pg->safe_psql('postgres', q{INSERT INTO one (owner) VALUES ('u1')}) }
sub address { return "127.0.0.1:$_[0]{port}" }

# Inserts a row, and waits until a new client has received it.
sub check_delivery
{
    my ($what) = @_;
    my $next = $relay->client('u1', pos => $client->pos);
    insert();
    $next->wait_notifications(1);
    $client->close;
    $client = $next;
    return pass("$what: a row is delivered");
}

insert();
$client->wait_notifications(1);
$relay->stop;

# From one server to a cluster.
$server->{options} = \@as_node;
$server->restart;
my @nodes = ($server, map { $cluster->new_node } 1 .. 5);
$_->wait_loaded for @nodes;
$_->{id} = $_->execute('CLUSTER', 'MYID') for @nodes;
my %first = ('10.0.0.5:6379' => address($server));
my %has_shard = map { $cluster->slot($_) => 1 } 0 .. 15;
my @empty = grep { !$has_shard{$_} } 0 .. 16_383;    # slots

# The client assigns and moves one slot after the other, which takes minutes for all of them. So most slots without a
# shard are assigned and moved by a few commands.
$server->execute('CLUSTER', 'ADDSLOTS', @empty[ 20 .. $#empty ]);
sub move_empty
{
    my ($from, $to, @slots) = @_;
    $to->execute('CLUSTER', 'BUMPEPOCH');
    $from->execute('CLUSTER', 'DELSLOTS', @slots);
    eval { $to->execute('CLUSTER', 'DELSLOTS', @slots) };
    $to->execute('CLUSTER', 'ADDSLOTS', @slots);
    return;
}
type(qr/fix 10.0.0.5:6379$/, replace => \%first);

# As the page requires before each command: all nodes agree on all slots.
sub wait_agreed
{
    my ($count) = @_;
    wait_until("$count nodes agree", sub {
        my $output = qx{$pages->{client} --cluster check @{[ address($server) ]} 2>&1} =~ s/\e\[[\d;]*m//gr;
        return $output =~ /All nodes agree about slots configuration/ && (() = $output =~ /^[MS]: /mg) == $count;
    });
    return;
}

my @primaries = @nodes[ 0 .. 2 ];
wait_agreed(1);
type(qr/add-node 10.0.0.6/, replace => { %first, '10.0.0.6:6379' => address($nodes[1]) });
wait_agreed(2);
type(qr/add-node 10.0.0.7/, replace => { %first, '10.0.0.7:6379' => address($nodes[2]) });
wait_agreed(3);
$relay->configure('store.url' => 'redis+cluster://' . join ',', map { address($_) } @primaries);
$relay->start;
$relay->wait_ready;
check_delivery('on a cluster');
move_empty($server, $nodes[1], @empty[ 0 .. 5400 ]);
wait_agreed(3);
move_empty($server, $nodes[2], @empty[ 6000 .. 11_200 ]);
wait_agreed(3);
type(qr/rebalance/, replace => \%first);
wait_agreed(3);
check_delivery('after the slots were distributed');
type(qr/add-node 10.0.0.8/, replace => { %first, '10.0.0.8:6379' => address($nodes[3]) });
wait_agreed(4);
my $replicated = sub { my ($replica) = @_; return (grep { $_->{id} eq (split ' ', (grep { /myself/ } split /\n/, $replica->execute('CLUSTER', 'NODES'))[0])[3] } @primaries)[0] };
my $of_first = wait_until('the new node is a replica', sub { $replicated->($nodes[3]) });
my @without = grep { $_ != $of_first } @primaries;
for my $i (0, 1)
{
    type(qr/cluster-master-id/, replace => { %first, '10.0.0.9:6379' => address($nodes[ 4 + $i ]), 'PRIMARY-ID' => $without[$i]{id} });
    wait_agreed(5 + $i);
    wait_until('the node is a replica', sub { ($replicated->($nodes[ 4 + $i ]) // 0) == $without[$i] });
}
$cluster->wait_replicated;
check_delivery('three primaries with a replica each');

# Slots of shards.
like(type(qr/cluster keyslot/, port => $server->{port}), qr/^@{[ $cluster->slot(3) ]}$/m, 'the slot of a shard is printed');
type(qr/--cluster check/, replace => \%first);
type(qr/--cluster fix$/, replace => { '--cluster fix' => '--cluster fix ' . address($server) });
$pages->type('MONITORING', qr/--cluster check/, replace => { 'HOST:PORT' => address($server) });
$pages->type('MONITORING', qr/--cluster fix/, replace => { '--cluster fix' => '--cluster fix ' . address($server) });
my ($source, $target) = ($cluster->primary_of(3), grep { $_ != $cluster->primary_of(3) } @primaries);
my $slot = $cluster->slot(3);
my %of_move = (
    'SOURCE'    => "127.0.0.1 -p $source->{port}",
    '-h TARGET' => "-h 127.0.0.1 -p $target->{port}",
    'TARGET 6379' => "127.0.0.1 $target->{port}",
    'TARGET-ID' => $target->{id}, SLOT => $slot);
sub move_with { my (@names) = @_; return { map { $_ => $of_move{$_} } @names } }
$cluster->begin_move(3, $target);
type(qr/setslot SLOT stable/, replace => move_with('SOURCE', 'SLOT'));
$cluster->begin_move(3, $target);
type(qr/getkeysinslot/, replace => move_with('SOURCE', 'SLOT', 'TARGET 6379'));
type(qr/-h TARGET cluster setslot/, replace => move_with('-h TARGET', 'SLOT', 'TARGET-ID'));
type(qr/-h SOURCE cluster setslot SLOT node/, replace => move_with('SOURCE', 'SLOT', 'TARGET-ID'));
wait_until('the shard has moved', sub { $cluster->primary_of(3) == $target });
check_delivery('after the move of a shard');
wait_agreed(6);
type(qr/reshard/, replace => { %first, 'cluster-slots 1000' => 'cluster-slots 20', 'SOURCE-ID' => $source->{id}, 'TARGET-ID' => $target->{id} });
wait_agreed(6);

# A node without slots, and a primary with few slots that is lost without its replica.
my ($lost, $lost_replica) = ($without[1] == $server ? $without[0] : $without[1], undef);
($lost_replica) = grep { ($replicated->($_) // 0) == $lost } @nodes[ 3 .. 5 ];
type(qr/del-node/, replace => { %first, 'NODE-ID' => $lost_replica->{id} });
$lost_replica->stop if $lost_replica->is_alive;
$cluster->{nodes} = [ grep { $_ != $lost_replica } @nodes ];
wait_agreed(5);
my %slots_of_lost = map { $_ => 1 } map { /^(\d+)-(\d+)$/ ? $1 .. $2 : $_ } grep { /^\d/ } splice @{ [ split ' ', (grep { /myself/ } split /\n/, $lost->execute('CLUSTER', 'NODES'))[0] ] }, 8;
my @slots_of_lost = grep { $slots_of_lost{$_} } @empty;
move_empty($lost, $server, @slots_of_lost[ 20 .. $#slots_of_lost ]);
wait_agreed(5);
$lost->kill9;
wait_until('the other nodes notice the loss', sub { $server->execute('CLUSTER', 'NODES') =~ /^$lost->{id} \S+ \S*\bfail(?!\?)/m });
type(qr/unreachable-masters/, replace => \%first, input => "yes\n" x 100);
wait_until('all shards have a primary', sub { !grep { my $node = $cluster->primary_of($_); !$node || $node == $lost } 0 .. 15 });

# Sentinel.
my $sentinels = Clairon::Test::sentinels(replicas => 0, sentinels => 1);
my %of_sentinel = (replace => { 26379 => $sentinels->{sentinels}[0]{port} });
type(qr/26379 ACL/, %of_sentinel);
type(qr/FLUSHCONFIG/, %of_sentinel);

is($pages->untyped('CLUSTER'), '', 'all commands of CLUSTER.md for the store were typed');
done_testing();
