# Tests that a TLS 1.3 connection works after the relay has dropped the keys of its handshake: frames, new keys, and
# its ticket.
use strict;
use warnings;

use Clairon::Test qw(scratch token);
use Clairon::Test::SecureSocket;
use IPC::Run ();
use Test::More;

my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $folder = scratch();
my $relay = Clairon::Test::relay(undef, Clairon::Test::store(), roles => 'gate', wait => 0,
    conf => { 'gate.tls_cert' => $cert, 'gate.tls_key' => $key });
$relay->wait_for_log(qr/store connected.*listening/s);

# Returns a WebSocket frame, masked with zeros.
sub frame
{
    my ($opcode, $payload) = @_;
    my $len = length $payload;
    return pack('C', 0x80 | $opcode) . ($len < 126 ? pack('C', 0x80 | $len) : pack('Cn', 0x80 | 126, $len)) . pack('N', 0) . $payload;
}

# Opens a WebSocket and sends three pings, which the relay returns. With `keys`, s_client updates its keys before each, and
# requests new ones of the relay. Returns the output of s_client.
sub pings
{
    my ($keys, @options) = @_;
    my ($in, $out) = ('', '');
    my @command = (qw(openssl s_client -connect), "127.0.0.1:$relay->{port}", @options);
    my $client  = IPC::Run::start(\@command, \$in, \$out, '2>&1', IPC::Run::timeout($Clairon::Test::SECONDS));
    my $send    = sub {
        my ($bytes, $expected) = @_;
        $in .= $bytes;
        $client->pump while $out !~ $expected && $client->pumpable;
        return;
    };
    my $token = token(sub => 'u1');
    $send->(join("\r\n", 'GET /v1/ws HTTP/1.1', 'Host: localhost', 'Connection: Upgrade', 'Upgrade: websocket',
            'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
            'Sec-WebSocket-Protocol: clairon.v1.json', '', ''), qr/ 101 /);
    $send->(frame(1, qq({"t":"connect","token":"$token"})), qr/"t":"connected"/);
    for my $count (1 .. 3)
    {
        $send->("K\n", qr/(?:KEYUPDATE\n.*?){$count}/s) if $keys;
        $send->(frame(9, "ping $count"), qr/\x8a.ping $count/s);
    }
    $in .= "Q\n";
    $client->finish;
    return $out;
}

sub responses { return scalar(() = $_[0] =~ /\x8a.ping \d/sg) }

my $out = pings(0, '-tls1_3');
is(responses($out), 3, 'TLS 1.3: three pings');
$out = pings(1, '-tls1_3', '-sess_out', "$folder/session");
is(responses($out), 3, 'the same with new keys before each');
like($out, qr/^New, TLSv1.3/m, 'a new session');
$out = pings(1, '-tls1_3', '-sess_in', "$folder/session");
is(responses($out), 3, 'the same on a resumed connection');
like($out, qr/^Reused, TLSv1.3/m, 'the ticket was accepted');
is(responses(pings(0, '-tls1_2')), 3, 'TLS 1.2: three pings');
is($relay->stop, 0, 'the relay exits with status 0 on SIGTERM');
done_testing();
