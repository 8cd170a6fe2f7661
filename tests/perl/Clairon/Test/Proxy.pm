# Clairon::Test::Proxy: a TCP proxy in a separate process that a test can freeze, cut, delay and redirect.
#
#   my $proxy = Clairon::Test::proxy($store->{socket});     # or host:port
#   $proxy->port;  $proxy->url('redis');
#   $proxy->freeze;        # stops all transfer without closing: a network outage
#   $proxy->thaw;
#   $proxy->cut;           # closes every connection
#   $proxy->reject(1);     # closes new connections immediately, until reject(0)
#   $proxy->delay(0.05);   # delays all data by that many seconds
#   $proxy->rate(200_000); # passes that many bytes per second from the server, per connection; 0: all
#   $proxy->target($other);
#   Clairon::Test::proxy($there, edit => sub { $_[0] =~ s/../../ });   # edits the data from the server
package Clairon::Test::Proxy;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Process';
use Clairon::Test::Process;
use IO::Handle ();
use IO::Select ();
use IO::Socket::IP;
use IO::Socket::UNIX;
use POSIX ();
use Socket qw(SOMAXCONN);
use Time::HiRes qw(time);

sub new
{
    my ($class, $target, %options) = @_;
    my $listener = IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => 0, Listen => SOMAXCONN,
        Blocking => 0) or die "could not listen: $@\n";
    return bless {
        name     => 'proxy',
        log      => "$options{folder}/log",
        listener => $listener,
        port     => $listener->sockport,
        target   => $target,
        edit     => $options{edit},
    }, $class;
}

sub port { return $_[0]{port} }
sub url  { return "$_[1]://127.0.0.1:$_[0]{port}" }

sub start
{
    my ($self) = @_;
    pipe my $orders, my $order_pipe or die "could not make a pipe: $!";
    my $pid = fork // die "could not fork: $!";
    if ($pid == 0)
    {
        POSIX::setsid();
        close $order_pipe;
        $SIG{PIPE} = 'IGNORE';
        $SIG{TERM} = sub { POSIX::_exit(0) };
        open STDERR, '>>', $self->{log} or POSIX::_exit(126);
        eval { $self->loop_class->new($self, $orders)->run; 1 } or print STDERR $@;
        POSIX::_exit(1);
    }
    $self->{pid} = $pid;
    close $orders;
    $order_pipe->autoflush(1);
    $self->{order_pipe} = $order_pipe;
    return;
}

sub loop_class { return 'Clairon::Test::Proxy::Loop' }

sub order { my ($self, @arguments) = @_; print { $self->{order_pipe} } "@arguments\n" or die "the proxy has ended: $!"; return }

sub freeze { return $_[0]->order('freeze') }
sub thaw   { return $_[0]->order('thaw') }
sub cut    { return $_[0]->order('cut') }
sub reject { return $_[0]->order('reject', $_[1]) }
sub rate   { return $_[0]->order('rate', $_[1]) }
sub delay  { return $_[0]->order('delay', $_[1]) }
sub target { return $_[0]->order('target', $_[1]) }

package Clairon::Test::Proxy::Loop;

use strict;
use warnings;

use Time::HiRes qw(time);

use constant PACKET => 1460;

