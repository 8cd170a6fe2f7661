# Clairon::Test::Network: the network among the nodes of a store cluster, as proxies in one process. A test can separate
# nodes from each other.
#
#   my $network = Clairon::Test::network(6);
#   my $cluster = Clairon::Test::store_cluster(network => $network);
#   $network->separate($node);              # separates the node from the other nodes; relays reach both sides
#   $network->separate($node, 'relays');    # and relays reach only that node
#   $network->reunite;
#
# Nodes announce the ports of their proxies, and connect from their own addresses, so each connection's two ends are
# known. Connections between the sides stay open, and their data arrives after reunite().
package Clairon::Test::Network;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Proxy';
use Clairon::Test::Proxy;
use IO::Socket::IP;
use Socket qw(SOMAXCONN);

sub listener
{
    return IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => 0, Listen => SOMAXCONN, Blocking => 0) // die "could not listen: $@\n";
}

# Options: folder, nodes => their number. Nodes are numbered from 1.
sub new
{
    my ($class, %options) = @_;
    return bless { name => 'network', log => "$options{folder}/log", doors => [ map { [ listener(), listener() ] } 1 .. $options{nodes} ] }, $class;
}

sub loop_class { return 'Clairon::Test::Network::Loop' }

# Returns the address from which a node connects.
sub address { my (undef, $number) = @_; return '127.0.0.' . (10 + $number) }

# Returns the announced ports, for clients and for the cluster bus, of a node that listens on these ports.
sub announce
{
    my ($self, $number, @ports) = @_;
    $self->order('ports', $number, @ports);
    return map { $_->sockport } @{ $self->{doors}[ $number - 1 ] };
}

sub separate { my ($self, @nodes) = @_; return $self->order('separate', map { ref $_ ? $_->{number} : $_ } @nodes) }
sub reunite  { my ($self) = @_; return $self->order('separate') }

package Clairon::Test::Network::Loop;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Proxy::Loop';
use Time::HiRes qw(time);

sub new
{
    my ($class, $network, $orders) = @_;
    my %doors;    # listener => number of the node, 0 for clients or 1 for the bus
    for my $number (1 .. @{ $network->{doors} })
    {
        my $pair = $network->{doors}[ $number - 1 ];
        $doors{ $pair->[$_] } = [ $pair->[$_], $number, $_ ] for 0, 1;
    }
    return bless { orders => $orders, doors => \%doors, ports => {}, ends => {}, separate => {}, peer => {}, out => {}, sock => {}, is_server => {}, edit => sub { }, delay => 0 }, $class;
}

sub run
{
    my ($self) = @_;
    while (1)
    {
        my ($reads, $writes) = (IO::Select->new($self->{orders}, map { $_->[0] } values %{ $self->{doors} }), IO::Select->new);
        $self->watch($reads, $writes);
        my ($readable, $writable) = IO::Select::select($reads, $writes, undef, 1);
        $self->write_queue($_) for @{ $writable // [] };
        for my $handle (@{ $readable // [] })
        {
            if    ($handle == $self->{orders})     { $self->execute_orders }
            elsif ($self->{doors}{$handle})        { $self->accept_client(@{ $self->{doors}{$handle} }) }
            else                                   { $self->read_from($handle) }
        }
    }
    return;
}

sub watch
{
    my ($self, $reads, $writes) = @_;
    for my $key (grep { !$self->is_separated($_) } keys %{ $self->{sock} })
    {
        my $queue = $self->{out}{$key};
        $writes->add($self->{sock}{$key}) if @$queue;
        $reads->add($self->{sock}{ $self->{peer}{$key} }) if @$queue < 64;
    }
    return;
}

# Clients, which have no number, are on both sides unless `relays` are separated.
sub is_separated
{
    my ($self, $key) = @_;
    my ($from, $to) = @{ $self->{ends}{$key} };
    my $separate = $self->{separate};
    return 0 if $from eq 'relays' && !$separate->{relays};
    return ($separate->{$from} xor $separate->{$to});
}

sub execute_order
{
    my ($self, $order, $values) = @_;
    my @values = split / /, $values // '';
    if ($order eq 'ports') { $self->{ports}{ $values[0] } = [ @values[ 1, 2 ] ] }
    else                   { $self->{separate} = { map { $_ => 1 } @values } }
    return;
}

sub accept_client
{
    my ($self, $listener, $number, $which) = @_;
    my $client = $listener->accept or return;
    my $port   = ($self->{ports}{$number} // return)->[$which];
    my $server = IO::Socket::IP->new(PeerAddr => "127.0.0.1:$port") or return;
    $_->blocking(0) for $client, $server;
    my $from = $client->peerhost =~ /\.(\d+)$/ && $1 > 10 ? $1 - 10 : 'relays';
    my ($a, $b) = map { fileno $_ } $client, $server;
    @{ $self->{sock} }{ $a, $b } = ($client, $server);
    @{ $self->{peer} }{ $a, $b } = ($b, $a);
    @{ $self->{out} }{ $a, $b } = ([], []);
    @{ $self->{ends} }{ $a, $b } = ([ $from, $number ]) x 2;
    return;
}

1;
