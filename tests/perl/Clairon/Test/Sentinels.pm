# Clairon::Test::Sentinels: a store with replicas, and the sentinels that monitor it.
package Clairon::Test::Sentinels;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Store';
use Clairon::Test::Authority;
use Clairon::Test::Store;

my $DOWN_AFTER = 1000;    # ms

# Options: folder, replicas => 2, sentinels => 3, name => name of the primary, tls => a certificate of
# Clairon::Test::Authority, and the options of Clairon::Test::Store. With tls, stores, sentinels and relays use only
# TLS.
sub new
{
    my ($class, %options) = @_;
    return bless {
        name         => 'sentinels',
        folder       => $options{folder},
        primary_name => $options{name} // 'clairon',
        counts       => [ $options{replicas} // 2, $options{sentinels} // 3 ],
        tls          => $options{tls},
        server       => { fsync => $options{fsync}, options => $options{options} // [] },
        nodes        => [],
        sentinels    => [],
    }, $class;
}

sub new_server
{
    my ($self, $name, %options) = @_;
    my $port   = Clairon::Test::free_port();
    my $folder = "$self->{folder}/$port";
    mkdir $folder or die "could not make $folder: $!";
    my $server = Clairon::Test::Store->new(folder => $folder, %{ $self->{server} }, %options);
    # Sentinels and replicas would use an additional port without TLS.
    my @listen = (bind => '127.0.0.1', $self->{tls} ? (port => 0, Clairon::Test::Authority::directives($self->{tls}, $port)) : (port => $port));
    $server->{listen}  = \@listen;
    $server->{options} = [ @{ $server->{options} }, Clairon::Test::Store::as_arguments(@listen) ];
    @$server{qw(name port)} = ("$name $port", $port);
    return $server;
}

sub new_node
{
    my ($self, $primary) = @_;
    my $node = $self->new_server('node', options => [ @{ $self->{server}{options} }, '--repl-diskless-sync-delay', 0,
        '--repl-ping-replica-period', 1, ($primary ? ('--replicaof', '127.0.0.1', $primary->{port}) : ()) ]);
    push @{ $self->{nodes} }, $node;
    $node->start;
    return $node;
}

sub new_sentinel
{
    my ($self, $primary) = @_;
    my $sentinel = bless $self->new_server('sentinel', options => []), 'Clairon::Test::Sentinel';
    push @{ $self->{sentinels} }, $sentinel;
    $self->launch_new_sentinel($sentinel, $primary);
    return;
}

# Launches the sentinel without the state of earlier runs, which is in its configuration file.
sub launch_new_sentinel
{
    my ($self, $sentinel, $primary) = @_;
    my $quorum = int($self->{counts}[1] / 2) + 1;
    my $file   = "$sentinel->{folder}/sentinel.conf";
    open my $out, '>', $file or die "could not write $file: $!";
    my @listen = @{ $sentinel->{listen} };
    print {$out} map { "$_\n" } (map { "$listen[ 2 * $_ ] $listen[ 2 * $_ + 1 ]" } 0 .. $#listen / 2),
      "unixsocket $sentinel->{socket}", "dir $sentinel->{folder}",
      "sentinel monitor $self->{primary_name} 127.0.0.1 $primary->{port} $quorum",
      "sentinel down-after-milliseconds $self->{primary_name} $DOWN_AFTER", "sentinel failover-timeout $self->{primary_name} 5000";
    close $out or die "could not write $file: $!";
    $sentinel->launch;
    return;
}

sub start
{
    my ($self) = @_;
    my ($replicas, $sentinels) = @{ $self->{counts} };
    my $primary = $self->new_node;
    $self->new_node($primary) for 1 .. $replicas;
    Clairon::Test::wait_until('the replicas are in sync', sub { @{ $primary->execute('ROLE')->[2] } == $replicas });
    $self->new_sentinel($primary) for 1 .. $sentinels;
    Clairon::Test::wait_until('each sentinel has discovered the other sentinels and the replicas', sub {
        !grep { my $state = eval { $_->state($self->{primary_name}) } // {};
            ($state->{'num-slaves'} // 0) < $replicas || ($state->{'num-other-sentinels'} // 0) < $sentinels - 1 } @{ $self->{sentinels} } });
    return;
}

sub alive { return grep { $_->is_alive } @{ $_[0]{nodes} } }
sub end { my ($self) = @_; $_->kill9 for grep { $_->is_alive } @{ $self->{sentinels} }, @{ $self->{nodes} }; return }
sub print_log { my ($self) = @_; $_->print_log for @{ $self->{sentinels} }, @{ $self->{nodes} }; return }

sub url { return ($_[0]{tls} ? 'rediss' : 'redis') . '+sentinel://' . join(',', map { "127.0.0.1:$_->{port}" } @{ $_[0]{sentinels} }) . "/$_[0]{primary_name}" }

# Returns the primary that a running sentinel reports.
sub primary
{
    my ($self) = @_;
    for my $sentinel (grep { $_->is_alive } @{ $self->{sentinels} })
    {
        my $address = eval { $sentinel->execute('SENTINEL', 'get-master-addr-by-name', $self->{primary_name}) } or next;
        return (grep { $_->{port} == $address->[1] } @{ $self->{nodes} })[0];
    }
    return;
}

# Waits until the sentinels have promoted another node.
sub wait_failover
{
    my ($self, $former) = @_;
    return Clairon::Test::wait_until('the sentinels promote another server', sub {
        my $node = $self->primary;
        return $node && $node != $former && (eval { $node->execute('ROLE')->[0] } // '') eq 'master' ? $node : undef;
    });
}

# Returns the servers that were promoted, in order. The sentinel that leads a failover logs the promotion after a new
# epoch.
sub promoted
{
    my ($self) = @_;
    my %server;
    for my $sentinel (@{ $self->{sentinels} })
    {
        my $epoch = 0;
        for (split /\n/, $sentinel->log_text)
        {
            $epoch          = $1 if /\+new-epoch (\d+)/;
            $server{$epoch} = $1 if /\+promoted-slave slave (\S+)/;
        }
    }
    return map { $server{$_} } sort { $a <=> $b } keys %server;
}

# Executes the command on the primary.
sub execute_bytes
{
    my ($self, @arguments) = @_;
    my $node = $self->primary // die "no primary\n";
    return $node->execute_bytes(@arguments);
}

package Clairon::Test::Sentinel;

use parent -norequire, 'Clairon::Test::Store';

sub command { return ($_[0]{server}, "$_[0]{folder}/sentinel.conf", '--sentinel') }

# By default, sentinels query the role of a server every ten seconds, and wait eight seconds before a former primary
# becomes a replica. Stores without this command keep that.
sub launch
{
    my ($self) = @_;
    $self->SUPER::launch;
    Clairon::Test::wait_until('the sentinel replies', sub { eval { $self->execute(qw(SENTINEL DEBUG INFO-PERIOD 1000 PUBLISH-PERIOD 500)) } || $@ =~ /^ERR/ });
    return;
}

# Returns the sentinel's attributes of the primary with this name, as a hash.
sub state { my ($self, $name) = @_; return { @{ $self->execute('SENTINEL', 'MASTER', $name) } } }

1;
