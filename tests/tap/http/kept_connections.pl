# Tests that a connection serves many requests, in order, and never takes the body of one request for the next request.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use Clairon::Test::SecureSocket;
use JSON ();
use Test::More;

my $has_tls = eval { require IO::Socket::SSL; 1 };
my $store   = Clairon::Test::store();
my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $relay   = Clairon::Test::relay(undef, $store, roles => 'gate');
my $secure  = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { 'gate.tls_cert' => $cert, 'gate.tls_key' => $key });
$secure->wait_for_log(qr/listening/);

my $none = '00000000-0000-0000-0000-000000000000';
my $ack  = "{\"ids\":[\"$none\"]}";
my $next = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

sub head
{
    my ($method, $path, %headers) = @_;
    %headers = (Host => 'x', Authorization => 'Bearer ' . token(sub => 'u1', publish => JSON::true), %headers);
    return "$method $path HTTP/1.1\r\n" . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers) . "\r\n";
}
sub post { my ($body) = @_; return head(POST => '/v1/ack', 'Content-Length' => length $body) . $body }
sub chunked { my ($path, @chunks) = @_; return head(POST => $path, 'Transfer-Encoding' => 'chunked') . join('', map { sprintf("%x\r\n%s\r\n", length, $_) } @chunks) . "0\r\n\r\n" }
sub half_close { my ($raw) = @_; ref($raw) =~ /Secure/ ? Net::SSLeay::shutdown($raw->{link}->_get_ssl_object) : shutdown $raw->{link}, 1; return $raw }
sub at_end { my ($raw) = @_; 1 while $raw->more; return !length $raw->{bytes} && !$raw->{reset} }

