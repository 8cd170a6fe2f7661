# Tests that forged, guessed, smuggled or unusual requests give no user access.
#
# Topics of a security review, and their tests in tests/tap unless stated otherwise ("here" is this file):
#   forged, expired, early tokens, wrong issuer or audience: here, auth/tokens; tests/unit/wire/test_token.c
#   algorithm confusion, alg none, JWK headers: auth/tokens (RS256), http/malformed_request_heads (kid, jku, jwk, x5c,
#     odd spellings); tests/fuzz/fuzz_token.c
#   notifications of other users, guessed topics: here, audiences/topics, audiences/pending_withheld_after_leaving
#   header smuggling (CL and TE, repeated, folded, bare LF): http/malformed_request_heads,
#     tls/malformed_request_heads_over_tls; tests/unit/wire/test_http_head.c, tests/fuzz/fuzz_http_head.c
#   oversized requests: heads as above; bodies in http/sse_and_poll, http/publish; frames in gate/client_frames,
#     gate/rfc6455
#   slowloris: heads as above; slow bodies and readers in http/slow_http_clients, many of them in
#     http/many_concurrent_requests
#   path traversal: here
#   pages of other origins (CSRF): here, console/admins_only (POST, preflight), gate/handshake (WebSocket)
#   X-Forwarded-For: gate/connection_limits (trusted and untrusted), http/malformed_request_heads (repeated)
#   limits per address and user, rate limits: gate/connection_limits
#   keys and certificates replaced on SIGHUP: auth/key_rotation, tls/fragmented_records
#   console: console/admins_only; tests/e2e/test_console.py
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use Digest::SHA qw(hmac_sha384);
use JSON ();
use MIME::Base64 qw(encode_base64url);
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'auth.issuer' => 'us', 'auth.audience' => 'relay' });
my %good = (iss => 'us', aud => 'relay');

sub bearer { my ($user, %claims) = @_; return 'Bearer ' . token(sub => $user, %good, %claims) }

# Sends raw bytes; returns all received bytes.
sub raw
{
    my ($bytes) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write($bytes);
    shutdown $raw->{link}, 1;
    1 while $raw->more;
    return $raw->{bytes};
}
sub statuses { return [ raw(@_) =~ m{^HTTP/1\.1 (\d+)}mg ] }

