# Is a request whose head is too long, too slow, or could be read in two ways refused, in words, before anybody reads it in one?
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
my $relay  = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.connect_timeout' => '1s', 'gate.max_per_address' => 3, 'gate.trusted_proxies' => '192.0.2.0/24' });

# Bytes as they are; the answer.
sub said
{
    my ($bytes) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write($bytes);
    return $raw->read_response;
}
sub refused
{
    my ($status, $bytes, $name, $detail) = @_;
    my $answer = said($bytes);
    is($answer->{status}, $status, "$name: $status");
    is($answer->{headers}{'content-type'}, 'application/problem+json', 'as problem details');
    like($answer->{json}{detail}, $detail, 'that say why');
    return $answer;
}
my $auth  = 'Authorization: Bearer ' . token(sub => 'u1') . "\r\n";
my $host  = "Host: x\r\n";
my $inner = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

refused(400, @$_) for Clairon::Test::MalformedHeads::ambiguous($auth);
is(said("POST /v1/ack HTTP/1.1\r\n$host${auth}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")->{status}, 411, 'chunks alone: a body needs its length');
is(said("GET /healthz HTTP/1.0\r\n\r\n")->{status}, 200, 'HTTP/1.0 needs no host');
is(said("GET /healthz HTTP/1.1\r\n${host}X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\nCookie: a\r\nCookie: b\r\n\r\n")->{status}, 200, 'lists may stand twice');

refused(431, @$_, qr/too long/) for Clairon::Test::MalformedHeads::too_long();
is(said("GET /healthz HTTP/1.1\r\n$host" . join('', map { "X-Header-$_: " . 'y' x 80 . "\r\n" } 1 .. 120) . "\r\n")->{status}, 200, 'what fits is taken');
is(said("GET /v1/poll?wait=0 HTTP/1.1\r\n${host}Authorization: Bearer " . token(sub => 'u1', x => 'y' x 5900) . "\r\n\r\n")->{status}, 204, 'a token may be long');

