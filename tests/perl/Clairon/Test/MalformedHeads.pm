# Clairon::Test::MalformedHeads: request heads that a relay must reject, as [ bytes, name, pattern of the detail ].
package Clairon::Test::MalformedHeads;

use strict;
use warnings;

my $host  = "Host: x\r\n";
my $inner = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

# Ambiguous heads. $auth is a header with a valid token.
sub ambiguous
{
    my ($auth) = @_;
    return (
        [ "POST /v1/ack HTTP/1.1\r\n$host${auth}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n$inner", 'Content-Length before Transfer-Encoding', qr/both Content-Length/ ],
        [ "POST /v1/ack HTTP/1.1\r\n$host${auth}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n$inner", 'Transfer-Encoding before Content-Length', qr/both Content-Length/ ],
        [ "POST /v1/ack HTTP/1.1\r\n$host${auth}Content-Length: 0\r\nContent-Length: 44\r\n\r\n$inner", 'two different Content-Length headers', qr/duplicate header/ ],
        [ "POST /v1/ack HTTP/1.1\r\n$host${auth}Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}", 'the same Content-Length twice', qr/duplicate header/ ],
        [ "POST /v1/ack HTTP/1.1\r\n$host${auth}Content-Length : 2\r\n\r\n{}", 'a space before a colon', qr/whitespace before/ ],
        [ "GET /v1/poll?wait=0 HTTP/1.1\r\n${host}${auth}${auth}\r\n", 'two Authorization headers', qr/duplicate header/ ],
        [ "GET /v1/poll?wait=0 HTTP/1.1\r\n${host}Host: y\r\n$auth\r\n", 'two Host headers', qr/duplicate header/ ],
        [ "GET /v1/poll?wait=0 HTTP/1.1\r\n${host}${auth}Origin: http://x\r\nOrigin: http://evil.example\r\n\r\n", 'two Origin headers', qr/duplicate header/ ],
        [ "GET /v1/poll?wait=0 HTTP/1.1\r\n${host}${auth}Origin: \r\n\r\n", 'an empty Origin header', qr/empty Origin/ ],
        [ "POST /v1/notifications HTTP/1.1\r\n${host}${auth}Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 2\r\n\r\n{}", 'two Idempotency-Key headers', qr/duplicate header/ ],
        [ "GET /v1/poll?wait=0 HTTP/1.1\r\n${host}X-A: b\r\n $auth\r\n", 'a folded header', qr/line folding/ ],
        [ "GET /v1/poll?wait=0 HTTP/1.1\r\n $host\r\n", 'a folded line after the request line', qr/line folding/ ],
        [ "GET /healthz HTTP/1.1\nHost: x\n\n", 'bare line feeds', qr/carriage return/ ],
        [ "GET /healthz HTTP/1.1\r\n${host}X-A: b\n$inner", 'a bare line feed between headers', qr/carriage return/ ],
        [ "GET /healthz HTTP/1.1\r\n${host}X-A: b\rX-C: d\r\n\r\n", 'a bare carriage return', qr/control/ ],
        [ "GET /healthz HTTP/1.1\r\n${host}X-A: b\0c\r\n\r\n", 'a NUL', qr/control/ ],
        [ "GET /healthz HTTP/1.1\r\n\r\n", 'a missing Host header', qr/Host/ ],
        (map { [ "GET /healthz HTTP/1.1\r\nHost: $_\r\n\r\n", "the Host $_", qr/Host is not a host/ ] } 'a b', 'x/y', 'u@x', "x\xe9", 'x"', 'x?y', 'x#y'),
        (map { [ "GET $_ HTTP/1.1\r\n$host\r\n", "the target $_", qr/neither a path nor/ ] } 'http:///healthz', 'http://u@x/healthz', 'ws://x/healthz', 'x:80', '*'),
        [ "GET http://x/healthz HTTP/1.1\r\n\r\n", 'an absolute target and no Host header', qr/Host/ ],
        [ "\r\n\r\n$inner", 'two empty lines before the request line', qr/empty request line/ ],
        [ "GET /v1/rows?source=us%0a HTTP/1.1\r\n$host$auth\r\n", 'an encoded line break in the target', qr/control character/ ],
        [ "GET /v1/poll?wait=0&pos=%00 HTTP/1.1\r\n$host$auth\r\n", 'a NUL in the target', qr/%00/ ],
        (map { [ "GET /healthz?$_ HTTP/1.1\r\n$host\r\n", "the escape $_", qr/two hexadecimal/ ] } '%', 'a=%2', '%zz', '%4g'),
        [ "GET /v1/ws HTTP/1.1\r\n${host}Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n\x89\x80abcd",
            'a WebSocket frame after an upgrade request', qr/before the upgrade response/ ],
        [ 'GET /healthz?' . join('&', 1 .. 33) . " HTTP/1.1\r\n$host\r\n", 'many query arguments', qr/too many/ ],
        [ "GET /healthz\r\n", 'no HTTP version', qr{HTTP/1\.1} ],
        [ "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", 'bytes other than HTTP', qr/method/ ],
    );
}

# [ bytes, name ]
sub too_long
{
    my @lines = (
        [ 'a long header', 'X-Long: ' . 'x' x 100_000 ],
        [ 'long headers', join "\r\n", map { "X-$_: " . 'y' x 1000 } 1 .. 20 ],
        [ 'many headers', join "\r\n", map { "X-$_: y" } 1 .. 500 ],
        [ 'a long token', 'Authorization: Bearer ' . 'x' x 20_000 ],
    );
    return ([ 'GET /' . 'x' x 50_000 . " HTTP/1.1\r\n$host\r\n", 'a long path' ], map { [ "GET /healthz HTTP/1.1\r\n$host$_->[1]\r\n\r\n", $_->[0] ] } @lines);
}

1;
