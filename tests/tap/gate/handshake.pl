# Does the gate let in whom it should, and tell everyone else why not in plain HTTP?
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');

sub http { return Clairon::Test::RawSocket->new($relay)->request(@_) }

# The answer to an upgrade with these headers.
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
    is(upgrade($relay, %headers)->{status}, $status, $name);
    return;
}

# Plain HTTP.
my $health = http(GET => '/healthz');
is($health->{status}, 200, 'the process lives');
is(JSON::decode_json($health->{body})->{status}, 'ok', 'and says so in JSON');
is($health->{headers}{'content-type'}, 'application/json', 'which it is called');
is($health->{headers}{'content-length'}, length $health->{body}, 'with its length');
my $ready = JSON::decode_json(http(GET => '/readyz')->{body});
is_deeply([ @{$ready}{ 'status', 'store', 'feed' } ], [ 'ready', 'up', 'off' ],
    'a relay without the feed is ready with its store');

my $head = http(HEAD => '/healthz');
is($head->{status}, 200, 'HEAD is answered');
is($head->{body}, '', 'without a body');
is($head->{headers}{'content-length'}, $health->{headers}{'content-length'}, 'but with its length');

my $metrics = http(GET => '/metrics');
is($metrics->{headers}{'content-type'}, 'text/plain; version=0.0.4', 'metrics in Prometheus\' format');
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
is_deeply(\@wrong, [], 'every line of them has its form, and no metric comes twice');
cmp_ok(scalar(keys %value), '>', 10, 'there are some');
is_deeply([ sort keys %help ], [ sort keys %of ], 'each has its help');
is_deeply([ sort keys %type ], [ sort keys %of ], 'and its type');
is_deeply([ grep { $type{$_} eq 'counter' xor /_total$/ } sort keys %type ], [],
    'a counter\'s name ends in _total, and no other');
like($metrics->{body}, qr/\n\z/, 'the last line ends');

is(http(GET => '/healthz?x=1')->{status}, 200, 'a query does not matter');
is(http(GET => $_)->{status}, 404, "nothing is at $_")
  for '/', '/nope', '/healthz/', '/v1/ws/', '/v1', '/' . 'x' x 2000, '/../etc/passwd';
is(http(GET => '/%00')->{status}, 400, 'a zero is in no path');
is(http(GET => '/healthz')->{status}, 200, 'which the relay survives');
for my $method (qw(POST PUT DELETE OPTIONS))
{
    my $answer = http($method => '/healthz', 'Content-Length' => 0);
    is($answer->{status}, 405, "$method is not allowed");
    is($answer->{headers}{allow}, 'GET, HEAD', 'and the answer says what is');
}
my $required = http(GET => '/v1/ws');
is($required->{status}, 426, 'without an upgrade the WebSocket asks for one');
is($required->{headers}{upgrade}, 'websocket', 'by its name');
is($required->{headers}{connection}, 'upgrade, close', 'which Connection says too');
is(http(POST => '/v1/ws', 'Content-Length' => 0)->{status}, 405, 'and takes nothing else');
for my $path ('/v1/ack', '/v1/poll', '/nope')
{
    my $answer = http(HEAD => $path);
    is($answer->{status}, $path eq '/nope' ? 404 : 405, "HEAD of $path");
    is($answer->{body}, '', 'has no body either');
    cmp_ok($answer->{headers}{'content-length'}, '>', 0, 'but its length');
}

# What an upgrade must have.
my $good = upgrade($relay);
is($good->{status}, 101, 'an upgrade is accepted');
is($good->{headers}{'sec-websocket-accept'}, 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=', 'with the key\'s answer');
is($good->{headers}{'sec-websocket-protocol'}, 'clairon.v1.json', 'and the subprotocol');
upgrade_is(101, 'also with a query', ':path' => '/v1/ws?a=b');
upgrade_is(404, 'not at another path', ':path' => '/v1/other');
upgrade_is(404, 'not at the HTTP paths', ':path' => '/healthz');
upgrade_is(405, 'not with POST', ':method' => 'POST', 'Content-Length' => 0);
upgrade_is(426, "to $_ it is none", Upgrade => $_) for 'chat', 'h2c', 'websocket, chat';
upgrade_is(101, "with Connection: $_", Connection => $_) for 'upgrade', 'keep-alive, Upgrade';
upgrade_is(426, "with Connection: $_ it is none", Connection => $_) for 'keep-alive', 'Upgraded';
upgrade_is(426, 'nor without Connection', Connection => undef);
upgrade_is(400, 'not without a key', 'Sec-WebSocket-Key' => undef);
upgrade_is(400, 'not without a host', Host => undef);
upgrade_is(400, 'not with another subprotocol alone', 'Sec-WebSocket-Protocol' => 'chat');
upgrade_is(400, 'nor with one that only begins alike', 'Sec-WebSocket-Protocol' => 'clairon.v1.jso');
my $several = upgrade($relay, 'Sec-WebSocket-Protocol' => 'chat, clairon.v1.json');
is($several->{headers}{'sec-websocket-protocol'}, 'clairon.v1.json', 'ours is chosen of several');
upgrade_is(101, 'no subprotocol is allowed', 'Sec-WebSocket-Protocol' => undef);

