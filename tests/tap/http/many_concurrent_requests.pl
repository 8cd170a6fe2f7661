# Tests that many waiting, slow or abandoned requests do not block other clients.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use Clairon::Test::SecureSocket;
use JSON ();
use Test::More;

# More clients than header slots of libwebsockets.
use constant { MANY => 1100, SLOW => 600 };
system('prlimit', '--pid', $$, '--nofile=' . (2 * MANY) . ':') == 0 or die "could not raise the limit of file descriptors";

my $store = Clairon::Test::store();
# Pings are disabled, because they would detect closed connections.
my %conf = ('gate.ping' => '10m', 'gate.max_connections' => 3 * MANY);
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => {%conf});

sub streams { return $relay->metric('clairon_gate_streams') }
sub bearer { my ($user, %claims) = @_; return 'Authorization: Bearer ' . token(sub => $user, %claims) . "\r\n" }

# Sends a request or a part of a request.
sub send_raw
{
    my ($bytes) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write($bytes);
    return $raw;
}
sub body { my ($path, $len, $bytes) = @_; return send_raw("POST $path HTTP/1.1\r\nHost: x\r\n" . bearer('u1') . "Content-Length: $len\r\n\r\n$bytes") }

# Clients disconnect or close their sending side.
for my $path ('/v1/sse', '/v1/poll?wait=60')
{
    my @gone = map { send_raw("GET $path HTTP/1.1\r\nHost: x\r\n" . bearer('gone') . "\r\n") } 1 .. 3;
    wait_until("$path: all connections are open", sub { streams() == 3 });
    $gone[0]->disconnect;
    shutdown $gone[1]{link}, 1;
    wait_until("$path: the disconnects are detected", sub { streams() == 1 });
    pass("$path: disconnected and half-closed clients are removed immediately");
    $gone[2]->disconnect;
    wait_until("$path: all connections are closed", sub { streams() == 0 });
}

# A client of a stream sends more bytes.
my $stream = Clairon::Test::EventStream->open($relay, 'u1');
$stream->wait_message('connected');
$stream->write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
my $api = token(sub => 'api', publish => JSON::true);
my $body = '{"payload":{"n":1},"routing":{"audience":{"type":"USER","targets":["u1"]}}}';
is(send_raw("POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $api\r\nContent-Length: " . length($body) . "\r\n\r\n$body")->read_response->{status},
    201, 'a notification is accepted');
is($stream->next_notification->{payload}{n}, 1, 'a stream ignores bytes after its request');
$stream->disconnect;
wait_until('the disconnect is detected', sub { streams() == 0 });
$stream = Clairon::Test::EventStream->open($relay, 'u1');
$stream->wait_message('connected');
$stream->write('x' x 50_000) for 1 .. 4;
$stream->wait_end;
wait_until('the stream has ended', sub { streams() == 0 });
pass('a client that never stops sending is closed');

# Many streams and polls are open.
my @many = map { send_raw('GET ' . ($_ % 2 ? '/v1/sse' : '/v1/poll?wait=60') . " HTTP/1.1\r\nHost: x\r\n" . bearer("m$_") . "\r\n") } 1 .. MANY;
wait_until('all connections are open', sub { streams() == MANY });
pass(MANY . ' streams and polls are open');
is($relay->client('late')->wait_for('connected')->{user}, 'late', 'open streams and polls do not block another client');
$_->disconnect for @many;
wait_until('the connections are closed', sub { streams() == 0 });

# Many slow bodies arrive: each new body evicts the oldest body.
my @slow = map { body('/v1/ack', 100, '{') } 1 .. SLOW;
is(body('/v1/ack', 48, '{"ids":["00000000-0000-0000-0000-000000000000"]}')->read_response->{status}, 204, 'a complete request is served while bodies are incomplete');
is($slow[0]->read_response->{status}, 503, 'the oldest slow body is rejected');
ok($slow[0]{response}{headers}{'retry-after'}, 'the rejection has Retry-After');
# Bodies above the limit are rejected; each later request causes another rejection. A rejected client that stays
# connected causes no additional rejection.
cmp_ok($relay->metric('clairon_gate_refused_total'), '<=', SLOW - 512 + 2, 'no other request is rejected');
$slow[-1]->write(' ' x 52 . '"ids":["00000000-0000-0000-0000-000000000000"]}');
is($slow[-1]->read_response->{status}, 204, 'the newest slow body can be completed');
$_->disconnect for @slow;

# Many rejected clients neither send more bytes nor disconnect.
sub descriptors { my @open = glob '/proc/' . $relay->pid . '/fd/*'; return scalar @open }
wait_until('the connections are closed', sub { descriptors() < 100 });
my $idle = descriptors();
my @slow_requests = map { send_raw("POST /v1/ack HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{") } 1 .. SLOW;
1 until $slow_requests[-1]{bytes} =~ /\r\n\r\n/ || !$slow_requests[-1]->more;
like($slow_requests[-1]{bytes}, qr/^HTTP\/1\.1 401 /, 'a rejected client receives the response');
cmp_ok(descriptors(), '<=', $idle + 520, 'the relay closes the connections of most rejected clients');
$_->disconnect for @slow_requests;

# Large bodies have a common limit.
my @large = map { body('/v1/ack', 1_048_576, ' ' x 1_048_000) } 1 .. 80;
is($large[0]->read_response->{status}, 503, 'the oldest of many large bodies is rejected');
$large[-1]->write(' ' x 576);
is($large[-1]->read_response->{status}, 400, 'the newest large body is read completely');
$_->disconnect for @large;
is(($relay->get('/healthz'))[0], 200, 'the relay still serves requests');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

# Complete bodies wait for a store that does not reply, and are not rejected in favor of new bodies.
my $proxy = Clairon::Test::proxy($store->{socket});
$relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { %conf, 'store.url' => $proxy->url('redis') });
$proxy->freeze;
my $request = "POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $api\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
my @waiting = map { send_raw($request) } 1 .. SLOW;
is($waiting[-1]->read_response->{status}, 503, 'a request beyond the limit is rejected');
is(send_raw("GET /v1/notifications/00000000-0000-0000-0000-000000000000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $api\r\n\r\n")->read_response->{status}, 503, 'a trace request beyond the limit is rejected');
is(($relay->get('/healthz'))[0], 200, 'health requests are not affected');
$proxy->thaw;
is($waiting[0]->read_response->{status}, 201, 'waiting requests are completed');
$_->disconnect for @waiting;
is($relay->stop, 0, 'SIGTERM ends the relay behind a proxy of the store with status 0');

# Requests over TLS are abandoned.
SKIP:
{
    eval { require IO::Socket::SSL; 1 } or skip 'IO::Socket::SSL is not installed', 2;
    my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
    $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { %conf, 'gate.tls_cert' => $cert, 'gate.tls_key' => $key });
    $relay->wait_for_log(qr/listening/);
    my $raw = Clairon::Test::SecureSocket->new($relay, $cert);
    $raw->write("GET /v1/sse HTTP/1.1\r\nHost: x\r\n" . bearer('u1') . "\r\n");
    1 until $raw->{bytes} =~ /"t":"connected"/ || !$raw->more;
    $raw->write('GET /healthz');
    $raw->{link}->close;
    $relay->wait_for_log(qr{request finished" path="/v1/sse" conn=\S+ user="u1"});
    pass('a stream over TLS ends when its client disconnects');
    is($relay->stop, 0, 'the relay with TLS exits with status 0 on SIGTERM');
}

done_testing();
