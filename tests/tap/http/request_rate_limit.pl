# Tests that only a client above the HTTP request rate is rejected, with Retry-After.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

# More requests than the rate allows during the test, even on a slow machine.
use constant { RATE => 2, MANY => 40 };

my $store = Clairon::Test::store();
sub with { return Clairon::Test::relay(undef, $store, roles => 'gate', conf => {@_}) }
my $relay = with('gate.request_rate' => RATE, 'gate.trusted_proxies' => '127.0.0.1');
my $rejected_count = 0;

sub send_raw
{
    my ($method, $path, $body, %headers) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    %headers = (Host => $raw->{host}, 'X-Forwarded-For' => '192.0.2.1', (length $body ? ('Content-Length' => length $body) : ()), %headers);
    $raw->write("$method $path HTTP/1.1\r\n" . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers) . "\r\n$body");
    return $raw;
}
sub request { return send_raw(@_)->read_response }
sub of { my ($user, %claims) = @_; return (Authorization => 'Bearer ' . token(sub => $user, %claims)) }

# Sends simultaneous requests; returns the number of responses for each status, and a rejection.
sub many
{
    my @responses = map { $_->read_response } map { send_raw(@_) } 1 .. MANY;
    my %count;
    $count{ $_->{status} }++ for @responses;
    my ($rejected) = grep { $_->{status} == 429 } @responses;
    $rejected_count += $count{429} // 0;
    return (\%count, $rejected);
}

my $none = '00000000-0000-0000-0000-000000000000';
my $notification = '{"payload":{},"routing":{"audience":{"type":"USER","targets":["nobody"]}}}';
my $n = 0;
for my $case (
    [ POST => '/v1/ack', "{\"ids\":[\"$none\"]}", 204 ],
    [ POST => '/v1/nack', "{\"ids\":[\"$none\"]}", 204 ],
    [ POST => '/v1/ticket', '', 200 ],
    [ POST => '/v1/notifications', $notification, 201 ],
    [ GET => "/v1/notifications/$none", '', 404 ],
    [ GET => '/v1/poll?wait=0', '', 204 ])
{
    my ($method, $path, $body, $good) = @$case;
    my @user = of('u' . ++$n, publish => JSON::true);
    my ($count, $rejected) = many($method, $path, $body, @user);
    cmp_ok($count->{$good}, '>=', RATE, "$path: requests within the rate are accepted");
    is($count->{$good} + ($count->{429} // 0), MANY, "$path: all other requests are rejected");
    is_deeply([ @{ $rejected->{headers} }{qw(retry-after content-type)} ], [ 1, 'application/problem+json' ], "$path: the rejection has a delay and problem details");
    is(JSON::decode_json($rejected->{body})->{code}, 111, "$path: the rejection has code 111");
    is(request($method, $path, $body, of("other$n", publish => JSON::true))->{status}, $good, 'another user at the same address is accepted');
    wait_until('the rate allows a request again', sub { my $status = request($method, $path, $body, @user)->{status}; $rejected_count += $status == 429; $status == $good });
}
is($relay->metric('clairon_gate_streams'), 0, 'a rejected poll does not count as a stream');

# Requests without a valid token are counted by address, IPv6 addresses by /64 network.
for my $case ([ 'no token' => GET => '/v1/poll', '', 401 ], [ 'an invalid token' => POST => '/v1/ack', '{}', 401, of('u1', secret => 'x' x 32) ],
    [ 'an unknown path' => GET => '/nothing', '', 404 ], [ 'a wrong method' => PUT => '/v1/ack', '', 405 ], [ 'an invalid ticket' => GET => '/v1/sse?ticket=x', '', 401 ])
{
    my ($name, $method, $path, $body, $status, @headers) = @$case;
    my ($count, $rejected) = many($method, $path, $body, @headers, 'X-Forwarded-For' => '2001:db8:1:' . ++$n . '::1');
    cmp_ok($count->{$status}, '>=', RATE, "$name: requests within the rate receive a response");
    is($count->{$status} + ($count->{429} // 0), MANY, "$name: all other requests are rejected");
    is($rejected->{headers}{'retry-after'}, 1, "$name: the rejection has a delay");
    is(request($method, $path, $body, @headers, 'X-Forwarded-For' => "2001:db8:2:${n}::1")->{status}, $status, 'another network is accepted');
}
my @wrong = of('u1', secret => 'x' x 32);
many(GET => '/v1/poll', '', @wrong, 'X-Forwarded-For' => '2001:db8:9::1');
my $same = request(GET => '/v1/poll?wait=0', '', of('calm'), 'X-Forwarded-For' => '2001:db8:9::2');
$rejected_count += $same->{status} == 429;
ok($same->{status} == 429 || $same->{status} == 204,
    'requests of a network at the limit are rejected before their token is checked');
wait_until('the network is accepted again', sub { my $status = request(GET => '/v1/poll?wait=0', '', of('calm'), 'X-Forwarded-For' => '2001:db8:9::2')->{status}; $rejected_count += $status == 429; $status == 204 });
is(request(GET => '/v1/poll?wait=0', '', of("each$_"), 'X-Forwarded-For' => '203.0.113.7')->{status}, 204, 'requests with valid tokens are not counted by address') for 1 .. 3 * RATE;

# The request rate does not limit health checks and WebSocket frames.
my ($probes) = many(GET => '/healthz', '');
is_deeply($probes, { 200 => MANY }, '/healthz has no limit');
($probes) = many(GET => '/readyz', '');
is_deeply($probes, { 200 => MANY }, '/readyz has no limit');
my $ws = Clairon::Test::RawSocket->user($relay, 'u1');
many(POST => '/v1/ack', '{}', of('u1'));
$ws->send_json(({ t => 'ping' }) x 20);
is_deeply([ map { $ws->next_message->{t} } 1 .. 20 ], [ ('pong') x 20 ], 'the request rate does not limit WebSocket frames');
is($relay->metric('clairon_gate_requests_refused_total'), $rejected_count, 'the metric counts rejected requests');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

$relay = with('gate.request_rate' => 0);
my ($all) = many(POST => '/v1/ack', "{\"ids\":[\"$none\"]}", of('u1'));
is_deeply($all, { 204 => MANY }, 'a rate of 0 disables the limit');
($all) = many(GET => '/nothing', '');
is_deeply($all, { 404 => MANY }, 'a rate of 0 accepts all clients');
is($relay->stop, 0, 'SIGTERM ends the relay without a rate with status 0');

done_testing();
