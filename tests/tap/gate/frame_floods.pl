# Tests that a flood of pings, pongs, empty fragments or invalid frames on a WebSocket does not block other clients, and
# that a frame after many pings is processed.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket qw(CONTINUATION TEXT PING PONG);
use Clairon::Test::SecureSocket;
use POSIX ();
use Test::More;

my $store = Clairon::Test::store();
my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');

sub frame_bytes
{
    my $raw = bless { pieces => '' }, 'Pieces';
    Clairon::Test::RawSocket::frame($raw, @_);
    return $raw->{pieces};
}
sub Pieces::write { my ($self, $bytes) = @_; $self->{pieces} .= $bytes; return 1 }

# Writes frames until the process is killed, and reads all replies.
sub flood
{
    my ($user, $first, $bytes) = @_;
    my $child = fork // die "could not fork: $!\n";
    return $child if $child;
    alarm $Clairon::Test::SECONDS;
    my $raw = Clairon::Test::RawSocket->user($relay, $user);
    $raw->write($first);
    my $left = '';
    while (1)
    {
        $left = $bytes if !length $left;
        my $sent = syswrite $raw->{link}, $left;
        substr $left, 0, $sent, '' if $sent;
        my $got = sysread $raw->{link}, my $discarded, 1 << 20;
        last if defined $got && !$got;
        IO::Select->new($raw->{link})->can_write(1) if !$sent && !$got;
    }
    POSIX::_exit(0);
}
sub poll { return Clairon::Test::RawSocket->new($relay)->request(GET => "/v1/poll?wait=$_[0]", Authorization => 'Bearer ' . token(sub => 'u1'))->{status} }

my $n = 0;
for my $case (
    [ pings => '', frame_bytes(PING, '') x 20_000 ],
    [ pongs => '', frame_bytes(PONG, 'x' x 125) x 5_000 ],
    [ 'empty fragments' => frame_bytes(TEXT, '{', final => 0), frame_bytes(CONTINUATION, '', final => 0) x 20_000 ],
    [ 'unknown pongs' => '', frame_bytes(TEXT, '{"t":"pong","x":"' . 'x' x 60_000 . '"}') x 5 ])
{
    my ($name, $first, $bytes) = @$case;
    my $user = 'flood' . ++$n;
    my $child = flood($user, $first, $bytes);
    $relay->wait_for_log(qr/session connected".* user="$user"/);
    is(poll(1), 204, "a flood of $name: another client is served");
    $relay->wait_for_log(qr/closing connection" code=4103 reason="inbound rate exceeded" conn=\S+ user="$user"/);
    pass('the flooding connection is closed');
    kill KILL => $child;
    waitpid $child, 0;
}

# A burst has more WebSocket frames than the rate allows per second: all receive a reply, with a delay.
sub check_served
{
    my ($raw) = @_;
    my $child = fork // die "no fork: $!\n";
    if (!$child) { $raw->write(frame_bytes(PING, 'p') x 9000 . frame_bytes(TEXT, '{"t":"ping"}')); POSIX::_exit(0) }
    is($raw->next_message->{t}, 'pong', 'the frame after many WebSocket pings receives a reply');
    waitpid $child, 0;
    return;
}
check_served(Clairon::Test::RawSocket->user($relay, 'u1'));
wait_until('the flooding connections are closed', sub { $relay->metric('clairon_gate_connections') == 0 });
pass('all flooding connections are removed');
my $ends = Clairon::Test::RawSocket->user($relay, 'u1');
$ends->write(frame_bytes(PING, '') x 9000);
$ends->disconnect;
wait_until('the connection is closed', sub { $relay->metric('clairon_gate_connections') == 0 });
pass('the connection of a client that disconnects during a flood is removed');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

SKIP:
{
    eval { require IO::Socket::SSL; 1 } or skip 'IO::Socket::SSL is not installed', 2;
    $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { 'gate.tls_cert' => $cert, 'gate.tls_key' => $key });
    $relay->wait_for_log(qr/listening/);
    my $raw = Clairon::Test::SecureSocket->user($relay, 'u1', $cert);
    $raw->write(frame_bytes(PING, 'p') x 2500) for 1 .. 2;
    $raw->text('{"t":"ping"}');
    is($raw->next_message->{t}, 'pong', 'the frame after many WebSocket pings over TLS receives a reply');
    is($relay->stop, 0, 'the relay with TLS exits with status 0 on SIGTERM');
}

done_testing();
