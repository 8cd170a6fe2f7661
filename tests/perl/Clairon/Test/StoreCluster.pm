# Clairon::Test::StoreCluster: a cluster of stores, and a client that sends each command to the primary of its key.
package Clairon::Test::StoreCluster;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Store';
use Clairon::Test::Authority;
use Clairon::Test::Store;
use Carp qw(croak);
use List::Util ();

my $SLOTS        = 16384;
my $NODE_TIMEOUT = 2000;    # ms without a reply after which a node is considered failed
my $HANDSHAKE_SECONDS = 3;  # seconds until nodes that are not known meet again

# Errors of a slot that is moving or has no primary.
my $TEMPORARY = qr/^(MOVED|ASK|TRYAGAIN|CLUSTERDOWN|LOADING|READONLY|MASTERDOWN)|connect|the store closed|not write/;

# Options: folder, primaries => 3, replicas => 1 (of each primary), shards => 16, tls => a certificate of
# Clairon::Test::Authority, network => a Clairon::Test::Network with as many nodes, and the options of
# Clairon::Test::Store. With tls, nodes and relays use only TLS.
sub new
{
    my ($class, %options) = @_;
    my $self = bless {
        name    => 'cluster',
        folder  => $options{folder},
        shards  => $options{shards} // 16,
        counts  => [ $options{primaries} // 3, $options{replicas} // 1 ],
        node    => { fsync => $options{fsync}, options => $options{options} // [] },
        tls     => $options{tls},
        network => $options{network},
        count   => 0,
        nodes   => [],
        slot_of => {},
    }, $class;
    return $self;
}

# Redis supports the setting cluster-port since 7.0; KeyDB 6 does not.
my $has_bus_port;
sub has_bus_port { return $has_bus_port //= qx{$ENV{STORE_SERVER} --version} =~ /^(?!KeyDB).*\bv=(\d+)/ && $1 >= 7 ? 1 : 0 }

# The ports of a node and of its cluster bus. If the bus port cannot be set, it is 10000 above the node's port. Both are
# below 32768, the first port of outgoing connections.
sub free_ports
{
    my $bus = Clairon::Test::free_port();
    return (Clairon::Test::free_port(), $bus) if has_bus_port();
    $bus = Clairon::Test::free_port() until $bus >= 12_000 && PostgreSQL::Test::Cluster::can_bind('127.0.0.1', $bus - 10_000);
    return ($bus - 10_000, $bus);
}

# Returns a started node that is not connected to other nodes. A replica takes over even if a busy machine has delayed the
# first votes for more than twenty seconds. `$tls` is its certificate.
sub new_node
{
    my ($self, $tls) = @_;
    my ($port, $bus) = free_ports();
    my $folder = sprintf '%s/%d', $self->{folder}, ++$self->{count};
    mkdir $folder or die "could not make $folder: $!";
    my $tls_port = $tls ? Clairon::Test::free_port() : undef;
    my ($network, $number) = ($self->{network}, $self->{count});
    my ($announced, $announced_bus) = $network ? $network->announce($number, $port, $bus) : ($tls_port // $port, has_bus_port() ? $bus : undef);
    my $address = $network ? $network->address($number) : undef;
    my $node = Clairon::Test::Store->new(folder => $folder, fsync => $self->{node}{fsync}, options => [
        '--port', $port, '--bind', $address // (), '127.0.0.1', '--cluster-enabled', 'yes', '--cluster-node-timeout', $NODE_TIMEOUT,
        '--cluster-require-full-coverage', 'no', '--cluster-replica-validity-factor', 0, '--repl-diskless-sync-delay', 0, '--repl-ping-replica-period', 1,
        (has_bus_port() ? ('--cluster-port', $bus) : ()),
        ($tls ? Clairon::Test::Store::as_arguments(Clairon::Test::Authority::directives($tls, $tls_port), 'tls-cluster' => 'yes') : ()),
        # Before version 7, a node connects from the first address of `bind`.
        ($network ? ('--cluster-announce-ip', '127.0.0.1', '--cluster-announce-port', $announced, '--cluster-announce-bus-port', $announced_bus) : ()),
        ($network && has_bus_port() ? ('--bind-source-addr', $address) : ()),
        @{ $self->{node}{options} } ]);
    @$node{qw(name number port announced announced_bus listed)} =
      ("node $port", $number, $port, $announced, $announced_bus, $network ? $announced : $port);
    $node->launch;
    push @{ $self->{nodes} }, $node;
    return $node;
}

# Primaries have equal shares of the slots. Nodes join by MEET, which is faster than redis-cli --cluster create.
sub start
{
    my ($self) = @_;
    my ($primaries, $replicas) = @{ $self->{counts} };
    my @nodes = map { $self->new_node($self->{tls}) } 1 .. $primaries * (1 + $replicas);
    $_->wait_loaded for @nodes;
    $_->{id} = $_->execute('CLUSTER', 'MYID') for @nodes;
    for my $i (0 .. $primaries - 1)
    {
        $nodes[$i]->execute('CLUSTER', 'SET-CONFIG-EPOCH', $i + 1);
        $nodes[$i]->execute('CLUSTER', 'ADDSLOTS', int($SLOTS * $i / $primaries) .. int($SLOTS * ($i + 1) / $primaries) - 1);
    }
    $self->meet($_) for @nodes[ 1 .. $#nodes ];
    $self->wait_discovered;
    $self->replicate($nodes[ $primaries + $_ ], $nodes[ $_ % $primaries ]) for 0 .. $primaries * $replicas - 1;
    $self->wait_replicated;
    return;
}

# The node meets all nodes of the cluster, because discovery through a single node could take long.
sub meet
{
    my ($self, $node) = @_;
    return meet_nodes($node, grep { $_ != $node } $self->alive);
}

sub meet_nodes
{
    my ($node, @others) = @_;
    $node->execute('CLUSTER', 'MEET', '127.0.0.1', $_->{announced}, $_->{announced_bus} // ()) for @others;
    return;
}

sub replicate
{
    my ($self, $node, $primary) = @_;
    Clairon::Test::wait_until("$node->{name} replicates $primary->{name}",
        sub { eval { $node->execute('CLUSTER', 'REPLICATE', $primary->{id}); 1 } });
    return;
}

# Returns the running nodes that reply.
sub alive { return grep { $_->is_alive && !$_->{is_paused} } @{ $_[0]{nodes} } }

sub pause { my (undef, $node) = @_; $node->{is_paused} = 1; $node->pause; return }
sub resume { my (undef, $node) = @_; kill CONT => $node->pid; delete $node->{is_paused}; return }

# Polls a condition of the nodes. A node that loads its dataset, as after a full resynchronization, replies later.
sub wait_nodes
{
    my ($self, $what, $condition) = @_;
    return Clairon::Test::wait_until($what, sub {
        my $reply = eval { \$condition->() };
        return $$reply if $reply;
        croak $@ unless $@ =~ $TEMPORARY;
        return;
    });
}

# Waits until all running nodes have discovered each other and the owners of all slots. A node forgets a handshake without
# a reply after the node timeout, which a busy machine can exceed. Nodes that are still unknown then meet again.
sub wait_discovered
{
    my ($self) = @_;
    my $next = time + $HANDSHAKE_SECONDS;
    $self->wait_nodes('the nodes of the cluster have discovered each other', sub {
        my @nodes   = $self->alive;
        my %unknown = map { ($_->{port} => [ unknown_to($_, @nodes) ]) } @nodes;
        return 1 unless grep { @{ $unknown{ $_->{port} } } || !knows_slots($_) } @nodes;
        return 0 if time < $next;
        meet_nodes($_, @{ $unknown{ $_->{port} } }) for @nodes;
        $next = time + $HANDSHAKE_SECONDS;
        return 0 });
    return;
}

# Returns the nodes that `$node` does not know, or cannot reach.
sub unknown_to
{
    my ($node, @others) = @_;
    my %known = map { (split / /)[0] => 1 } grep { !/handshake|fail|noaddr/ } split /\n/, $node->execute('CLUSTER', 'NODES');
    return grep { !$known{ $_->{id} //= $_->execute('CLUSTER', 'MYID') } } @others;
}

# Returns whether the node knows a running owner of each slot, apart from those that it imports: it never discovers a new
# owner of such a slot, for example the replica that takes over from the failed source of the move.
sub knows_slots
{
    my ($node) = @_;
    my $info      = $node->execute('CLUSTER', 'INFO');
    my $importing = () = $node->execute('CLUSTER', 'NODES') =~ /\[\d+-<-/g;
    return $info =~ /cluster_state:ok/ && $info =~ /cluster_slots_ok:(\d+)/ && $1 + $importing >= $SLOTS;
}

# Waits until each replica has all data of its primary, and all nodes have discovered all replicas.
sub wait_replicated
{
    my ($self) = @_;
    $self->wait_nodes('the replicas are in sync', sub {
        my @roles = map { $_->execute('ROLE') } $self->alive;
        my $replicas = grep { $_->[0] eq 'slave' && $_->[3] eq 'connected' } @roles;
        my $listed = 0;
        $listed += @{ $_->[2] } for grep { $_->[0] eq 'master' } @roles;
        return $replicas == grep({ $_->[0] eq 'slave' } @roles) && $listed == $replicas
          && !grep { replicas_seen($_) != $replicas } $self->alive });
    return;
}

sub replicas_seen { return scalar grep { /slave/ && !/fail/ } split /\n/, $_[0]->execute('CLUSTER', 'NODES') }

# On SIGTERM a node waits for its replicas, so nodes are killed at the end of a test.
sub kill9 { my ($self) = @_; $_->kill9 for grep { $_->is_alive } @{ $self->{nodes} }; return }
sub end   { return $_[0]->kill9 }

sub print_log { my ($self) = @_; $_->print_log for @{ $self->{nodes} }; return }

# Returns the setting store.url, with the first nodes as seeds.
sub url
{
    my ($self) = @_;
    my @seeds = grep { defined } (@{ $self->{nodes} })[ 0 .. 2 ];
    return ($self->{tls} ? 'rediss' : 'redis') . '+cluster://' . join ',', map { "127.0.0.1:$_->{announced}" } @seeds;
}

sub shards { return $_[0]{shards} }

# Returns the shard of a user: FNV-1a with 64 bits, as in docs/STORE.md.
sub shard_of
{
    my ($self, $user) = @_;
    my $hash = 14695981039346656037;
    for my $byte (unpack 'C*', $user)
    {
        use integer;    # multiplies modulo 2^64
        $hash = ($hash ^ $byte) * 1099511628211;
    }
    return 1 + unpack('Q', pack 'q', $hash) % ($self->{shards} - 1);
}

# Keys contain the shard's number in braces even if there is only one shard.
sub keys { my ($self, $name) = @_; return map { "clairon:{$_}:$name" } 0 .. $self->{shards} - 1 }

sub slot_of_key
{
    my ($self, $key) = @_;
    my ($tag) = $key =~ /\{(.+?)\}/;
    return $self->{slot_of}{ $tag // $key } //= ($self->alive)[0]->execute('CLUSTER', 'KEYSLOT', $key);
}

sub slot { my ($self, $shard) = @_; return $self->slot_of_key("clairon:{$shard}:stream") }

# Returns the primary of a shard according to a running node; undef if the shard has no primary.
sub primary_of { my ($self, $shard) = @_; return $self->primary_of_slot($self->slot($shard)) }

sub primary_of_slot
{
    my ($self, $slot) = @_;
    for my $node ($self->alive)
    {
        my $ranges = eval { $node->execute('CLUSTER', 'SLOTS') } or next;
        my ($range) = grep { $slot >= $_->[0] && $slot <= $_->[1] } @$ranges or next;
        my ($primary) = grep { $_->{listed} == $range->[2][1] } @{ $self->{nodes} };
        return $primary if $primary && $primary->is_alive && !$primary->{is_paused};
    }
    return;
}

sub primaries
{
    my ($self) = @_;
    my %found = map { my $node = $self->primary_of($_); $node ? ($node->{port} => $node) : () } 0 .. $self->{shards} - 1;
    return map { $found{$_} } sort { $a <=> $b } CORE::keys %found;
}

# Sends the command to the primary of its first key. Waits while the slot has no primary, or moves.
sub execute_bytes
{
    my ($self, $command, @arguments) = @_;
    my $key = ($command =~ /^XINFO$/i ? $arguments[1] : $arguments[0]) // croak "$command has no key";
    my $slot = $self->slot_of_key($key);
    my $error;
    return ${ Clairon::Test::wait_until("the primary of $key replies to $command", sub {
        my $node = $self->primary_of_slot($slot) or return;
        my $reply = eval { \$node->execute_bytes($command, @arguments) };
        return $reply if $reply;
        $error = $@;
        croak $error unless $error =~ $TEMPORARY;
        return;
    }) };
}

# Adds a primary without slots. `$tls` replaces the certificate of the cluster.
sub add_node
{
    my ($self, $tls) = @_;
    my $node = $self->new_node($tls // $self->{tls});
    $node->wait_loaded;
    $node->{id} = $node->execute('CLUSTER', 'MYID');
    $self->meet($node);
    $self->wait_discovered;
    return $node;
}

# Removes a node without slots with the commands that redis-cli --cluster del-node sends. The node still runs, but it is
# empty and knows no other node.
sub delete_node
{
    my ($self, $node) = @_;
    $self->{nodes} = [ grep { $_ != $node } @{ $self->{nodes} } ];
    eval { $_->execute('CLUSTER', 'FORGET', $node->{id}) } for $self->alive;
    $node->execute('CLUSTER', 'RESET', 'SOFT');
    return;
}

# Removes and stops a node without slots.
sub remove_node
{
    my ($self, $node) = @_;
    $self->{nodes} = [ grep { $_ != $node } @{ $self->{nodes} } ];
    eval { $_->execute('CLUSTER', 'FORGET', $node->{id}) } for $self->alive;
    $node->kill9;
    return;
}

# Moves the slot of a shard with the commands that redis-cli --cluster reshard sends.
sub move
{
    my ($self, $shard, $to) = @_;
    my $from = $self->begin_move($shard, $to) or return;
    1 while $self->move_keys($shard, $from, $to, 10);
    $self->end_move($shard, $from, $to);
    return;
}

# Starts a move and returns the node that owns the slot; undef if that node is the target.
sub begin_move
{
    my ($self, $shard, $to) = @_;
    my $slot = $self->slot($shard);
    my $from = Clairon::Test::wait_until("shard $shard has a primary", sub { $self->primary_of($shard) });
    return if $from == $to;
    $to->execute('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $from->{id});
    $from->execute('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $to->{id});
    return $from;
}

# Moves some keys of the shard, filtered by the pattern `$which`; returns their number.
sub move_keys
{
    my ($self, $shard, $from, $to, $count, $which) = @_;
    my @found = @{ $from->execute('CLUSTER', 'GETKEYSINSLOT', $self->slot($shard), $which ? 100_000 : $count) };
    @found = grep { /$which/ } @found if $which;
    $from->execute('MIGRATE', '127.0.0.1', $to->{announced}, '', 0, 10_000, 'KEYS', @found) if @found;
    return scalar @found;
}

sub end_move
{
    my ($self, $shard, $from, $to) = @_;
    my $slot = $self->slot($shard);
    # With an epoch below that of the former owner, the new owner would not be discovered by replicas.
    $self->wait_nodes("$to->{name} knows the latest epoch", sub { my $epoch = epoch($to); !grep { epoch($_) > $epoch } $self->alive });
    for my $node ($to, $from, grep { $_ != $from && $_ != $to && $_->execute('ROLE')->[0] eq 'master' } $self->alive)
    {
        # A node that has lost its last slot becomes a replica.
        eval { $node->execute('CLUSTER', 'SETSLOT', $slot, 'NODE', $to->{id}); 1 } or $@ =~ /SETSLOT only with masters/ or die $@;
    }
    return;
}

sub epoch { my ($node) = @_; return $node->execute('CLUSTER', 'INFO') =~ /cluster_current_epoch:(\d+)/ ? $1 : 0 }

# Waits until all nodes know the same slots and epochs. If a slot moves while older epochs are still on the way, nodes may
# disagree permanently on its owner (`redis-cli --cluster fix` repairs this).
sub wait_agreed
{
    my ($self) = @_;
    return $self->wait_nodes('all nodes agree on the slots', sub {
        my ($first, @others) = map { view($_) } $self->alive;
        return !grep { $_ ne $first } @others;
    });
}

# Returns the ids, epochs and slots of all nodes as this node knows them.
sub view
{
    my ($node) = @_;
    my @fields = map { [ split / / ] } split /\n/, $node->execute('CLUSTER', 'NODES');
    return join "\n", sort map { join ' ', @{$_}[ 0, 6, 8 .. $#$_ ] } @fields;
}

# Waits until another node is the primary of the shard.
sub wait_failover
{
    my ($self, $shard, $former) = @_;
    return Clairon::Test::wait_until("shard $shard has another primary", sub {
        my $node = $self->primary_of($shard);
        return $node && $node != $former && (eval { $node->execute('ROLE')->[0] } // '') eq 'master' ? $node : undef;
    });
}

# Starts and resumes all nodes, and waits until each node has discovered all other nodes and all replicas are in sync.
sub heal
{
    my ($self) = @_;
    for my $node (@{ $self->{nodes} })
    {
        $self->resume($node) if $node->{is_paused};
        $node->start unless $node->is_alive;
    }
    $self->wait_discovered;
    $self->wait_replicated;
    return;
}

1;
