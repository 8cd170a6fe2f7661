# Tests that a notification published over HTTP is delivered like a notification from the WAL, is stored once per key,
# and has a trace.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my ($relay, $second) = map { Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'delivery.ack_timeout' => '300ms', 'delivery.backoff_base' => '100ms' }) } 1, 2;

sub http
{
    my ($method, $path, %options) = @_;
    my %claims = (sub => $options{sub} // 'api', publish => JSON::true, %{ $options{claims} // {} });
    return Clairon::Test::RawSocket->new($options{relay} // $relay)->request($method, $path, ':body' => $options{body},
        (($options{token} // 1) ? (Authorization => 'Bearer ' . token(%claims)) : ()), %{ $options{headers} // {} });
}

sub post { my ($body, %options) = @_; return http(POST => '/v1/notifications', body => $body, %options) }
sub trace { my ($id, %options) = @_; return http(GET => "/v1/notifications/$id", %options) }

sub to
{
    my ($type, @targets) = @_;
    return { payload => { text => 'hé', n => 1.5 }, routing => { audience => { type => $type, targets => \@targets } } };
}

# Publishes a notification without acks.
my $u1     = $relay->client('u1');
my $other  = $second->client('u1');
my $u2     = $relay->client('u2');
my $posted = post(to('USER', 'u1', 'u1'));
is($posted->{status}, 201, 'a notification is accepted');
my $id = $posted->{json}{id};
like($id, qr/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/, 'the id is a UUID of version 7');
is($posted->{headers}{location}, "/v1/notifications/$id", 'the response contains the location of the trace');
$_->wait_notifications(1) for $u1, $other;
my ($notification) = $u1->notifications;
is($notification->{metadata}{id}, $id, 'the notification is delivered');
is_deeply([ $other->notifications ], [$notification],
    'each connection of the user receives the notification, on any relay');
my $at = delete $notification->{metadata}{timestamp};
like($at, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/, 'the notification has a timestamp with microseconds');
is_deeply($notification, {
    metadata => { id => $id, priority => 'NORMAL', type => 'NOTIFICATION', emitter => 'api',
        source => 'notify', topic => 'notify', operation => 'notify' },
    payload => { text => 'hé', n => 1.5 },
    routing => { audience => { type => 'USER', targets => ['u1'] },
        retry => { ack_required => JSON::false, enabled => JSON::false, attempts => 0, limit => 5, backoff => 'EXPONENTIAL' } },
}, 'the notification has the defaults of clairon.notify');
like((grep { /"id":"$id"/ } map { @{ $_->{raw} } } $u1)[0], qr/"attempts":0,"limit":5,"backoff":"EXPONENTIAL"\}\}\}\}$/,
    'the JSON ends like the JSON of the decoder');
my $all = post({ %{ to('ALL') }, metadata => { priority => 'HIGH', type => 'SYSTEM', source => 's', topic => 't.x', emitter => 'me',
        id => '00000000-0000-0000-0000-000000000000', timestamp => '2001-01-01T00:00:00Z', operation => 'create', expiration => '2999-01-02T03:04:05Z' } });
$u2->wait_notifications(1);
my ($whole) = $u2->notifications;
is_deeply([ @{ $whole->{metadata} }{qw(priority type source topic expiration)} ], [ 'HIGH', 'SYSTEM', 's', 't.x', '2999-01-02T03:04:05.000000Z' ],
    'optional fields are accepted');
isnt($whole->{metadata}{$_->[0]}, $_->[1], "$_->[0] cannot be set by the client")
  for [ id => '00000000-0000-0000-0000-000000000000' ], [ emitter => 'me' ], [ timestamp => '2001-01-01T00:00:00Z' ], [ operation => 'create' ];