# A body that waits to be asked for.
my $asking = Clairon::Test::RawSocket->new($relay);
$asking->write("POST /v1/ack HTTP/1.1\r\n${host}${auth}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
1 until $asking->{bytes} =~ /\r\n\r\n/ || !$asking->more;
like($asking->{bytes}, qr/\AHTTP\/1\.1 100 /, 'who asks whether to go on is told to');
$asking->{bytes} = '';
$asking->write('{}');
is($asking->read_response->{status}, 400, 'and answered when the body has come');
is(said("POST /v1/ack HTTP/1.0\r\n${auth}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}")->{status}, 400, 'HTTP/1.0 knows no such word');
is(said("POST /v1/ack HTTP/1.1\r\n${host}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")->{status}, 401, 'who may not is told so at once');

# What clients of Java offer with each request (RFC 9110, 7.8: it may be passed over).
my %offers = (h2c => "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n", 'TLS/1.2' => "Upgrade: TLS/1.2\r\nConnection: Upgrade\r\n", 'foo websocket' => "Upgrade: foo websocket\r\nConnection: Upgrade\r\n");
for my $offered (sort keys %offers)
{
    my $ack = '{"ids":["00000000-0000-0000-0000-000000000000"]}';
    my $post = "POST /v1/ack HTTP/1.1\r\n$host$auth$offers{$offered}Content-Length: " . length($ack) . "\r\n";
    is(said("GET /v1/poll?wait=0 HTTP/1.1\r\n$host$auth$offers{$offered}\r\n")->{status}, 204, "a request that offers $offered is one of HTTP");
    is(said("$post\r\n$ack")->{status}, 204, 'with a body too');
    is(said($post . join('', map { "X-$_: " . 'y' x 90 . "\r\n" } 1 .. 100) . "\r\n$ack")->{status}, 204, 'and a long head');
    my $slow = Clairon::Test::RawSocket->new($relay);
    $slow->write($_) for split //, "$post\r\n$ack";
    is($slow->read_response->{status}, 204, 'and byte by byte');
}

# Names that are the beginning of others: libwebsockets takes what follows for more of the name.
my $json = '{"ids":["00000000-0000-0000-0000-000000000000"]}';
my $may  = 'Authorization: Bearer ' . token(sub => 'u1', publish => JSON::true) . "\r\n";
for my $name (qw(A X-Auth x-forwarded Sec P TE-))
{
    my $poll = "GET /v1/poll?wait=0 HTTP/1.1\r\n";
    is(said("$poll$host$auth$name: b\r\n\r\n")->{status}, 204, "$name at the end of a head");
    is(said("$poll$host$name: b\r\n$auth\r\n")->{status}, 204, 'before a token');
    is(said("$poll$host$auth$name: b\r\nOrigin: http://evil.example\r\n\r\n")->{status}, 403, 'before an origin');
    is(said("$poll$host$auth$name:\r\n$name: b\r\n$name:c:d\r\n$name:\r\nX-Other: e\r\n$name: \r\nOrigin: http://evil.example\r\n\r\n")->{status}, 403, 'before others of its kind');
    is(said("POST /v1/ack HTTP/1.1\r\n$name: b\r\n$host$auth$name: b\r\nContent-Length: " . length($json) . "\r\n\r\n$json")->{status}, 204, 'before a length');
    like(said("POST /v1/notifications HTTP/1.1\r\n$host$may$name: b\r\nIdempotency-Key:\r\nContent-Length: 2\r\n\r\n{}")->{json}{detail}, qr/Idempotency-Key/, 'before a key');
}

# Methods.
for my $method (qw(PATCH TRACE CONNECT PROPFIND get FOO))
{
    my $answer = refused(405, "$method /v1/ack HTTP/1.1\r\n$host$auth\r\n", "$method of what takes POST", qr/answers POST only/);
    is($answer->{headers}{allow}, 'POST', 'with Allow');
}
is(said("$_ /v1/poll?wait=0 HTTP/1.1\r\n$host\r\n")->{headers}{allow}, 'GET', "$_ of what takes GET") for qw(PUT DELETE PATCH MKCOL);
is(said("FOO /nothing?x HTTP/1.1\r\n$host\r\n")->{status}, 404, 'an unknown method of nothing');

# In pieces, and too slowly.
my $raw = Clairon::Test::RawSocket->new($relay);
for my $piece (split //, "GET /healthz HTTP/1.1\r\n$host\r\n") { $raw->write($piece); select undef, undef, undef, 0 }
is($raw->read_response->{status}, 200, 'a head may come byte by byte');
$raw = Clairon::Test::RawSocket->new($relay);
$raw->write("GET /v1/poll?wait=0 HTTP/1.1\r\n$host");
is(said($inner)->{status}, 200, 'another is served meanwhile');
$raw->write("$auth\r\n");
is($raw->read_response->{status}, 204, 'and the first when it goes on');
my @slow = map { my $drip = Clairon::Test::RawSocket->new($relay); $drip->write("GET /healthz HTTP/1.1\r\nX-$_: "); $drip } 1 .. 300;
my $mute = Clairon::Test::RawSocket->new($relay);
is(said($inner)->{status}, 200, 'hundreds that do not end their head keep nobody out');
is_deeply([ grep { $_->read_response->{status} != 408 } @slow ], [], 'each is told when its time is over');
is_deeply([ @{ $mute->read_response }{qw(status)} ], [0], 'who said nothing is told nothing');
$raw = Clairon::Test::RawSocket->new($relay);
$raw->write("GET /healthz HTTP/1.1\r\n");
shutdown $raw->{link}, 1;
is($raw->read_response->{status}, 0, 'who goes in the middle is let go');
$raw = Clairon::Test::RawSocket->new($relay);
$raw->write($inner);
shutdown $raw->{link}, 1;
is($raw->read_response->{status}, 200, 'who says all and no more is answered');
for (1 .. 5)
{
    $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write("GET /healthz HTTP/1.1\r\nX");
    $raw->disconnect;
}
my $open = $relay->client('u1');
is($open->wait_for('connected')->{user}, 'u1', 'a WebSocket opens as ever');

# A unix socket says the same.
my $local = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { 'gate.listen' => "unix:$folder/sock", 'gate.connect_timeout' => '1s' });
wait_until('it listens', sub { IO::Socket::UNIX->new(Peer => "$folder/sock") });
sub on_unix
{
    my (@pieces) = @_;
    my $link = IO::Socket::UNIX->new(Peer => "$folder/sock") or die "could not connect: $!\n";
    my $raw  = bless { link => $link, bytes => '', messages => [] }, 'Clairon::Test::RawSocket';
    $link->blocking(0);
    for (@pieces) { defined $_ ? $raw->write($_) : shutdown $link, 1 }
    return $raw->read_response->{status};
}
wait_until('it serves', sub { on_unix("GET /readyz HTTP/1.1\r\n$host\r\n") == 200 });
is(on_unix("GET /healthz HTTP/1.1\r\n$host\r\n"), 200, 'a unix socket answers');
is(on_unix("GET /healthz HTTP/1.1\r\n", $host, "\r", "\n"), 200, 'in pieces too');
is(on_unix("GET /healthz HTTP/1.1\r\n${host}X: " . 'x' x 20_000), 431, 'refuses what is too long');
is(on_unix("GET /healthz HTTP/1.1\n\n"), 400, 'and what is ambiguous');
is(on_unix("GET /healthz HTTP/1.1\r\n$host"), 408, 'and what does not end');
is(on_unix("GET /healthz HTTP/1.1\r\n$host\r\n", undef), 200, 'who says no more is answered');
is(on_unix("GET /healthz HTTP/1.1\r\n$host", undef), 0, 'and not waited for in the middle of a head');
is($local->stop, 0, 'SIGTERM ends that relay in good order');

# X-Forwarded-For of somebody who is no proxy of ours, said twice.
my @mine = map { Clairon::Test::RawSocket->open($relay) } 1 .. 2;
is(Clairon::Test::RawSocket->open($relay, 'X-Forwarded-For' => '192.0.2.77')->{response}{status}, 429, 'an address does not hide behind what it says of itself');
my $upgrade = "GET /v1/ws HTTP/1.1\r\n${host}Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
is(said("${upgrade}X-Forwarded-For: 192.0.2.77\r\nX-Forwarded-For: 203.0.113.5\r\n\r\n")->{status}, 429, 'nor by saying it twice');
refused(400, "${upgrade}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 'two keys of a WebSocket', qr/twice/);
$_->disconnect for @mine;

# A token's header may not say which key to believe, nor spell the algorithm in its own way.
sub made
{
    my ($head, $key) = @_;
    my $text = encode_base64url(ref $head ? JSON::encode_json($head) : $head) . '.' . encode_base64url(JSON::encode_json({ sub => 'u1', exp => time() + 60, admin => JSON::true }));
    return "$text." . encode_base64url(hmac_sha256($text, $key));
}
my $own = 'k' x 32;
sub judged { return said("GET /v1/poll?wait=0 HTTP/1.1\r\n${host}Authorization: Bearer $_[0]\r\n\r\n")->{status} }
is(judged(made({ alg => 'HS256' }, $Clairon::Test::SECRET)), 204, 'a token with our key');
is(judged(made($_->[1], $own)), 401, "a token with $_->[0] is not believed") for
    [ 'a key of its own' => { alg => 'HS256' } ],
    [ 'jwk'              => { alg => 'HS256', jwk => { kty => 'oct', k => encode_base64url($own) } } ],
    [ 'jku'              => { alg => 'HS256', jku => $relay->url('/keys') } ],
    [ 'x5u'              => { alg => 'HS256', x5u => $relay->url('/keys') } ],
    [ 'x5c'              => { alg => 'HS256', x5c => [ encode_base64($own, '') ] } ],
    [ 'kid, a path'      => { alg => 'HS256', kid => '../../../../dev/null' } ],
    [ 'kid, SQL'         => { alg => 'HS256', kid => "x' UNION SELECT '$own" } ],
    [ 'cty JWT'          => { alg => 'HS256', cty => 'JWT' } ];
is(judged(made({ alg => 'HS256', kid => '/dev/null' }, '')), 401, 'nor with an empty key');
is(judged(made($_, $Clairon::Test::SECRET)), 401, "the header $_ is refused") for
    '{"alg":"none"}', '{"alg":"None"}', '{"alg":"nOnE"}', '{"alg":""}', '{"alg":null}', '{"alg":["HS256"]}', '{"alg":"HS512"}', '{"alg":"hs256"}', '{"alg":"Hs256"}', '{"typ":"JWT"}', '[]', '""', '{}', '{"alg":"HS256","crit":["exp"]}';
my $good = made({ alg => 'HS256' }, $Clairon::Test::SECRET);
is(judged($_->[1]), 401, "$_->[0] is refused") for [ 'a part more' => "$good.x" ], [ 'a part less' => $good =~ s/\.[^.]*\z//r ], [ 'padding' => "$good=" ], [ 'a byte before' => ".$good" ], [ 'no signature' => $good =~ s/[^.]*\z//r ];

unlike($relay->log_text, qr/eyJ/, 'the log holds no token');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

done_testing();
