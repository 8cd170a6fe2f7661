# Tests that the relay serves a burst of connections that send no request until the last connection is open.
use strict;
use warnings;

use Clairon::Test;
use Clairon::Test::SecureSocket;
use IO::Select;
use IO::Socket::IP;
use Test::More;
use Time::HiRes qw(time);

use constant { MANY => 6000, MANY_TLS => 1100 }; # more than the limit of simultaneous handshakes
# A slow machine needs time to connect all sockets before the first request, so the timeouts are long.
my %PATIENT = ('gate.connect_timeout' => '60s');
system('prlimit', '--pid', $$, '--nofile=' . (2 * MANY) . ':') == 0 or die "could not raise the limit of file descriptors";

my $store = Clairon::Test::store();

my $connected_at;
sub sockets
{
    my ($relay, $count) = @_;
    $connected_at = time;
    return map { IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $relay->{port}) // die "connect: $@\n" } 1 .. $count;
}

# Returns the number of sockets for each response.
sub count_responses
{
    my %responses;
    for my $socket (@_)
    {
        my $is_readable = IO::Select->new($socket)->can_read(60);
        my $got = $is_readable ? $socket->sysread(my $text, 64) : undef;
        $responses{ $got ? substr $text, 0, 12 : $is_readable ? 'closed' : 'nothing' }++;
    }
    return \%responses;
}

sub send_request { $_->syswrite( "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") for @_; return }

subtest 'without TLS' => sub {
    my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => {%PATIENT});
    my @sockets = sockets($relay, MANY);
    send_request(@sockets);
    is_deeply(count_responses(@sockets), { 'HTTP/1.1 200' => MANY }, 'each request receives a response');
    $relay->stop;
};

# Completes the handshakes of all sockets; each sends its request after its own handshake.
sub handshake_all_then_request
{
    my @sockets = @_;
    local $SIG{PIPE} = 'IGNORE';
    my $context = IO::Socket::SSL::SSL_Context->new(SSL_verify_mode => 0) or die "$IO::Socket::SSL::SSL_ERROR\n";
    for my $socket (@sockets)
    {
        IO::Socket::SSL->start_SSL($socket, SSL_reuse_ctx => $context, SSL_startHandshake => 0)
          or die "start_SSL: $IO::Socket::SSL::SSL_ERROR\n";
        $socket->blocking(0);
    }
    $_->connect_SSL for @sockets;
    for my $socket (@sockets)
    {
        my $until = time + 60;
        while (!$socket->connect_SSL && $IO::Socket::SSL::SSL_ERROR == IO::Socket::SSL::SSL_WANT_READ() && time < $until)
        {
            IO::Select->new($socket)->can_read(1);
        }
        $socket->blocking(1);
        send_request($socket);
    }
    return;
}

subtest 'with TLS' => sub {
    eval { require IO::Socket::SSL; 1 } or plan skip_all => 'IO::Socket::SSL is not installed';
    my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
    my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0,
        conf => { %PATIENT, 'gate.tls_cert' => $cert, 'gate.tls_key' => $key });
    $relay->wait_for_log(qr/listening/);
    my @sockets = sockets($relay, MANY_TLS);
    handshake_all_then_request(@sockets);
    my $responses = count_responses(@sockets);
    # The relay may close the oldest unfinished handshakes after three seconds if other clients wait. The time from
    # before the first connection to the last response shows that no handshake was older.
    my $is_slow = time - $connected_at > 3;
    my $closed  = $is_slow ? delete $responses->{closed} // 0 : 0;
    note "slow machine: $closed handshakes were closed" if $closed;
    is_deeply($responses, { $closed < MANY_TLS ? ('HTTP/1.1 200' => MANY_TLS - $closed) : () }, 'each request over TLS receives a response');
    $relay->stop;
};

done_testing();