# A notification with ack_required is retried until all users have acknowledged.
my $needs = to('USER', 'u1', 'u2', 'away');
$needs->{routing}{retry} = { ack_required => JSON::true, limit => 1000, backoff => 'FIXED' };
$id = post($needs)->{json}{id};
my $first = $u1->wait_for(sub { ($_[0]{n}{metadata}{id} // '') eq $id });
is($first->{n}{routing}{retry}{enabled}, JSON::true, 'with ack_required, retries are enabled');
is($store->pending, 1, 'with ack_required, the notification is pending');
$u1->wait_for(sub { ($_[0]{n}{metadata}{id} // '') eq $id && $_[0]{n}{routing}{retry}{attempts} == 1 });
pass('with ack_required, the notification is retried until acknowledged');
$_->ack($id) for $u1, $u2;
wait_until('two users have acknowledged', sub {
    my %acks = @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) };
    return 2 == grep { $_ > 0 } values %acks;
});
my $away = $relay->client('away');
$away->wait_for(sub { ($_[0]{n}{metadata}{id} // '') eq $id });
$away->ack($id);
wait_until('all users have acknowledged', sub { $store->pending == 0 });
my $trace = trace($id);
is($trace->{status}, 200, 'the notification has a trace');
is($trace->{json}{id}, $id, 'the trace contains the id');
is($trace->{json}{notification}{payload}{text}, 'hé', 'the trace contains the notification');
my %stages;
$stages{ $_->{stage} }++ for @{ $trace->{json}{events} };
ok($stages{committed} && $stages{stored} && $stages{sent} >= 3 && $stages{acked} == 3 && $stages{retried}, 'the trace contains the commit, the storage, and all deliveries, retries and acks')
  or diag(explain($trace->{json}));
is(trace(uc $id)->{status}, 200, 'the id in the path is case-insensitive');

# One group is known only from tokens, the other has members in the database.
$store->execute('SADD', $store->shared('members:TEAM:red'), 'u1');
$store->execute('SADD', $store->shared('groups:u1'), 'TEAM:red');
my $red = to('TEAM', 'red');
$red->{routing}{retry} = { ack_required => JSON::true };
$id = post($red)->{json}{id};
is_deeply($store->execute('HGETALL', $store->of($id, "ack:$id")), [ 'u1', '0' ],
    'the notification is pending for the members of a group');
my $blue = $relay->client('u9', groups => { TEAM => ['blue'] });
post(to('TEAM', 'blue'));
$blue->wait_for('msg');
pass('a user with the group in the token receives the notification');

# One key stores one notification.
sub once { my ($key, $text, %options) = @_; return post({ %{ to('USER', 'k1') }, payload => { text => $text } }, headers => { 'Idempotency-Key' => $key }, %options) }
my $k1  = $relay->client('k1');
my $one = once('a', 'x');
is($one->{status}, 201, 'the first request with a key returns 201');
my $two = once('a', 'x', relay => $second);
is($two->{status}, 200, 'a repeat on another relay returns 200');
is($two->{headers}{'idempotency-replayed'}, 'true', 'a repeat is marked as a repeat');
is($two->{json}{id}, $one->{json}{id}, 'a repeat returns the same id');
is($one->{headers}{'idempotency-replayed'}, undef, 'a first request is not marked as a repeat');
is(post(' {"routing": {"audience":{"targets":["k1"],"type":"USER"}}, "payload":{"text":"x"}}', headers => { 'Idempotency-Key' => 'a' })->{status}, 422,
    'equal JSON in another form is another body');
is(once('a', 'y')->{status}, 422, 'another body with that key is rejected');
is(once('a', 'y', relay => $second)->{status}, 422, 'a relay that finds the key only in the store rejects another body');
my $mine = once('a', 'x', sub => 'api2');
is($mine->{status}, 201, 'another user has separate keys');
isnt($mine->{json}{id}, $one->{json}{id}, 'another user with the same key receives another id');
is(once('api2:a', 'x', sub => 'x')->{status}, 201, 'the boundary between user name and key is unambiguous');
is(once('k' x 255, 'x')->{status}, 201, 'a key of 255 bytes is accepted');
is(once('k' x 256, 'x')->{status}, 400, 'a key of 256 bytes is rejected');
is(once('', 'x')->{status}, 400, 'an empty key is rejected');
post({ %{ to('USER', 'k1') }, payload => { text => 'end' } });
$k1->run_until('the last notification arrives', sub { grep { $_->{payload}{text} eq 'end' } $k1->notifications });
is(scalar($k1->notifications), 5, 'each notification is delivered once');
my ($kept) = grep { $_ > 0 } map { $store->execute('PTTL', $_) } @{ $store->execute('KEYS', $store->shared('idempotency:*')) };
ok($kept > 86_000_000 && $kept <= 86_400_000, 'keys are kept for a day');
my @race = map { Clairon::Test::RawSocket->new($_ % 2 ? $relay : $second) } 1 .. 8;
my $body = JSON::encode_json(to('USER', 'k2'));
$_->write("POST /v1/notifications HTTP/1.1\r\nHost: x\r\nIdempotency-Key: race\r\nAuthorization: Bearer " . token(sub => 'api', publish => JSON::true)
      . "\r\nContent-Length: " . length($body) . "\r\n\r\n$body") for @race;
my %race;
$race{ $_->read_response->{status} }++ for @race;
is($race{201}, 1, 'one of eight simultaneous requests is the first request');
is(($race{200} // 0) + ($race{409} // 0), 7, 'the other requests are repeats or conflicts');

# Unauthorized and invalid requests are rejected.
is(post(to('ALL'), token => 0)->{status}, 401, 'a request without a token is rejected');
is(post(to('ALL'), claims => { publish => JSON::false })->{status}, 403, 'a token without publish is rejected');
is(trace($id, claims => { publish => undef })->{status}, 403, 'a trace requires the publish claim');
is(trace($id, token => 0)->{status}, 401, 'a trace requires a token');
is(trace('0190f5c8-1111-7000-8000-000000000001')->{status}, 404, 'an unknown id returns 404');
is(http(GET => "/v1/notifications/$_")->{status}, 404, "$_ as an id returns 404") for '', 'x', '../healthz', $id . '0';
is(http(GET => '/v1/notifications')->{status}, 405, 'notifications cannot be listed');
is(http(POST => "/v1/notifications/$id", body => '{}')->{status}, 405, 'a notification cannot be updated');
is(post(to('ALL'), headers => { 'Content-Length' => 2_000_000 })->{status}, 413, 'a request over 1 MB is rejected');
sub with { my ($where, $what) = @_; my $body = to('USER', 'u1'); my @path = split /\./, $where; my $last = pop @path;
    my $at = $body; $at = $at->{$_} //= {} for @path; $at->{$last} = $what; return $body }
for my $case (
    [ 'a string that is not JSON', 'hello', 'JSON' ], [ 'truncated JSON', '{"payload":', 'JSON' ], [ 'an array', '[]', 'object' ],
    [ 'a body without payload', { routing => to('ALL')->{routing} }, 'payload' ], [ 'a payload that is a number', with(payload => 7), 'payload' ],
    [ 'a body without routing', { payload => {} }, 'routing' ], [ 'a body without audience', { payload => {}, routing => {} }, 'routing.audience.type' ],
    [ 'a body without targets', to('USER'), 'targets' ], [ 'ALL with a target', to('ALL', 'x'), 'targets' ],
    [ 'a target that is empty', to('USER', 'a', ''), 'index 1' ], [ 'a target that is too long', to('USER', 'x' x 256), 'index 0' ],
    [ 'targets of more than 256 kB', to('USER', map { sprintf '%0255d', $_ } 1 .. 1029), 'routing.audience.targets' ],
    [ 'a target that is a number', with('routing.audience.targets' => [7]), 'index 0' ],
    [ 'an invalid audience', to('A B', 'x'), 'type' ], [ 'the audience user in lower case', to('user', 'x'), 'type' ],
    [ 'an invalid priority', with('metadata.priority' => 'URGENT'), 'priority must be one of HIGH, NORMAL, LOW' ],
    [ 'an invalid type', with('metadata.type' => 'X'), 'type must be one of' ], [ 'an empty source', with('metadata.source' => ''), 'source' ],
    [ 'a topic that is too long', with('metadata.topic' => 'x' x 256), 'topic' ],
    (map { [ "an invalid topic, $_", with('metadata.topic' => $_), 'topic must not contain' ] } 'a*', 'a*b', "a\nb", "a\tb", "a,b", "\x7f"),
    (map { [ "an invalid source, $_", with('metadata.source' => $_), 'source must not contain' ] } 'a*', "a\nb", 'a,b'),
    (map { [ "a number that is too large, $_", '{"payload":{"x":' . $_ . '},"routing":{"audience":{"type":"ALL"}}}', 'send numbers beyond 64 bits as strings' ] } '12345678901234567890', '-9223372036854775809', '1e999'),
    (map { [ "the expiration $_", with('metadata.expiration' => $_), 'expiration' ] } 'soon', '2025-02-30T00:00:00Z', '2999-01-01T00:00:00', '2999-01-01T00:00:00+01:00', '2001-01-01T00:00:00Z', '2999-01-01T25:00:00Z', '2999-01-01T00:00:00.Z'),
    [ 'an invalid backoff', with('routing.retry.backoff' => 'NONE'), 'backoff' ], [ 'a negative limit', with('routing.retry.limit' => -1), 'limit' ],
    [ 'a limit that is too high', with('routing.retry.limit' => 1001), 'limit' ], [ 'an ack_required that is a string', with('routing.retry.ack_required' => 'yes'), 'ack_required' ],
    [ 'an unknown field', with('extra' => 1), 'extra' ], [ 'an unknown nested field', with('metadata.extra' => 1), 'extra' ],
    [ 'an unknown field in retry', with('routing.retry.extra' => 1), 'extra' ], [ 'routing that is an array', with('routing' => []), 'routing' ],
    [ 'a NUL character', '{"payload":{"x":"\u0000"},"routing":{"audience":{"type":"ALL"}}}', 'JSON' ],
    [ 'a repeated field', '{"payload":{},"payload":{},"routing":{"audience":{"type":"ALL"}}}', 'JSON' ])
{
    my ($name, $what, $word) = @$case;
    my $response = post($what);
    is($response->{status}, 400, "$name is rejected");
    is($response->{headers}{'content-type'}, 'application/problem+json', "$name is rejected with problem details");
    like($response->{json}{detail}, qr/\Q$word\E/, "$name is rejected with the name of the field");
}
my $deep = post('{"payload":{"x":' . '[' x 3000 . ']' x 3000 . '},"routing":{"audience":{"type":"ALL"}}}');
is($deep->{status}, 400, 'a body nested too deeply is rejected');

# Many targets and a large body are accepted; without the store, requests are rejected.
my $many = post(to('USER', map { "many$_" } 1 .. 5000));
is($many->{status}, 201, 'five thousand targets are accepted');
is(post(to('USER', map { "many$_" } 1 .. 10_001))->{status}, 400, 'more than ten thousand targets are rejected');
my $big = post({ %{ to('USER', 'u2') }, payload => { text => 'x' x 900_000 } });
is($big->{status}, 201, 'a body of nearly a megabyte is accepted');
my $large = $u2->wait_for(sub { ($_[0]{n}{metadata}{id} // '') eq $big->{json}{id} });
is(length $large->{n}{payload}{text}, 900_000, 'a body of nearly a megabyte is delivered completely');
$store->stop;
wait_until('the relay has lost its store connection', sub { ($relay->get('/readyz'))[0] == 503 });
my $lost = post(to('ALL'));
is($lost->{status}, 503, 'without the store the request is rejected');
ok($lost->{headers}{'retry-after'}, 'the rejection has Retry-After');
is(trace($id)->{status}, 503, 'the trace is unavailable without the store');
is($_->stop, 0, 'SIGTERM ends the relay with status 0') for $relay, $second;

done_testing();
