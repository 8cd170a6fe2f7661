# Tests that a key is rejected while its first request is in progress, and that a nack over HTTP has the same effect as
# a nack on a WebSocket.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use IO::Select;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $proxy = Clairon::Test::proxy($store->{socket});
my ($relay, $second) = map { Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'store.url' => $_, 'delivery.backoff_cap' => '10m', 'delivery.backoff_base' => '50ms' }) } $proxy->url('redis'), $store->url;

sub send_request
{
    my ($method, $path, %options) = @_;
    my $raw = Clairon::Test::RawSocket->new($options{relay} // $relay);
    $raw->begin($method, $path, ':body' => $options{body},
        Authorization => 'Bearer ' . token(sub => $options{sub} // 'api', publish => JSON::true), %{ $options{headers} // {} });
    return $raw;
}
sub http { return send_request(@_)->read_response }
sub to { my ($text, %retry) = @_; return { payload => { text => $text }, routing => { audience => { type => 'USER', targets => ['u1'] }, retry => \%retry } } }
sub with_key { my ($key, $text, %options) = @_; return send_request(POST => '/v1/notifications', body => to($text), headers => { 'Idempotency-Key' => $key }, %options) }

# Waits for the first response to simultaneous requests; returns this response and the other requests.
sub first_response
{
    my (@raws) = @_;
    my ($ready) = IO::Select->new(map { $_->{link} } @raws)->can_read($Clairon::Test::SECONDS);
    my ($one)   = grep { $_->{link} == $ready } @raws;
    return ($one->read_response, grep { $_ != $one } @raws);
}

# Repeats receive 409 while the first request with the key waits for the store.
$proxy->freeze;
my ($busy, $first) = first_response(with_key('one', 'x'), with_key('one', 'x'));
my $other  = with_key('two', 'x');
my $theirs = with_key('one', 'x', sub => 'another user');
is($busy->{status}, 409, 'the same key is rejected while its first request is in progress');
is(JSON::decode_json($busy->{body})->{title}, 'Conflict', 'the rejection has a title');
like($busy->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'the rejection has Retry-After');
is(with_key('one', 'another body')->read_response->{status}, 409, 'a pending key with another body is rejected with 409');
is(with_key('one', 'x')->read_response->{status}, 409, 'a third request with the same body is rejected with 409');
$first->disconnect;
is(with_key('one', 'x')->read_response->{status}, 409,
    'the key is still in progress after the client of the first request has disconnected');
$proxy->thaw;
is($_->read_response->{status}, 201, 'another key, and the same key of another user, are accepted') for $other, $theirs;
my $again = with_key('one', 'x')->read_response;
is($again->{status}, 200, 'a repeat after the first request is accepted');
is($again->{headers}{'idempotency-replayed'}, 'true', 'a repeat is marked as a repeat');
is(with_key('one', 'another body')->read_response->{status}, 422, 'a repeat with another body is rejected');
is(with_key('one', 'x', relay => $second)->read_response->{status}, 200, 'another relay accepts the repeat');
is($store->stored, 3, 'each notification is stored once');

# A request that failed is no longer in progress.
$proxy->reject(1);
$proxy->cut;
wait_until('the store is stopped', sub { with_key('three', 'x')->read_response->{status} == 503 });
is(with_key('one', 'x')->read_response->{status}, 200, 'a stored key is recognized without the store');
is(with_key('one', 'another body')->read_response->{status}, 422, 'a stored key with another body is rejected with 422');
is(with_key('three', 'x')->read_response->{status}, 503, 'the key of a failed request can be reused');
$proxy->reject(0);
wait_until('the store is ready', sub { with_key('three', 'x')->read_response->{status} =~ /^20[01]$/ });
is(with_key('three', 'x')->read_response->{status}, 200, 'the notification of the reused key is stored once');

# The key of a request that the store rejected is not stored.
my $before = $store->stored;
$store->execute('CONFIG', 'SET', 'maxmemory', 1);
is(with_key('four', 'x')->read_response->{status}, 503, 'a full store rejects the request') for 1, 2;
$store->execute('CONFIG', 'SET', 'maxmemory', 0);
$again = with_key('four', 'x')->read_response;
is($again->{status}, 201, 'after the store has memory again, the request is a first request');
is($again->{headers}{'idempotency-replayed'}, undef, 'a first request is not marked as a repeat');
is(with_key('four', 'x', relay => $second)->read_response->{status}, 200, 'another request with the key is a repeat');
is($store->stored, $before + 1, 'the notification is stored once');

# A nack is sent without a WebSocket.
my $stream = Clairon::Test::EventStream->open($relay, 'u1');
$stream->wait_message('connected');
my $id = http(POST => '/v1/notifications', body => to('later', ack_required => JSON::true))->{json}{id};
my $notification = $stream->next_notification;
$notification = $stream->next_notification until $notification->{metadata}{id} eq $id;
sub wait_s { my ($s, $us) = @{ $store->execute('TIME') }; return (($store->execute('ZSCORE', $store->of($id, 'due'), "$id:u1") // 0) - $s * 1000 - $us / 1000) / 1000 }
wait_until('the delivery is reported', sub { wait_s() > 0 });
is(http(POST => '/v1/nack', sub => 'mallory', body => { ids => [$id], delay => 500_000 })->{status}, 204, 'a nack of another user\'s notification is accepted');
is(http(POST => '/v1/nack', sub => 'u1', body => { ids => [$id], delay => 300_000 })->{status}, 204, 'a nack is accepted');
wait_until('the retry is deferred', sub { wait_s() > 290 });
cmp_ok(wait_s(), '<=', 300.001, 'a nack of another user does not delay the retry');
is(http(POST => '/v1/nack', sub => 'u1', relay => $second, body => { ids => [ uc $id ] })->{status}, 204, 'a nack on another relay is accepted');
my $trace = http(GET => "/v1/notifications/$id")->{json};
is_deeply($trace->{waiting}, ['u1'], 'the notification is still pending');
my $soon = http(POST => '/v1/notifications', body => to('soon', ack_required => JSON::true))->{json}{id};
$notification = $stream->next_notification until $notification->{metadata}{id} eq $soon;
wait_until('the delivery is reported', sub { $store->execute('ZSCORE', $store->of($soon, 'due'), "$soon:u1") });
is(http(POST => '/v1/nack', sub => 'u1', body => { ids => [$soon], delay => 0 })->{status}, 204, 'a nack with delay 0 is accepted');
$notification = $stream->next_notification;
is_deeply([ $notification->{metadata}{id}, $notification->{routing}{retry}{attempts} ], [ $soon, 1 ], 'after a nack with delay 0, the notification is retried long before the ack timeout');
is(http(POST => '/v1/ack', sub => 'u1', body => { ids => [ $id, $soon ] })->{status}, 204, 'acks of both notifications are accepted');
wait_until('no notification is pending', sub { $store->pending == 0 });

# Invalid nacks are rejected.
for (
    [ '',  qr/body must be/ ], [ '{}', qr/body must be/ ], [ '[]', qr/body must be/ ], [ "{\"ids\":[\"$id\"],\"more\":1}", qr/body must be/ ],
    [ '{"ids":[]}', qr/"ids"/ ], [ '{"ids":["x"]}', qr/"ids".*index 0/ ], [ "{\"ids\":[\"$id\"],\"delay\":-1}", qr/"delay"/ ],
    [ "{\"ids\":[\"$id\"],\"delay\":\"1\"}", qr/"delay"/ ], [ "{\"ids\":[\"$id\"],\"delay\":1.5}", qr/"delay"/ ],
    [ "{\"ids\":[\"$id\"],\"ids\":[\"$id\"]}", qr/body must be/ ])
{
    my $response = http(POST => '/v1/nack', sub => 'u1', body => $_->[0]);
    is($response->{status}, 400, "$_->[0] is rejected");
    like($response->{json}{detail}, $_->[1], "$_->[0] is rejected with the reason");
}
is(http(POST => '/v1/nack', sub => 'u1', body => { ids => [$id], delay => 86400001 })->{status}, 204, 'a delay above the cap is accepted');
is(http(GET => '/v1/nack', sub => 'u1')->{status}, 405, 'nack requires POST');
$store->stop;
wait_until('the store is stopped', sub { http(POST => '/v1/nack', sub => 'u1', body => { ids => [$id] })->{status} == 503 });
pass('a nack is rejected without the store');
$store->start;

# The relay stops during a request.
wait_until('the store is ready', sub { http(POST => '/v1/notifications', body => to('x'))->{status} == 201 });
is(with_key('three', 'x')->read_response->{status}, 200, 'keys survive a store outage');
$store->execute('FLUSHALL');
wait_until('after the store is emptied, neither the store nor the relay has the keys', sub { with_key('three', 'x')->read_response->{status} == 201 });
$proxy->freeze;
my ($response, $last) = first_response(with_key('last', 'x'), with_key('last', 'x'));
is($response->{status}, 409, 'a request is in progress');
is($relay->stop, 0, 'a relay with a request in progress exits with status 0 on SIGTERM');

done_testing();
