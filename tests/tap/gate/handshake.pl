# Tests that the gate accepts valid upgrades and rejects invalid upgrades with an HTTP response.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');

sub http { return Clairon::Test::RawSocket->new($relay)->request(@_) }

# Sends an upgrade with these headers; returns the response.
sub upgrade
{
    my ($to, %headers) = @_;
    my $raw = Clairon::Test::RawSocket->open($to, %headers);
    $raw->disconnect;
    return $raw->{response};
}

sub upgrade_is
{
    my ($status, $name, %headers) = @_;
    is(upgrade($relay, %headers)->{status}, $status, "$name returns $status");
    return;
}

# HTTP requests do not require an upgrade.
my $health = http(GET => '/healthz');
is($health->{status}, 200, '/healthz returns 200');
is(JSON::decode_json($health->{body})->{status}, 'ok', '/healthz has a JSON status');
is($health->{headers}{'content-type'}, 'application/json', '/healthz has its content type');
is($health->{headers}{'content-length'}, length $health->{body}, '/healthz has its length');
my $ready = JSON::decode_json(http(GET => '/readyz')->{body});
is_deeply([ @{$ready}{ 'status', 'store', 'feed' } ], [ 'ready', 'up', 'off' ],
    'without the feed role, only the store determines readiness');

my $head = http(HEAD => '/healthz');
is($head->{status}, 200, 'HEAD returns 200');
is($head->{body}, '', 'HEAD has no body');
is($head->{headers}{'content-length'}, $health->{headers}{'content-length'}, 'HEAD has the length of GET');

my $metrics = http(GET => '/metrics');
is($metrics->{headers}{'content-type'}, 'text/plain; version=0.0.4', '/metrics has the content type of Prometheus\' text format');
my (%help, %type, %value, %of, @wrong);
for my $line (split /\n/, $metrics->{body})
{
    if    ($line =~ /^# HELP (clairon_[a-z_]+) \S.*$/)             { $help{$1}++ }
    elsif ($line =~ /^# TYPE (clairon_[a-z_]+) (counter|gauge|histogram)$/) { $type{$1} = $2 }
    elsif ($line =~ /^((clairon_[a-z_]+)(?:\{[a-z]+="[^"]+"(?:,[a-z]+="[^"]+")*\})?) (\d+(?:\.\d+)?)$/ && !exists $value{$1})
    {
        my $name = $2;
        $value{$1} = $3;
        $name =~ s/_(?:bucket|sum|count)\z// if ($type{ $name =~ s/_(?:bucket|sum|count)\z//r } // '') eq 'histogram';
        $of{$name} = 1;
    }
    else                                                           { push @wrong, $line }
}
is_deeply(\@wrong, [], 'every line is valid and no metric is repeated');
cmp_ok(scalar(keys %value), '>', 10, '/metrics is not empty');
is_deeply([ sort keys %help ], [ sort keys %of ], 'each metric has a help text');
is_deeply([ sort keys %type ], [ sort keys %of ], 'each metric has a type');
is_deeply([ grep { $type{$_} eq 'counter' xor /_total$/ } sort keys %type ], [],
    'the names of all counters, and of no other metrics, end in _total');
like($metrics->{body}, qr/\n\z/, 'the last line ends with a line feed');

is(http(GET => '/healthz?x=1')->{status}, 200, 'a query string is ignored');
is(http(GET => $_)->{status}, 404, "$_ returns 404")
  for '/', '/nope', '/healthz/', '/v1/ws/', '/v1', '/' . 'x' x 2000, '/../etc/passwd';
is(http(GET => '/%00')->{status}, 400, 'a NUL in a path is rejected');
is(http(GET => '/healthz')->{status}, 200, 'the relay still serves requests');
for my $method (qw(POST PUT DELETE OPTIONS))
{
    my $response = http($method => '/healthz', 'Content-Length' => 0);
    is($response->{status}, 405, "$method is not allowed");
    is($response->{headers}{allow}, 'GET, HEAD', 'Allow lists the allowed methods');
}
my $required = http(GET => '/v1/ws');
is($required->{status}, 426, '/v1/ws without an upgrade returns 426');
is($required->{headers}{upgrade}, 'websocket', '426 has the Upgrade header');
is($required->{headers}{connection}, 'upgrade, close', '426 has the Connection header');
is(http(POST => '/v1/ws', 'Content-Length' => 0)->{status}, 405, '/v1/ws rejects other methods');
for my $path ('/v1/ack', '/v1/poll', '/nope')
{
    my $response = http(HEAD => $path);
    is($response->{status}, $path eq '/nope' ? 404 : 405, "HEAD of $path is rejected");
    is($response->{body}, '', "HEAD of $path has no body");
    cmp_ok($response->{headers}{'content-length'}, '>', 0, "HEAD of $path has a length");
}

# An upgrade requires certain headers.
my $good = upgrade($relay);
is($good->{status}, 101, 'an upgrade is accepted');
is($good->{headers}{'sec-websocket-accept'}, 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=', 'the response has the correct Sec-WebSocket-Accept');
is($good->{headers}{'sec-websocket-protocol'}, 'clairon.v1.json', 'the response has the subprotocol');
upgrade_is(101, 'an upgrade with a query string', ':path' => '/v1/ws?a=b');
upgrade_is(404, 'an upgrade at another path', ':path' => '/v1/other');
upgrade_is(404, 'an upgrade at an HTTP path', ':path' => '/healthz');
upgrade_is(405, 'an upgrade with POST', ':method' => 'POST', 'Content-Length' => 0);
upgrade_is(426, "Upgrade: $_", Upgrade => $_) for 'chat', 'h2c', 'websocket, chat';
upgrade_is(101, "Connection: $_", Connection => $_) for 'upgrade', 'keep-alive, Upgrade';
upgrade_is(426, "Connection: $_", Connection => $_) for 'keep-alive', 'Upgraded';
upgrade_is(426, 'an upgrade without Connection', Connection => undef);
upgrade_is(400, 'an upgrade without a key', 'Sec-WebSocket-Key' => undef);
upgrade_is(400, 'an upgrade without a host', Host => undef);
upgrade_is(400, 'an upgrade with only another subprotocol', 'Sec-WebSocket-Protocol' => 'chat');
upgrade_is(400, 'a prefix of the subprotocol', 'Sec-WebSocket-Protocol' => 'clairon.v1.jso');
my $several = upgrade($relay, 'Sec-WebSocket-Protocol' => 'chat, clairon.v1.json');
is($several->{headers}{'sec-websocket-protocol'}, 'clairon.v1.json', 'the relay selects its subprotocol from several');
upgrade_is(101, 'an upgrade without a subprotocol', 'Sec-WebSocket-Protocol' => undef);

# By default, only pages of the same host are accepted; otherwise, only the origins on the list.
upgrade_is(101, 'a page of the same host', Origin => "http://127.0.0.1:$relay->{port}");
upgrade_is(101, 'a page of the same host with another port', Origin => 'https://127.0.0.1:3000');
upgrade_is(403, "a page of $_", Origin => $_)
  for 'http://evil.example', 'null', 'http://127.0.0.1.evil.example', 'http://evil.example/127.0.0.1',
  '127.0.0.1', 'http://', 'http://127.0.0.1@evil.example', 'x' x 600;
my $listed = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'gate.origins' => 'https://app.example, http://b.example:81' });
is(upgrade($listed, Origin => $_)->{status}, 101, "$_ is accepted because it is on the list")
  for 'https://app.example', 'http://b.example:81';
