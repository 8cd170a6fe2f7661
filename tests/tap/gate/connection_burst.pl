# Is everybody of a crowd taken who connects at once, and goes on only when all of it is connected?
use strict;
use warnings;

use Clairon::Test;
use Clairon::Test::SecureSocket;
use IO::Select;
use IO::Socket::IP;
use Test::More;

use constant { MANY => 6000, MANY_TLS => 1100 }; # more than shake hands at a time
# A slow machine needs its time to connect all of them before the first one asks.
my %PATIENT = ('gate.connect_timeout' => '60s');
system('prlimit', '--pid', $$, '--nofile=' . (2 * MANY) . ':') == 0 or die "could not raise the limit of descriptors\n";

my $store = Clairon::Test::store();

my $connected_at;
sub sockets
{
    my ($relay, $count) = @_;
    $connected_at = time;
    return map { IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $relay->{port}) // die "connect: $@\n" } 1 .. $count;
}

# Of who asked: how many got which answer.
sub answers
{
    my %answers;
    for my $socket (@_)
    {
        my $is_readable = IO::Select->new($socket)->can_read(60);
        my $got = $is_readable ? $socket->sysread(my $text, 64) : undef;
        $answers{ $got ? substr $text, 0, 12 : $is_readable ? 'closed' : 'nothing' }++;
    }
    return \%answers;
}

sub ask { $_->syswrite( "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") for @_; return }

subtest 'without TLS' => sub {
    my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => {%PATIENT});
    my @crowd = sockets($relay, MANY);
    ask(@crowd);
    is_deeply(answers(@crowd), { 'HTTP/1.1 200' => MANY }, 'each is answered');
    $relay->stop;
};

# Each has said hello before the first one goes on.
sub shake_hands_and_ask
{
    my @crowd = @_;
    local $SIG{PIPE} = 'IGNORE';
    my $context = IO::Socket::SSL::SSL_Context->new(SSL_verify_mode => 0) or die "$IO::Socket::SSL::SSL_ERROR\n";
    for my $socket (@crowd)
    {
        IO::Socket::SSL->start_SSL($socket, SSL_reuse_ctx => $context, SSL_startHandshake => 0)
          or die "start_SSL: $IO::Socket::SSL::SSL_ERROR\n";
        $socket->blocking(0);
    }
    $_->connect_SSL for @crowd;
    for my $socket (@crowd)
    {
        my $until = time + 60;
        while (!$socket->connect_SSL && $IO::Socket::SSL::SSL_ERROR == IO::Socket::SSL::SSL_WANT_READ() && time < $until)
        {
            IO::Select->new($socket)->can_read(1);
        }
        $socket->blocking(1);
        ask($socket);
    }
    return;
}

subtest 'with TLS' => sub {
    eval { require IO::Socket::SSL; 1 } or plan skip_all => 'IO::Socket::SSL is not installed';
    my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
    my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0,
        conf => { %PATIENT, 'gate.tls_cert' => $cert, 'gate.tls_key' => $key });
    $relay->wait_for_log(qr/listening/);
    my @crowd = sockets($relay, MANY_TLS);
    shake_hands_and_ask(@crowd);
    # The relay drops the oldest after some seconds, if others wait, and each after ten.
    my $is_slow = time - $connected_at > 2;
    my $answers = answers(@crowd);
    my $closed  = $is_slow ? delete $answers->{closed} // 0 : 0;
    note "this machine is slow: $closed were not waited for" if $closed;
    is_deeply($answers, { 'HTTP/1.1 200' => MANY_TLS - $closed }, 'each is answered');
    $relay->stop;
};

done_testing();
