# Tests that malformed request heads are rejected over TLS as over TCP.
use strict;
use warnings;

use Clairon::Test qw(token);
use Clairon::Test::MalformedHeads;
use Clairon::Test::SecureSocket;
use Test::More;

eval { require IO::Socket::SSL; 1 } or plan skip_all => 'IO::Socket::SSL is not installed';

my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0,
    conf => { 'gate.tls_cert' => $cert, 'gate.tls_key' => $key, 'gate.connect_timeout' => '2s' });
$relay->wait_for_log(qr/listening/);
my $auth  = 'Authorization: Bearer ' . token(sub => 'u1') . "\r\n";
my $host  = "Host: x\r\n";
my $inner = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

# Sends each piece as one TLS record.
sub send_records
{
    my (@pieces) = @_;
    my $raw = Clairon::Test::SecureSocket->new($relay, $cert);
    for (@pieces) { $raw->write($_) or last }
    return $raw->read_response;
}
sub check_rejected
{
    my ($status, $pieces, $name, $detail) = @_;
    my $response = send_records(@$pieces);
    is($response->{status}, $status, "a head with $name is rejected with $status");
    is($response->{headers}{connection}, 'close', "a head with $name ends the connection");
    like($response->{json}{detail}, $detail, "a head with $name is rejected with the reason");
    return;
}

is(send_records($inner)->{status}, 200, 'a valid head is accepted');
is(send_records("POST /v1/ack HTTP/1.1\r\n$host${auth}Content-Length: 10\r\n\r\n", '{"ids"', ':[]', '}')->{status}, 400, 'a body in later records is read');
check_rejected(400, [ $_->[0] ], @$_[ 1, 2 ]) for Clairon::Test::MalformedHeads::ambiguous($auth);
check_rejected(431, [ $_->[0] ], $_->[1], qr/too long/) for Clairon::Test::MalformedHeads::too_long();
for my $other ("Upgrade: foo\r\nConnection: Upgrade\r\n", "Upgrade: h2c\r\nConnection: Upgrade\r\n", "Upgrade: websocket\r\n")
{
    my $head = "GET /healthz HTTP/1.1\r\n$host$other\r\n";
    is(send_records(@$_)->{status}, 200, 'an upgrade to another protocol is ignored') for [$head], [ split //, $head ];
}
is(send_records("GET /v1/poll?wait=0 HTTP/1.1\r\n$host$_\r\n")->{status}, 204, 'a prefix of another header name hides no header') for "${auth}X-Auth: b\r\n", "X-Auth: b\r\n$auth", "A: b\r\nLast-Event-ID: c\r\n$auth";
is(send_records("GET /v1/poll?wait=0 HTTP/1.1\r\n$host${auth}A: b\r\nOrigin: http://evil.example\r\n\r\n")->{status}, 403, 'a prefix of another header name does not hide an origin');
is(send_records("PATCH /v1/ack HTTP/1.1\r\n$host$auth\r\n")->{headers}{allow}, 'POST', 'an unknown method is rejected with Allow');
is(send_records("GET /v1/poll?wait=0 HTTP/1.1\r\n${host}Authorization: Bearer " . token(sub => 'u1', x => 'y' x 5900) . "\r\n\r\n")->{status}, 204, 'a long token is accepted');

# Heads arrive in chunks, each of which is a well-formed TLS record.
is(send_records(split //, $inner)->{status}, 200, 'a head that arrives byte by byte is accepted');
is(send_records("GET /healthz HTTP/1.1\r\n$host" . 'X-A: ' . 'y' x 5000, "\r\n", 'X-B: ' . 'y' x 5000, "\r\n\r\n")->{status}, 200, 'a head that arrives in large chunks is accepted');
check_rejected(400, [ "POST /v1/ack HTTP/1.1\r\n$host${auth}Content-Length: 0\r\n", "Content-Length: 44\r\n\r\n$inner" ], 'two Content-Length headers in two TLS records', qr/duplicate header/);
check_rejected(400, [ "POST /v1/ack HTTP/1.1\r\n${host}Content-Length: 0\r\nTransfer-Enc", "oding: chunked\r\n\r\n" ], 'a name in two records', qr/both Content-Length/);
check_rejected(400, [ map { "$_" } split //, "GET /healthz HTTP/1.1\r\n${host}X: y\r\n folded\r\n\r\n" ], 'a folded header, byte by byte', qr/line folding/);
check_rejected(431, [ "GET /healthz HTTP/1.1\r\n$host", map { "X-$_: " . 'y' x 1000 . "\r\n" } 1 .. 14 ], 'too many bytes in many records', qr/too long/);

# The head is in the same packet as the end of the handshake.
sub at_once
{
    my ($bytes) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    my $ctx = Net::SSLeay::CTX_new();
    my $ssl = Net::SSLeay::new($ctx);
    my ($in, $out) = map { Net::SSLeay::BIO_new(Net::SSLeay::BIO_s_mem()) } 1 .. 2;
    Net::SSLeay::set_bio($ssl, $in, $out);
    until (Net::SSLeay::connect($ssl) == 1)
    {
        $raw->write(Net::SSLeay::BIO_read($out)) if Net::SSLeay::BIO_pending($out);
        $raw->more or die "the relay closed the connection\n";
        Net::SSLeay::BIO_write($in, $raw->{bytes});
        $raw->{bytes} = '';
    }
    Net::SSLeay::write($ssl, $bytes);
    $raw->write(Net::SSLeay::BIO_read($out, 100_000));
    1 while $raw->more;
    Net::SSLeay::BIO_write($in, $raw->{bytes});
    my $response = '';
    while (length(my $piece = Net::SSLeay::read($ssl) // '')) { $response .= $piece }
    Net::SSLeay::free($ssl);
    Net::SSLeay::CTX_free($ctx);
    return $response =~ m{\AHTTP/1\.1 (\d+)} ? $1 : 0;
}
is(at_once("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), 200, 'a head together with the end of the handshake is accepted');
is(at_once("GET /healthz HTTP/1.1\n\n"), 400, 'a head together with the end of the handshake is rejected if it is malformed');

# Clients send incomplete heads.
my @slow = map { my $socket = Clairon::Test::SecureSocket->new($relay, $cert); $socket->write("GET /healthz HTTP/1.1\r\nX-$_: "); $socket } 1 .. 200;
my $silent = Clairon::Test::SecureSocket->new($relay, $cert);
is(send_records($inner)->{status}, 200, 'hundreds of incomplete heads block no other client');
my %ends;
$ends{ $_->read_response->{status} }++ for @slow;
is_deeply([ grep { $_ != 408 && $_ != 0 } keys %ends ], [], 'no incomplete head receives a 200');
cmp_ok($ends{408}, '>', 100, 'most incomplete heads receive 408 at their timeout');
is($silent->read_response->{status}, 0, 'a client that sent nothing receives no response');
for my $piece ('', "GET /healthz HTTP/1.1\r\nX", "GET /healthz HTTP/1.1\n")
{
    my $raw = Clairon::Test::SecureSocket->new($relay, $cert);
    $raw->write($piece) if length $piece;
    $raw->disconnect;
}
my $user = Clairon::Test::SecureSocket->user($relay, 'u1', $cert);
$user->send_json({ t => 'ping' });
is($user->next_message->{t}, 'pong', 'WebSockets can still be opened after incomplete heads');

is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