for my $tls (0, 1)
{
    next if $tls && !$has_tls;
    my $how  = $tls ? ' over TLS' : '';
    my $link = sub { return $tls ? Clairon::Test::SecureSocket->new($secure, $cert) : Clairon::Test::RawSocket->new($relay) };
    my $send = sub { my $raw = $link->(); $raw->write($_) for @_; return $raw };
    my $statuses = sub { my ($raw, $count) = @_; return join ' ', map { $raw->read_response->{status} } 1 .. $count };

    # A connection is kept, until the client ends it.
    my $kept = $link->();
    my %seen;
    $seen{ $kept->request(GET => '/healthz')->{status} . ($kept->{response}{headers}{connection} // '') }++ for 1 .. 1000;
    is_deeply(\%seen, { 200 => 1000 }, "1000 requests are served on one connection$how");
    is($kept->request(HEAD => '/healthz')->{status}, 200, "HEAD keeps the connection$how");
    is($kept->request(GET => '/nothing')->{status}, 404, "an unknown path keeps the connection$how");
    is($kept->request(GET => '/v1/poll?wait=0', Authorization => 'Bearer ' . token(sub => 'u1'))->{status}, 204, "a poll keeps the connection$how");
    is($kept->request(GET => '/v1/poll?wait=0', Authorization => 'Bearer x')->{status}, 401, "a rejected token keeps the connection$how");
    $kept->write(post($ack));
    is($kept->read_response->{status}, 204, "a request with a body keeps the connection$how");
    $kept->write(post('{'));
    is($kept->read_response->{status}, 400, "an invalid body keeps the connection$how");
    is($kept->request(GET => '/v1/ws', Upgrade => 'websocket', Connection => 'Upgrade', 'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version' => 13)->{status},
        101, "a kept connection becomes a WebSocket$how");
    $kept->send_json({ t => 'connect', r => 1, token => token(sub => 'u1') });
    is($kept->next_message->{t}, 'connected', "the WebSocket is connected$how");

    for my $case ([ 'Connection: close', "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" ],
        [ 'close among other options', "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\n" ], [ 'HTTP/1.0', "GET /healthz HTTP/1.0\r\n\r\n" ])
    {
        my $raw = $send->($case->[1]);
        is($raw->read_response->{headers}{connection}, 'close', "a request with $case->[0]$how has Connection: close in its response");
        ok(at_end($raw), "a request with $case->[0]$how ends the connection");
    }

    # Several requests arrive together; a client that half-closed receives all responses.
    my @many = ($next, post($ack), head(GET => '/v1/poll?wait=0'), "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", chunked('/v1/ack', $ack), post('{'), $next);
    my $order = '200 204 204 404 204 400 200';
    is($statuses->($send->(join '', @many), 7), $order, "requests in one write$how are answered in order");
    is($statuses->($send->(@many), 7), $order, "requests sent without waiting$how are answered in order");
    is($statuses->($send->(split //, join '', @many), 7), $order, "requests byte by byte$how are answered in order");
    my $raw = half_close($send->(join '', @many));
    is($statuses->($raw, 7), $order, "requests before a half-close$how are answered");
    ok(at_end($raw), "the connection ends after them$how");
    is($statuses->($send->(join '', map { $next } 1 .. 500), 500), join(' ', (200) x 500), "hundreds of requests in one write$how are answered");
    is($statuses->($send->(head(GET => '/v1/poll?wait=1') . $next), 2), '204 200', "a request behind a poll$how is answered after it");

    # A body may have chunks.
    my $notification = '{"payload":{"n":1},"routing":{"audience":{"type":"USER","targets":["nobody"]}}}';
    is($statuses->($send->(chunked('/v1/notifications', $notification) . $next), 2), '201 200', "a body of one chunk$how is read");
    is($statuses->($send->(chunked('/v1/notifications', split //, $notification) . $next), 2), '201 200', "a body of many chunks$how is read");
    is($statuses->($send->(split //, chunked('/v1/notifications', unpack '(A7)*', $notification) . $next), 2), '201 200', "chunks byte by byte$how are read");
    my $start = head(POST => '/v1/ack', 'Transfer-Encoding' => 'Chunked');
    my $size  = sprintf '%X', length $ack;
    is($statuses->($send->("${start}00$size;a=b;c=\"d\"\r\n$ack\r\n000\r\nX-Trailer: a\r\nY: b\r\n\r\n$next"), 2), '204 200', "chunk extensions and trailers$how are ignored");
    is($statuses->($send->(head(POST => '/v1/ack', 'Transfer-Encoding' => 'chunked', Expect => '100-continue')), 1), '100', "a chunked body$how is awaited");
    is($statuses->($send->(chunked('/v1/ack', map { ' ' x 10_000 } 1 .. 99) . $next), 2), '400 200', "a chunked body of 990 kB$how is read");
    is($statuses->($send->(chunked('/v1/ack', map { ' ' x 10_000 } 1 .. 110)), 1), '413', "a chunked body over 1 MB$how is rejected");

    # None of these is followed by another response.
    my $long = 'x' x 300;
    for my $case (
        [ 'a bare LF after the size', "$start$size\n$ack\r\n0\r\n\r\n" ], [ 'a bare LF after the data', "$start$size\r\n$ack\n0\r\n\r\n" ],
        [ 'a bare LF at the end', "$start$size\r\n$ack\r\n0\n\n" ], [ 'a bare LF in a trailer', "$start$size\r\n$ack\r\n0\r\nX: y\n\r\n" ],
        [ 'data after the chunk', "$start$size\r\n${ack}x\r\n0\r\n\r\n" ], [ 'a long extension', "$start$size;$long\r\n$ack\r\n0\r\n\r\n" ],
        [ 'an empty size', "$start\r\n$ack\r\n0\r\n\r\n" ], [ 'a prefix 0x', "${start}0x$size\r\n$ack\r\n0\r\n\r\n" ], [ 'a sign', "$start+$size\r\n$ack\r\n0\r\n\r\n" ],
        [ 'a space before the size', "$start $size\r\n$ack\r\n0\r\n\r\n" ], [ 'a huge size', "${start}ffffffffffffffff0\r\n$ack\r\n0\r\n\r\n" ],
        [ 'a folded trailer', "$start$size\r\n$ack\r\n0\r\nX: a\r\n b\r\n\r\n" ], [ 'long trailers', "$start$size\r\n$ack\r\n0\r\n" . "X: $long\r\n" x 100 . "\r\n" ],
        [ 'a control character in an extension', "$start$size;\x01\r\n$ack\r\n0\r\n\r\n" ],
        (map { [ "Transfer-Encoding: $_", head(POST => '/v1/ack', 'Transfer-Encoding' => $_) . "$size\r\n$ack\r\n0\r\n\r\n" ] } 'gzip, chunked', 'chunked, chunked', 'identity', 'xchunked', '', 'chunked;q=1', "\x0bchunked"),
        [ 'chunks in HTTP/1.0', head(POST => '/v1/ack', 'Transfer-Encoding' => 'chunked') =~ s/1\.1/1.0/r . "$size\r\n$ack\r\n0\r\n\r\n" ],
        [ 'both lengths', head(POST => '/v1/ack', 'Transfer-Encoding' => 'chunked', 'Content-Length' => 5) . "0\r\n\r\n" ],
        [ 'two lengths', head(POST => '/v1/ack', 'Content-Length' => '5, 5') . 'hello' ], [ 'a long length', head(POST => '/v1/ack', 'Content-Length' => '99999999999999999999') . 'hello' ],
        [ 'a bare LF in the head', "GET /healthz HTTP/1.1\nHost: x\n\n" ], [ 'a folded line', "GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n" ])
    {
        my ($name, $bytes) = @$case;
        my $raw = $send->($next, $bytes, $next);
        is($raw->read_response->{status}, 200, "the request before $name$how is answered");
        like($raw->read_response->{status}, qr/^(400|413|0)$/, "a request with $name$how is rejected");
        half_close($raw);
        1 while $raw->more;
        is($raw->{bytes}, '', "$name$how ends the connection");
    }

    # A body that is not read is not the next request.
    is($statuses->($raw = $send->(head(GET => '/healthz', 'Content-Length' => length $next) . $next), 1), '200', "a GET with a body$how is answered");
    half_close($raw);
    ok(at_end($raw), "its body$how is not a request");
    is($statuses->($raw = $send->(head(POST => '/v1/ack', Authorization => 'Bearer x', 'Content-Length' => length $next) . $next), 1), '401', "a rejected request with a body$how is answered");
    half_close($raw);
    ok(at_end($raw), "the body of a rejected request$how is not a request");

    # A gateway sends the whole body before it reads the response.
    for my $len (3_000_000, 7_900_000)
    {
        $raw = $link->();
        ok($raw->write(head(POST => '/v1/ack', 'Content-Length' => $len) . 'x' x $len), "a body of $len bytes$how can be sent");
        is($raw->read_response->{status}, 413, "a body of $len bytes$how is rejected");
        ok(at_end($raw), "the connection$how is closed without a reset");
    }
}
is($secure->stop, 0, 'SIGTERM ends the relay with TLS with status 0');

# Other subprotocols may be named, such as one that contains a token.
sub upgrade { my ($list) = @_; my $raw = Clairon::Test::RawSocket->open($relay, 'Sec-WebSocket-Protocol' => $list); return $raw->{response}{headers}{'sec-websocket-protocol'} // $raw->{response}{status} }
is(upgrade($_), 'clairon.v1.json', "the subprotocols $_ name ours") for 'clairon.v1.json, bearer.' . 'eyJ.' x 100, 'a.b.c,clairon.v1.json', 'clairon.v1.json,,x';

# A kept connection ends after gate.keepalive, and not before.
my $brief = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.keepalive' => '1s', 'gate.connect_timeout' => '10m' });
my ($idle, $busy, $fresh) = map { Clairon::Test::RawSocket->new($brief) } 1 .. 3;
is($idle->request(GET => '/healthz')->{status}, 200, 'a connection is kept');
my $served = 0;
until (IO::Select->new($idle->{link})->can_read(0.1)) { $served++ if $busy->request(GET => '/healthz')->{status} == 200 }
ok(at_end($idle), 'an idle connection is closed after gate.keepalive');
cmp_ok($served, '>', 5, 'a connection with requests is kept longer');
is($fresh->request(GET => '/healthz')->{status}, 200, 'gate.keepalive does not apply before the first request');
is($brief->stop, 0, 'SIGTERM ends the relay with kept connections with status 0');

# Idle connections count for max_connections, and yield, oldest first.
my $small = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.max_connections' => 3 });
my @kept = map { my $raw = Clairon::Test::RawSocket->new($small); $raw->request(GET => '/healthz'); $raw } 1 .. 5;
ok(at_end($_), 'the oldest idle connection beyond max_connections is closed') for @kept[ 0, 1 ];
my @users = map { Clairon::Test::RawSocket->user($small, "u$_") } 1, 2;
ok(at_end($_), 'the oldest idle connection yields to a WebSocket') for @kept[ 2, 3 ];
is($kept[4]->request(GET => '/healthz')->{status}, 200, 'the newest idle connection is kept');
push @users, Clairon::Test::RawSocket->user($small, 'u3');
ok(at_end($kept[4]), 'the last idle connection yields');
is(Clairon::Test::RawSocket->open($small)->{response}{status}, 503, 'connections in use do not yield');
is($_->stop, 0, 'SIGTERM ends the relay with status 0') for $relay, $small;

done_testing();