sub http
{
    my ($method, $path, %options) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, Host => 'x', ':body' => $options{body},
        ($options{as} ? (Authorization => bearer($options{as}, %{ $options{claims} // {} })) : ()), %{ $options{headers} // {} });
}

sub publish
{
    my ($target, $text, %retry) = @_;
    my $response = http(POST => '/v1/notifications', as => 'api', claims => { publish => JSON::true },
        body => JSON::encode_json({ payload => { text => $text }, metadata => { topic => "topic.$target" },
            routing => { audience => { type => 'USER', targets => [$target] }, retry => \%retry } }));
    return JSON::decode_json($response->{body})->{id};
}

sub texts { return map { $_->{payload}{text} } $_[0]->notifications }

# Tokens of another issuer, for another relay, not valid yet, expired, or forged in common ways are rejected.
my ($head, $claims, $signature) = split /\./, token(sub => 'u1', %good);
my $admin = encode_base64url(JSON::encode_json({ sub => 'root', exp => time() + 60, %good }));
my $none  = encode_base64url('{"alg":"none","typ":"JWT"}');
my $hs384 = encode_base64url('{"alg":"HS384","typ":"JWT"}');
my %bad   = (
    'another issuer'                     => token(sub => 'u1', %good, iss => 'them'),
    'no issuer'                          => token(sub => 'u1', aud => 'relay'),
    'another audience'                   => token(sub => 'u1', %good, aud => ['other']),
    'another secret'                     => token(sub => 'u1', %good, secret => 'y' x 32),
    'a past expiration'                  => token(sub => 'u1', %good, exp => time() - 60),
    'a start time in the future'         => token(sub => 'u1', %good, nbf => time() + 600),
    'no expiration'                      => token(sub => 'u1', %good, exp => undef),
    'no user'                            => token(%good),
    'other claims and the old signature' => "$head.$admin.$signature",
    'algorithm none'                     => "$none.$claims.",
    'algorithm none and a signature'     => "$none.$claims.$signature",
    'another algorithm'                  => "$hs384.$claims." . encode_base64url(hmac_sha384("$hs384.$claims", $Clairon::Test::SECRET)),
    'a truncated signature'              => "$head.$claims." . substr($signature, 0, 20),
    'an audience of other users'         => token(sub => 'u1', %good, groups => { USER => ['u2'] }),
    'an audience with a colon'           => token(sub => 'u1', %good, groups => { 'USER:u2' => ['x'] }),
);
for my $name (sort keys %bad)
{
    my $raw = Clairon::Test::RawSocket->open($relay);
    $raw->send_json({ t => 'connect', token => $bad{$name} });
    is($raw->read_to_end->{code}, $name eq 'a past expiration' ? 4100 : 4001, "a token with $name does not open a WebSocket");
    is(http($_->[0], $_->[1], headers => { Authorization => "Bearer $bad{$name}" }, body => $_->[2])->{status}, 401, "a token with $name is rejected by $_->[1]")
      for [ GET => '/v1/sse' ], [ GET => '/v1/poll?wait=0' ], [ POST => '/v1/ack', '{}' ], [ POST => '/v1/ticket', '' ],
      [ POST => '/v1/notifications', '{}' ], [ POST => '/v1/realtime', '{}' ];
}

# A client cannot receive, acknowledge or trace another user's notifications by topic, cursor, id or name.
my $mallory = $relay->client('mallory', token => token(sub => 'mallory', %good));
my $alice   = $relay->client('alice', token => token(sub => 'alice', %good), pos => $mallory->pos);
my $secret  = publish('alice', 'for alice', ack_required => JSON::true);
$alice->wait_notifications(1);
$mallory->send({ t => 'subscribe', r => 2, topics => ['topic.alice'] }, { t => 'subscribe', r => 3, topics => ['*'] });
$mallory->wait_for(sub { ($_[0]{r} // 0) == 3 });
my $replay = $relay->client('mallory', token => token(sub => 'mallory', %good), pos => $alice->{messages}[0]{pos}, topics => ['topic.*']);
$mallory->ack($secret);
$mallory->send({ t => 'nack', ids => [$secret], delay => 86_400_000 });
is(http(POST => '/v1/ack', as => 'mallory', body => { ids => [$secret] })->{status}, 204, 'an ack of another user\'s notification is accepted');
publish('mallory', 'for mallory');
$_->wait_notifications(1) for $mallory, $replay;
is_deeply([ texts($_) ], ['for mallory'], 'each client receives only notifications for its user') for $mallory, $replay;
is_deeply($store->execute('HGETALL', $store->of($secret, "ack:$secret")), [ 'alice', '0' ], 'the ack has no effect');
is($store->pending, 1, 'the notification stays pending');
is(http(GET => "/v1/notifications/$secret", as => 'mallory')->{status}, 403, 'the trace is forbidden');
like(http(GET => '/v1/poll?wait=0&pos=' . $alice->{messages}[0]{pos}, as => 'mallory')->{body} // '', qr/\A(?!.*for alice)/s, 'a poll does not return the notification');
$alice->ack($secret);
wait_until('alice has acknowledged the notification', sub { $store->pending == 0 });
my $odd = token(sub => "alice\",\"x\":\"", %good);
is($relay->client('odd', token => $odd)->wait_for('connected')->{user}, "alice\",\"x\":\"", 'a user name may contain any character');
publish('mallory', "a\nb\r\n\r\ndata: c\nid: d\n\n");
my $stream = Clairon::Test::EventStream->open($relay, undef, Authorization => bearer('mallory'), ':path' => '/v1/sse?pos=' . $mallory->{messages}[0]{pos});
$stream->wait_message('connected');
is_deeply([ map { $stream->next_notification->{payload}{text} } 1, 2 ], [ 'for mallory', "a\nb\r\n\r\ndata: c\nid: d\n\n" ], 'a string in a payload cannot start an SSE event');

# A request cannot smuggle a second one.
my $auth  = 'Authorization: ' . bearer('u1') . "\r\n";
my $inner = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
is(scalar(@{ statuses("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n$inner") }), 1, 'a request after the last request receives no response');
is_deeply(statuses("POST /v1/ack HTTP/1.1\r\nHost: x\r\n${auth}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n$inner"),
    [400], 'a request with Content-Length and chunked encoding is rejected, and the remaining bytes are not read');
unlike(raw("POST /v1/ack HTTP/1.1\r\nHost: x\r\n${auth}Content-Length: 0\r\nContent-Length: " . length($inner) . "\r\n\r\n$inner"), qr/"status":"ok"/,
    'a request with two Content-Length headers does not smuggle a second request');
unlike(raw("POST /v1/ack HTTP/1.1\r\nHost: x\r\n${auth}Content-Length: $_\r\n\r\n$inner"), qr/^HTTP\S+ 20|"status":"ok"/m, "a Content-Length of $_ does not smuggle a request")
  for '+0', '-1', '0x10', '99999999999999999999', '1 1', '';
unlike(raw("GET /healthz HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n"), qr/^HTTP\S+ 5/m, 'a space before the colon of a header causes no server error');

# Unusual paths cause no error.
is(http(GET => $_, as => 'u1')->{status}, 404, "$_ returns 404")
  for '/v1/sse/', '/v1/sse/../poll/x', '/V1/sse', '/v1/notifications/../../etc', '/v1/notifications/%2e%2e', '/../../etc/passwd';
is_deeply(statuses("GET /v1/sse%00 HTTP/1.1\r\nHost: x\r\n$auth\r\n"), [400], 'a NUL in a path is rejected');
isnt(http(GET => $_, as => 'u1')->{status}, 500, "$_ causes no error") for '//v1/poll?wait=0', '/v1/./poll?wait=0', 'http://x/v1/poll?wait=0', '/v1/poll?wait=0&' . 'a&' x 3000,
  '/v1/poll?wait=0&pos=' . '%00' x 20, '/v1/poll?wait=0&pos=' . "\xff" x 20, '/v1/poll?wait=0&wait=60', '/v1/poll?wait=0&' . 'x' x 3000;
is(http(GET => '/healthz')->{status}, 200, 'the relay still serves requests');

# Pages of other origins are rejected.
for my $origin ('http://evil.example', 'null', 'http://x.evil.example', 'https://evilx')
{
    is(http(GET => '/v1/poll?wait=0', as => 'u1', headers => { Origin => $origin })->{status}, 403, "$origin is not allowed to poll");
    is(http(POST => '/v1/ack', as => 'u1', headers => { Origin => $origin }, body => '{}')->{status}, 403, "$origin is not allowed to acknowledge");
    is(http(POST => '/v1/ticket', as => 'u1', headers => { Origin => $origin }, body => '')->{status}, 403, "$origin is not allowed to request a ticket");
    is(http(OPTIONS => '/v1/notifications', headers => { Origin => $origin })->{status}, 403, "$origin receives no preflight response");
}

# The log contains no secrets.
my $log = $relay->log_text;
unlike($log, qr/eyJ/, 'the log has no token');
unlike($log, qr/for alice/, 'the log has no payload');
unlike($log, qr/\Q$Clairon::Test::SECRET\E/, 'the log has no secret');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