# Origins: the same host unless there is a list.
upgrade_is(101, 'a page of the same host may', Origin => "http://127.0.0.1:$relay->{port}");
upgrade_is(101, 'at another port too', Origin => 'https://127.0.0.1:3000');
upgrade_is(403, "a page of $_ may not", Origin => $_)
  for 'http://evil.example', 'null', 'http://127.0.0.1.evil.example', 'http://evil.example/127.0.0.1',
  '127.0.0.1', 'http://', 'http://127.0.0.1@evil.example', 'x' x 600;
my $listed = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'gate.origins' => 'https://app.example, http://b.example:81' });
is(upgrade($listed, Origin => $_)->{status}, 101, "$_ is on the list")
  for 'https://app.example', 'http://b.example:81';
is(upgrade($listed, Origin => $_)->{status}, 403, "$_ is not")
  for 'http://app.example', 'http://b.example', "http://127.0.0.1:$listed->{port}", 'https://app.example.evil';
is(upgrade($listed)->{status}, 101, 'who is no browser has no origin');
$listed->stop;

# A token in the upgrade.
sub bearer
{
    my ($header, %connect) = @_;
    my $raw = Clairon::Test::RawSocket->open($relay, Authorization => $header);
    $raw->send_json({ t => 'connect', %connect });
    my $line = $raw->next_message;
    return $line->{user} if $line->{t} eq 'connected';
    return $raw->read_to_end->{code};
}
is(bearer('Bearer ' . token(sub => 'u1')), 'u1', 'a Bearer token is taken');
is(bearer('bearer  ' . token(sub => 'u1')), 'u1', 'however its scheme is written');
is(bearer('Bearer ' . token(sub => 'u1'), token => token(sub => 'u2')), 'u2', 'the first line goes before');
is(bearer('Bearer ' . token(sub => 'u1', secret => 'x' x 32)), 4001, 'a forged one is not');
is(bearer('Bearer ' . token(sub => 'u1', exp => 1)), 4100, 'an expired one is told to be');
is(bearer('Basic dTE6dTE='), 4001, 'another scheme is no token');
is(bearer('Bearer'), 4001, 'nor is none');
is(bearer('Bearer ' . 'x' x 9000), 4001, 'nor is one too long');

# What is no HTTP, or not all of it.
my $half = Clairon::Test::RawSocket->new($relay);
$half->write('GET /v1/ws HT');
for my $noise ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "\r\n" x 10 . "NOISE\r\n\r\n",
    'GET ' . 'x' x 100_000, "GET /healthz HTTP/1.1\r\nX: " . 'y' x 100_000)
{
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write($noise);
    shutdown $raw->{link}, 1;
    isnt($raw->read_response->{status}, 200, 'noise is not answered with what it did not ask for');
}
is(http(GET => '/healthz')->{status}, 200, 'and others are served meanwhile');
$half->write("TP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
is($half->read_response->{status}, 426, 'also who is slow');

# No more than max_connections.
my $small = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.max_connections' => 3 });
my @users = map { Clairon::Test::RawSocket->user($small, "u$_") } 1 .. 3;
my $full = upgrade($small);
is($full->{status}, 503, 'one too many is refused before the upgrade');
like($full->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'and told when to come back');
is(($small->get('/healthz'))[0], 200, 'the HTTP endpoints still answer');
is($small->metric('clairon_gate_connections'), 3, 'the metrics count who is in');
is($small->metric('clairon_gate_accepted_total'), 3, 'who came');
is($small->metric('clairon_gate_refused_total'), 1, 'and who was refused');
$users[0]->disconnect;
wait_until('a place is free', sub { upgrade($small)->{status} == 101 });
pass('who hangs up makes room');
$users[1]->send_json({ t => 'ping' });
is($users[1]->wait_message('pong')->{t}, 'pong', 'and the others did not notice');

is($_->stop, 0, 'SIGTERM ends the relay in good order') for $relay, $small;

done_testing();
