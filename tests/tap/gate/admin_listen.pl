# Tests that gate.admin_listen moves metrics, console and the real-time switch to a separate address, even for a relay with
# only the feed role.
use strict;
use warnings;

use Clairon::Test qw(wait_until token free_port scratch);
use Clairon::Test::RawSocket;
use Clairon::Test::SecureSocket;
use IO::Socket::IP;
use IO::Socket::UNIX;
use Socket qw(SOCK_STREAM);
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $admin = 'Bearer ' . token(sub => 'root', admin => JSON::true, publish => JSON::true);
my $none  = '00000000-0000-0000-0000-000000000000';

sub status_of { my ($port, $method, $path, %more) = @_; return Clairon::Test::RawSocket->new({ port => $port })->request($method, $path, Authorization => $admin, %more)->{status} }
sub upgrade { return Clairon::Test::RawSocket->open({ port => $_[0] })->{response}{status} }

my $port  = free_port();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.admin_listen' => "127.0.0.1:$port", 'gate.console' => 'on' });
for my $case ([ GET => '/metrics', 200 ], [ GET => '/console', 200 ], [ GET => '/console/console.js', 200 ], [ GET => '/v1/console', 200 ],
    [ GET => '/v1/console/errors', 200 ], [ POST => '/v1/realtime', 204, '{"on":true}' ], [ POST => '/v1/console/drop', 404, '{"entry":"1-1"}' ],
    [ GET => "/v1/notifications/$none/drop", 405 ], [ GET => "/v1/console/notifications/$none/drop", 405 ], [ PATCH => '/metrics', 405 ], [ OPTIONS => '/v1/realtime', 204 ])
{
    my ($method, $path, $status, $body) = @$case;
    is(status_of($relay->{port}, $method, $path, ':body' => $body), 404, "$method $path is not served at gate.listen");
    is(status_of($port, $method, $path, ':body' => $body), $status, "$method $path is served at gate.admin_listen");
}
my $gone = Clairon::Test::RawSocket->new({ port => $port })->request(POST => '/v1/console/drop', Authorization => $admin, ':body' => '{"entry":"1-1"}');
like($gone->{json}{detail}, qr/error log/, 'the error log is served at gate.admin_listen');
for my $case ([ GET => '/v1/poll?wait=0', 204 ], [ POST => '/v1/ack', 204, qq({"ids":["$none"]}) ], [ POST => '/v1/ticket', 200, '' ],
    [ POST => '/v1/notifications', 201, '{"payload":{},"routing":{"audience":{"type":"USER","targets":["u"]}}}' ], [ PATCH => '/v1/ack', 405 ])
{
    my ($method, $path, $status, $body) = @$case;
    is(status_of($relay->{port}, $method, $path, ':body' => $body), $status, "$method $path is served at gate.listen");
    is(status_of($port, $method, $path, ':body' => $body), 404, "$method $path is not served at gate.admin_listen");
}
is(upgrade($relay->{port}), 101, 'WebSockets are accepted at gate.listen');
is(upgrade($port), 404, 'WebSockets are rejected at gate.admin_listen');
for my $at ($relay->{port}, $port)
{
    is(status_of($at, GET => $_), 200, "$_ is served at both addresses") for '/healthz', '/readyz';
    is(status_of($at, GET => "/v1/notifications/$none"), 404, 'the trace is served at both addresses');
}
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

# A relay with several workers has its admin address at a Unix socket.
my $path = scratch() . '/admin';
$relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.admin_listen' => "unix:$path", 'gate.workers' => 2 });
sub metrics
{
    my $link = IO::Socket::UNIX->new(Peer => $path) or die "could not connect to $path: $!\n";
    print {$link} "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    local $/ = undef;
    return scalar <$link>;
}
my @users = map { $relay->client("u$_") } 1 .. 4;
like(metrics(), qr/^clairon_gate_connections 4$/m, 'the Unix socket serves the metrics of all workers');
is(status_of($relay->{port}, GET => '/metrics'), 404, 'gate.listen does not serve metrics');
is($relay->stop, 0, 'the relay with two workers exits with status 0 on SIGTERM');
ok(!-e $path, 'the socket file is removed');

# The relay has only the feed role.
my $pg = Clairon::Test::postgresql('main');
$port = free_port();
my $feed = Clairon::Test::relay($pg, $store, roles => 'feed', wait => 0, conf => { 'gate.admin_listen' => "*:$port", 'gate.console' => 'on', 'auth.hs256_secret_file' => undef });
wait_until('the feed is ready', sub { my $socket = eval { Clairon::Test::RawSocket->new({ port => $port }) }; $socket && $socket->request(GET => '/readyz')->{status} == 200 });
like(Clairon::Test::RawSocket->new({ port => $port })->request(GET => '/readyz')->{body}, qr/"feed":"streaming"/, 'the feed serves /readyz at gate.admin_listen and reports that it is streaming');
like(Clairon::Test::RawSocket->new({ port => $port })->request(GET => '/metrics')->{body}, qr/^clairon_feed_connected 1$/m, 'the feed serves metrics at gate.admin_listen');
is(status_of($port, GET => '/healthz'), 200, 'the feed serves /healthz at gate.admin_listen');
SKIP: {
    -e '/proc/net/if_inet6' or skip 'this machine has no IPv6', 1;
    ok(IO::Socket::IP->new(PeerHost => '::1', PeerPort => $port, Type => SOCK_STREAM), 'a * listens at IPv6 too');
}
is(status_of($port, @$_), 404, "$_->[1] is not served by a relay with only the feed role") for [ GET => '/console' ], [ GET => '/v1/console' ], [ POST => '/v1/realtime', ':body' => '{"on":false}' ],
  [ GET => '/v1/poll?wait=0' ], [ GET => '/v1/sse' ], [ POST => '/v1/notifications', ':body' => '{}' ], [ GET => '/' ];
is(upgrade($port), 404, 'a WebSocket is rejected by a relay with only the feed role');
ok(!eval { Clairon::Test::RawSocket->new($feed) }, 'gate.listen is not open');
$store->stop;
wait_until('the relay is not ready without the store', sub { status_of($port, GET => '/readyz') == 503 });
is($feed->stop, 0, 'SIGTERM ends the relay with status 0');

# gate.admin_listen must differ from gate.listen.
$store->start;
my ($code, undef, $error) = Clairon::Test::relay(undef, $store, start => 0, roles => 'gate', conf => { 'gate.listen' => '127.0.0.1:1', 'gate.admin_listen' => '127.0.0.1:1' })->run('relay', '--check');
is($code, 2, 'two equal addresses are rejected');
like($error, qr/admin_listen must differ from \[gate\] listen/, 'the error names the other setting');
done_testing();