sub new
{
    my ($class, $proxy, $orders) = @_;
    return bless { listener => $proxy->{listener}, orders => $orders, target => $proxy->{target},
        edit => $proxy->{edit} // sub { }, is_server => {}, peer => {}, out => {}, sock => {}, delay => 0, rate => 0, due => {}, frozen => 0, reject => 0 }, $class;
}

sub run
{
    my ($self) = @_;
    while (1)
    {
        my ($reads, $writes) = (IO::Select->new($self->{orders}), IO::Select->new);
        $self->watch($reads, $writes) unless $self->{frozen};
        my $wait = grep({ @$_ } values %{ $self->{out} }) && ($self->{delay} || $self->{rate}) ? 0.005 : 1;
        my ($readable, $writable) = IO::Select::select($reads, $writes, undef, $wait);
        $self->write_queue($_) for @{ $writable // [] };
        for my $handle (@{ $readable // [] })
        {
            if    ($handle == $self->{orders})   { $self->execute_orders }
            elsif ($handle == $self->{listener}) { $self->accept_client }
            else                                 { $self->read_from($handle) }
        }
    }
    return;
}

sub watch
{
    my ($self, $reads, $writes) = @_;
    my $now = time;
    $reads->add($self->{listener});
    for my $key (keys %{ $self->{sock} })
    {
        my $queue = $self->{out}{$key};
        $writes->add($self->{sock}{$key}) if @$queue && $queue->[0][0] <= $now;
        $reads->add($self->{sock}{ $self->{peer}{$key} }) if @$queue < 64;
    }
    return;
}

sub execute_orders
{
    my ($self) = @_;
    my $bytes = '';
    sysread($self->{orders}, $bytes, 4096) or POSIX::_exit(0);    # the test has ended
    for my $line (split /\n/, $bytes)
    {
        my ($order, $value) = split / /, $line, 2;
        $self->execute_order($order, $value);
    }
    return;
}

sub execute_order
{
    my ($self, $order, $value) = @_;
    if    ($order eq 'freeze') { $self->{frozen} = 1 }
    elsif ($order eq 'thaw')   { $self->{frozen} = 0 }
    elsif ($order eq 'cut')    { $self->drop($_) for keys %{ $self->{sock} } }
    else                       { $self->{$order} = $value }
    return;
}

sub accept_client
{
    my ($self) = @_;
    my $client = $self->{listener}->accept or return;
    return if $self->{reject};
    my $server = $self->{target} =~ m{^/}
      ? IO::Socket::UNIX->new(Peer => $self->{target})
      : IO::Socket::IP->new(PeerAddr => $self->{target});
    return unless $server;    # disconnects the client
    $_->blocking(0) for $client, $server;
    my ($a, $b) = map { fileno $_ } $client, $server;
    @{ $self->{sock} }{ $a, $b } = ($client, $server);
    @{ $self->{peer} }{ $a, $b } = ($b, $a);
    @{ $self->{out} }{ $a, $b } = ([], []);
    $self->{is_server}{$b} = 1;
    return;
}

sub read_from
{
    my ($self, $handle) = @_;
    my $key = fileno $handle // return;
    return unless exists $self->{peer}{$key};
    my $count = sysread $handle, my $bytes, 65536;
    return if !defined $count && $!{EAGAIN};
    return $self->drop($key) unless $count;
    $self->{edit}->($bytes) if $self->{is_server}{$key};
    return $self->pass($key, $bytes);
}

# Queues the bytes for the other side.
sub pass
{
    my ($self, $key, $bytes) = @_;
    my $queue = $self->{out}{ $self->{peer}{$key} };
    my $due   = time + $self->{delay};
    if ($self->{rate} && $self->{is_server}{$key})
    {
        $due = $self->{due}{$key} if ($self->{due}{$key} // 0) > $due;
        push @$queue, [ $due += PACKET / $self->{rate}, substr $bytes, 0, PACKET, '' ] while length $bytes > PACKET;
        $self->{due}{$key} = $due += length($bytes) / $self->{rate};
    }
    push @$queue, [ $due, $bytes ];
    return;
}

sub write_queue
{
    my ($self, $handle) = @_;
    my $key = fileno $handle // return;
    my $queue = $self->{out}{$key} // return;
    while (@$queue && $queue->[0][0] <= time)
    {
        my $count = syswrite $handle, $queue->[0][1];
        if (!defined $count)
        {
            $self->drop($key) unless $!{EAGAIN};
            return;
        }
        substr $queue->[0][1], 0, $count, '';
        return if length $queue->[0][1];
        shift @$queue;
    }
    return;
}

sub drop
{
    my ($self, $key) = @_;
    my $peer = $self->{peer}{$key} // return;
    for my $one ($key, $peer)
    {
        close $self->{sock}{$one};
        delete $self->{$_}{$one} for qw(sock peer out due is_server);
    }
    return;
}

1;