is(upgrade($listed, Origin => $_)->{status}, 403, "$_ is rejected because it is not on the list")
  for 'http://app.example', 'http://b.example', "http://127.0.0.1:$listed->{port}", 'https://app.example.evil';
is(upgrade($listed)->{status}, 101, 'a client without Origin is accepted');
$listed->stop;

# The upgrade request may contain a token.
sub bearer
{
    my ($header, %connect) = @_;
    my $raw = Clairon::Test::RawSocket->open($relay, Authorization => $header);
    $raw->send_json({ t => 'connect', %connect });
    my $line = $raw->next_message;
    return $line->{user} if $line->{t} eq 'connected';
    return $raw->read_to_end->{code};
}
is(bearer('Bearer ' . token(sub => 'u1')), 'u1', 'a Bearer token is accepted');
is(bearer('bearer  ' . token(sub => 'u1')), 'u1', 'the scheme is case-insensitive');
is(bearer('Bearer ' . token(sub => 'u1'), token => token(sub => 'u2')), 'u2', 'the token of the connect frame takes precedence');
is(bearer('Bearer ' . token(sub => 'u1', secret => 'x' x 32)), 4001, 'a forged token is rejected');
is(bearer('Bearer ' . token(sub => 'u1', exp => 1)), 4100, 'an expired token closes the connection with 4100');
is(bearer('Basic dTE6dTE='), 4001, 'a token with another scheme is ignored');
is(bearer('Bearer'), 4001, 'an empty token is ignored');
is(bearer('Bearer ' . 'x' x 9000), 4001, 'a token that is too long is rejected');

# Invalid or incomplete HTTP requests do not affect other clients.
my $half = Clairon::Test::RawSocket->new($relay);
$half->write('GET /v1/ws HT');
for my $noise ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "\r\n" x 10 . "NOISE\r\n\r\n",
    'GET ' . 'x' x 100_000, "GET /healthz HTTP/1.1\r\nX: " . 'y' x 100_000)
{
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write($noise);
    shutdown $raw->{link}, 1;
    isnt($raw->read_response->{status}, 200, 'the response to invalid bytes is not 200');
}
is(http(GET => '/healthz')->{status}, 200, 'other clients are still served');
$half->write("TP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
is($half->read_response->{status}, 426, 'a request that arrives in pieces receives a response');

# Connections beyond max_connections are rejected before the upgrade.
my $small = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.max_connections' => 3 });
my @users = map { Clairon::Test::RawSocket->user($small, "u$_") } 1 .. 3;
my $full = upgrade($small);
is($full->{status}, 503, 'a connection beyond the limit is rejected before the upgrade');
like($full->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'the rejection has Retry-After');
is(($small->get('/healthz'))[0], 200, 'HTTP endpoints respond beyond the limit');
is($small->metric('clairon_gate_connections'), 3, 'the metrics count open connections');
is($small->metric('clairon_gate_accepted_total'), 3, 'the metrics count accepted connections');
is($small->metric('clairon_gate_refused_total'), 1, 'the metrics count rejected connections');
$users[0]->disconnect;
wait_until('a connection slot is free', sub { upgrade($small)->{status} == 101 });
pass('a closed connection frees its slot');
$users[1]->send_json({ t => 'ping' });
is($users[1]->wait_message('pong')->{t}, 'pong', 'other connections are not affected');

is($_->stop, 0, 'SIGTERM ends the relay with status 0') for $relay, $small;

done_testing();
