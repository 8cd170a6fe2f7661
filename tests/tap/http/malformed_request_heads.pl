# Tests that a request head that is too long, too slow or ambiguous is rejected with a reason, before any other
# component interprets the head.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::MalformedHeads;
use Clairon::Test::RawSocket;
use Digest::SHA qw(hmac_sha256);
use IO::Socket::UNIX;
use JSON ();
use MIME::Base64 qw(encode_base64 encode_base64url);
use Test::More;

my $store  = Clairon::Test::store();
my $folder = Clairon::Test::scratch();
my $relay  = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.connect_timeout' => '10m', 'gate.max_per_address' => 3, 'gate.trusted_proxies' => '192.0.2.0/24' });
my $hasty  = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.connect_timeout' => '1s' });

# Sends raw bytes; returns the response.
sub send_raw
{
    my ($bytes, $to) = @_;
    my $raw = Clairon::Test::RawSocket->new($to // $relay);
    $raw->write($bytes);
    return $raw->read_response;
}
sub expect_rejected
{
    my ($status, $bytes, $name, $detail) = @_;
    my $response = send_raw($bytes);
    is($response->{status}, $status, "a head with $name is rejected with $status");
    is($response->{headers}{'content-type'}, 'application/problem+json', "a head with $name is rejected with problem details");
    like($response->{json}{detail}, $detail, "a head with $name is rejected with the reason");
    return $response;
}
my $auth  = 'Authorization: Bearer ' . token(sub => 'u1') . "\r\n";
my $host  = "Host: x\r\n";
my $inner = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

expect_rejected(400, @$_) for Clairon::Test::MalformedHeads::ambiguous($auth);
is(send_raw("POST /v1/ack HTTP/1.1\r\n$host${auth}\r\n")->{status}, 411, 'a request without a body is rejected');
is(send_raw("GET /healthz HTTP/1.0\r\n\r\n")->{status}, 200, 'HTTP/1.0 does not require Host');
is(send_raw("GET /healthz HTTP/1.1\r\nHost:$_\r\n\r\n")->{status}, 200, "the Host '$_' is valid") for '', ' x_y.example.org:8080', ' [2001:db8::1]:80', ' %41';
is(send_raw("GET $_ HTTP/1.1\r\n$host\r\n")->{status}, 200, "the target $_ is valid") for 'http://x/healthz', 'HTTPS://y.example:8443/healthz?a=b';
is(send_raw("GET http://x HTTP/1.1\r\n$host\r\n")->{status}, 404, 'an absolute target without a path is valid');
is(send_raw("GET http://x/v1/poll?wait=0 HTTP/1.1\r\nHost: y\r\n${auth}Origin: http://x\r\n\r\n")->{status}, 204, 'the host of an absolute target may be the origin');
is(send_raw("GET http://x/v1/poll?wait=0 HTTP/1.1\r\nHost: y\r\n${auth}Origin: http://y\r\n\r\n")->{status}, 403, 'an absolute target replaces Host');
is(Clairon::Test::RawSocket->open($relay, ':path' => 'http://x/v1/ws', Host => '')->{response}{status}, 101, 'an upgrade may have an absolute target');
is(Clairon::Test::RawSocket->open($relay, Host => '')->{response}{status}, 400, 'an upgrade without a host is rejected');
my $options = send_raw("OPTIONS * HTTP/1.1\r\n$host\r\n");
is_deeply([ @$options{qw(status body)}, $options->{headers}{allow} ], [ 204, '', 'GET, HEAD, POST, DELETE, OPTIONS' ], 'OPTIONS * returns the methods');
my $kept = Clairon::Test::RawSocket->new($relay);
$kept->write("POST /v1/ack HTTP/1.1\r\n$host${auth}Content-Length: 2\r\n\r\n{}\r\n$inner");
is($kept->read_response->{status}, 400, 'the request before an empty line receives a response');
is($kept->read_response->{status}, 200, 'an empty line before a request line is ignored');
for my $case ([ 204, "GET /v1/poll?wait=0 HTTP/1.1\r\n$host$auth" ], [ 404, "GET /nothing HTTP/1.1\r\n$host" ], [ 400, "BAD HTTP/1.1\r\n" ], [ 200, "GET /v1/sse HTTP/1.1\r\n$host$auth" ])
{
    my ($status, $request) = @$case;
    my $socket = Clairon::Test::RawSocket->new($relay);
    $socket->write("$request\r\n");
    1 until $socket->{bytes} =~ /\r\n\r\n/ || !$socket->more;
    like($socket->{bytes}, qr{\AHTTP/1\.1 $status .*\r\nDate: (Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT\r\n}, "a response of status $status has a Date");
}
is(send_raw("GET /healthz HTTP/1.1\r\n${host}X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\nCookie: a\r\nCookie: b\r\n\r\n")->{status}, 200, 'repeated list headers are valid');

expect_rejected(404, "GET $_ HTTP/1.1\r\n$host$auth\r\n", "the path $_", qr/no such path/)
  for '/v1/rows;x?source=t', '//v1/rows?source=t', '/v1/../v1/rows?source=t', '/v1/./rows', '/v1/%72ows?source=t', '/v1/rows/../rows';

expect_rejected(431, @$_, qr/too long/) for Clairon::Test::MalformedHeads::too_long();
is(send_raw("GET /healthz HTTP/1.1\r\n$host" . join('', map { "X-Header-$_: " . 'y' x 80 . "\r\n" } 1 .. 120) . "\r\n")->{status}, 200, 'a head below the limit is accepted');
is(send_raw("GET /v1/poll?wait=0 HTTP/1.1\r\n${host}Authorization: Bearer " . token(sub => 'u1', x => 'y' x 5900) . "\r\n\r\n")->{status}, 204, 'a long token is accepted');
like(send_raw("GET /v1/poll?wait=0 HTTP/1.1\r\n${host}Authorization: Bearer " . token(sub => 'u1', x => 'y' x 6200) . "\r\n\r\n")->{json}{detail}, qr/longer than 8192/, 'a longer one is rejected with the reason');

# The relay supports Expect: 100-continue.
my $expecting = Clairon::Test::RawSocket->new($relay);
$expecting->write("POST /v1/ack HTTP/1.1\r\n${host}${auth}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
1 until $expecting->{bytes} =~ /\r\n\r\n/ || !$expecting->more;
like($expecting->{bytes}, qr/\AHTTP\/1\.1 100 /, 'the relay sends 100 Continue');
$expecting->{bytes} = '';
$expecting->write('{}');
is($expecting->read_response->{status}, 400, 'the relay responds after the body has arrived');
is(send_raw("POST /v1/ack HTTP/1.0\r\n${auth}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}")->{status}, 400, 'HTTP/1.0 ignores Expect');
is(send_raw("POST /v1/ack HTTP/1.1\r\n${host}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")->{status}, 401, 'an unauthorized request is rejected immediately');

# Java clients offer these upgrades with each request. (RFC 9110, 7.8: a server may ignore them.)
my %offers = (h2c => "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n", 'TLS/1.2' => "Upgrade: TLS/1.2\r\nConnection: Upgrade\r\n", 'foo websocket' => "Upgrade: foo websocket\r\nConnection: Upgrade\r\n");
for my $offered (sort keys %offers)
{
    my $ack = '{"ids":["00000000-0000-0000-0000-000000000000"]}';
    my $post = "POST /v1/ack HTTP/1.1\r\n$host$auth$offers{$offered}Content-Length: " . length($ack) . "\r\n";
    is(send_raw("GET /v1/poll?wait=0 HTTP/1.1\r\n$host$auth$offers{$offered}\r\n")->{status}, 204, "a request that offers $offered is served as HTTP");
    is(send_raw("$post\r\n$ack")->{status}, 204, "a request with a body that offers $offered is served");
    is(send_raw($post . join('', map { "X-$_: " . 'y' x 90 . "\r\n" } 1 .. 100) . "\r\n$ack")->{status}, 204, "a request with a long head that offers $offered is served");
    my $slow = Clairon::Test::RawSocket->new($relay);
    $slow->write($_) for split //, "$post\r\n$ack";
    is($slow->read_response->{status}, 204, "a request that offers $offered is served byte by byte");
}

# These names are prefixes of other names, which some parsers take for the other names.
my $json = '{"ids":["00000000-0000-0000-0000-000000000000"]}';
my $may  = 'Authorization: Bearer ' . token(sub => 'u1', publish => JSON::true) . "\r\n";
for my $name (qw(A X-Auth x-forwarded Sec P TE-))
{
    my $poll = "GET /v1/poll?wait=0 HTTP/1.1\r\n";
    is(send_raw("$poll$host$auth$name: b\r\n\r\n")->{status}, 204, "$name is accepted at the end of a head");
    is(send_raw("$poll$host$name: b\r\n$auth\r\n")->{status}, 204, "$name does not hide a token");
    is(send_raw("$poll$host$auth$name: b\r\nOrigin: http://evil.example\r\n\r\n")->{status}, 403, "$name does not hide an origin");
    is(send_raw("$poll$host$auth$name:\r\n$name: b\r\n$name:c:d\r\n$name:\r\nX-Other: e\r\n$name: \r\nOrigin: http://evil.example\r\n\r\n")->{status}, 403, "$name does not hide an origin if it is repeated");
    is(send_raw("POST /v1/ack HTTP/1.1\r\n$name: b\r\n$host$auth$name: b\r\nContent-Length: " . length($json) . "\r\n\r\n$json")->{status}, 204, "$name does not hide a length");
    like(send_raw("POST /v1/notifications HTTP/1.1\r\n$host$may$name: b\r\nIdempotency-Key:\r\nContent-Length: 2\r\n\r\n{}")->{json}{detail}, qr/Idempotency-Key/, "$name does not hide an idempotency key");
}

# A path rejects other methods with Allow.
for my $method (qw(PATCH TRACE CONNECT PROPFIND get FOO))
{
    my $response = expect_rejected(405, "$method /v1/ack HTTP/1.1\r\n$host$auth\r\n", "the method $method on a POST path", qr/use POST/);
    is($response->{headers}{allow}, 'POST', "the rejection of $method has Allow");
}
is(send_raw("$_ /v1/poll?wait=0 HTTP/1.1\r\n$host\r\n")->{headers}{allow}, 'GET', "$_ on a GET path is rejected with Allow") for qw(PUT DELETE PATCH MKCOL);
is(send_raw("FOO /nothing?x HTTP/1.1\r\n$host\r\n")->{status}, 404, 'an unknown method on an unknown path returns 404');

# Heads arrive in chunks, or too slowly.
my $raw = Clairon::Test::RawSocket->new($relay);
for my $piece (split //, "GET /healthz HTTP/1.1\r\n$host\r\n") { $raw->write($piece); select undef, undef, undef, 0 }
is($raw->read_response->{status}, 200, 'a head that arrives byte by byte is accepted');
$raw = Clairon::Test::RawSocket->new($relay);
$raw->write("GET /v1/poll?wait=0 HTTP/1.1\r\n$host");
is(send_raw($inner)->{status}, 200, 'another client is still served');
$raw->write("$auth\r\n");
is($raw->read_response->{status}, 204, 'the first client is served after it sends the remaining bytes');
my @slow = map { my $socket = Clairon::Test::RawSocket->new($hasty); $socket->write("GET /healthz HTTP/1.1\r\nX-$_: "); $socket } 1 .. 300;
my $silent = Clairon::Test::RawSocket->new($hasty);
is(send_raw($inner, $hasty)->{status}, 200, 'hundreds of incomplete heads block no other client');
is_deeply([ grep { $_->read_response->{status} != 408 } @slow ], [], 'each incomplete head receives 408 at its timeout');
is_deeply([ @{ $silent->read_response }{qw(status)} ], [0], 'a client that sent nothing receives no response');
$raw = Clairon::Test::RawSocket->new($relay);
$raw->write("GET /healthz HTTP/1.1\r\n");
shutdown $raw->{link}, 1;
is($raw->read_response->{status}, 0, 'a disconnect within the head ends the connection');
$raw = Clairon::Test::RawSocket->new($relay);
$raw->write($inner);
shutdown $raw->{link}, 1;
is($raw->read_response->{status}, 200, 'a half-closed request receives a response');
for (1 .. 5)
{
    $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write("GET /healthz HTTP/1.1\r\nX");
    $raw->disconnect;
}
my $open = $relay->client('u1');
is($open->wait_for('connected')->{user}, 'u1', 'WebSockets can still be opened after incomplete heads');

# The relay listens on a Unix socket.
my $local = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { 'gate.listen' => "unix:$folder/sock", 'gate.connect_timeout' => '1s' });
wait_until('the relay listens', sub { IO::Socket::UNIX->new(Peer => "$folder/sock") });
sub on_unix
{
    my (@pieces) = @_;
    my $link = IO::Socket::UNIX->new(Peer => "$folder/sock") or die "could not connect: $!\n";
    my $raw  = bless { link => $link, bytes => '', messages => [] }, 'Clairon::Test::RawSocket';
    $link->blocking(0);
    for (@pieces) { defined $_ ? $raw->write($_) : shutdown $link, 1 }
    return $raw->read_response->{status};
}
wait_until('the relay serves requests', sub { on_unix("GET /readyz HTTP/1.1\r\n$host\r\n") == 200 });
is(on_unix("GET /healthz HTTP/1.1\r\n$host\r\n"), 200, 'a Unix socket serves requests');
is(on_unix("GET /healthz HTTP/1.1\r\n", $host, "\r", "\n"), 200, 'a Unix socket accepts a head in chunks');
is(on_unix("GET /healthz HTTP/1.1\r\n${host}X: " . 'x' x 20_000), 431, 'a Unix socket rejects a head that is too long');
is(on_unix("GET /healthz HTTP/1.1\n\n"), 400, 'a Unix socket rejects an ambiguous head');
is(on_unix("GET /healthz HTTP/1.1\r\n$host"), 408, 'a Unix socket rejects an incomplete head');
is(on_unix("GET /healthz HTTP/1.1\r\n$host\r\n", undef), 200, 'a half-closed request on a Unix socket receives a response');
is(on_unix("GET /healthz HTTP/1.1\r\n$host", undef), 0, 'a half-close within a head ends the connection');
is($local->stop, 0, 'SIGTERM ends the relay on the Unix socket with status 0');

# X-Forwarded-For comes from an untrusted client, or is repeated.
my @mine = map { Clairon::Test::RawSocket->open($relay) } 1 .. 2;
is(Clairon::Test::RawSocket->open($relay, 'X-Forwarded-For' => '192.0.2.77')->{response}{status}, 429, 'X-Forwarded-For does not bypass the per-address limit');
my $upgrade = "GET /v1/ws HTTP/1.1\r\n${host}Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
is(send_raw("${upgrade}X-Forwarded-For: 192.0.2.77\r\nX-Forwarded-For: 203.0.113.5\r\n\r\n")->{status}, 429, 'a repeated X-Forwarded-For does not bypass the per-address limit');
expect_rejected(400, "${upgrade}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 'two Sec-WebSocket-Key headers', qr/duplicate header/);
$_->disconnect for @mine;

# The header of a token can neither select the key nor rename the algorithm.
sub made
{
    my ($head, $key) = @_;
    my $text = encode_base64url(ref $head ? JSON::encode_json($head) : $head) . '.' . encode_base64url(JSON::encode_json({ sub => 'u1', exp => time() + 60, admin => JSON::true }));
    return "$text." . encode_base64url(hmac_sha256($text, $key));
}
my $own = 'k' x 32;
sub token_status { return send_raw("GET /v1/poll?wait=0 HTTP/1.1\r\n${host}Authorization: Bearer $_[0]\r\n\r\n")->{status} }
is(token_status(made({ alg => 'HS256' }, $Clairon::Test::SECRET)), 204, 'a token with the configured key is accepted');
is(token_status(made($_->[1], $own)), 401, "a token with $_->[0] is rejected") for
    [ 'a key in its header' => { alg => 'HS256' } ],
    [ 'jwk'              => { alg => 'HS256', jwk => { kty => 'oct', k => encode_base64url($own) } } ],
    [ 'jku'              => { alg => 'HS256', jku => $relay->url('/keys') } ],
    [ 'x5u'              => { alg => 'HS256', x5u => $relay->url('/keys') } ],
    [ 'x5c'              => { alg => 'HS256', x5c => [ encode_base64($own, '') ] } ],
    [ 'kid, a path'      => { alg => 'HS256', kid => '../../../../dev/null' } ],
    [ 'kid, SQL'         => { alg => 'HS256', kid => "x' UNION SELECT '$own" } ],
    [ 'cty JWT'          => { alg => 'HS256', cty => 'JWT' } ];
is(token_status(made({ alg => 'HS256', kid => '/dev/null' }, '')), 401, 'an empty key is rejected');
is(token_status(made($_, $Clairon::Test::SECRET)), 401, "the header $_ is rejected") for
    '{"alg":"none"}', '{"alg":"None"}', '{"alg":"nOnE"}', '{"alg":""}', '{"alg":null}', '{"alg":["HS256"]}', '{"alg":"HS512"}', '{"alg":"hs256"}', '{"alg":"Hs256"}', '{"typ":"JWT"}', '[]', '""', '{}', '{"alg":"HS256","crit":["exp"]}';
my $good = made({ alg => 'HS256' }, $Clairon::Test::SECRET);
is(token_status($_->[1]), 401, "$_->[0] is rejected") for [ 'an additional part' => "$good.x" ], [ 'a missing part' => $good =~ s/\.[^.]*\z//r ], [ 'padding' => "$good=" ], [ 'a byte before' => ".$good" ], [ 'no signature' => $good =~ s/[^.]*\z//r ];

unlike($relay->log_text, qr/eyJ/, 'the log has no token');
is($_->stop, 0, 'SIGTERM ends the relay with status 0') for $relay, $hasty;

done_testing();
