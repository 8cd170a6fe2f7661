# Tests that the trace context of a notification reaches its recipients and appears in logs and in the trace of the
# notification.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'delivery.ack_timeout' => '1h', 'delivery.backoff_base' => '1h', 'delivery.backoff_cap' => '1h', 'feed.topic_prefix' => 'app' });
my $trace = '4bf92f3577b34da6a3ce929d0e0e4736';
my $given = "00-$trace-00f067aa0ba902b7-01";
my $other = "00-$trace-00000000000000aa-00";
my $u1    = $relay->client('u1');
my $seen  = 0;

# Waits for the next notification of u1 and returns it.
sub next_notification { $u1->wait_notifications(++$seen); return ($u1->notifications)[$seen - 1] }
sub notify { my ($set, $more) = @_; return split /\n/, $pg->safe_psql('postgres',
    "BEGIN; $set; SELECT clairon.notify('USER', '{u1}', '{\"traceparent\": \"mine\"}'" . ($more // '') . '); COMMIT') }

# The transaction sets clairon.traceparent.
my ($id) = reverse notify("SET LOCAL clairon.traceparent = '$given'");
my $notification = next_notification();
is($notification->{metadata}{traceparent}, $given, 'metadata contains the trace context of the setting');
is($notification->{payload}{traceparent}, 'mine', 'the payload is unchanged');
like($u1->{raw}[-1], qr/"operation":"notify","traceparent":"$given","timestamp":/,
    'the trace context precedes the timestamp');
$relay->wait_for_log(qr/component=feed level=info .*msg="notification decoded" id="$id" traceparent="$given"/);
pass('a sampled trace context is logged with the id');
like(($relay->run('trace', $id))[1], qr/^traceparent +$given$/m, 'clairon trace prints the trace context');
notify('SELECT 1');
is(next_notification()->{metadata}{traceparent}, undef, 'the next transaction has no trace context');
notify("SET LOCAL clairon.traceparent = ''");
is(next_notification()->{metadata}{traceparent}, undef, 'an empty setting causes no trace context');
($id) = reverse notify("SET LOCAL clairon.traceparent = '$other'");
is(next_notification()->{metadata}{traceparent}, $other, 'an unsampled trace context is propagated');
$relay->wait_for_log(qr/level=debug .*msg="notification decoded" id="$id" traceparent="$other"/);
pass('an unsampled trace context is logged only at level debug');
my ($code, $out, $err) = $pg->psql('postgres',
    q{SET clairon.traceparent = 'nonsense'; SELECT clairon.notify('USER', '{u1}', '{}')});
is($code, 0, 'an invalid setting does not fail its transaction');
like($err, qr/WARNING:  invalid value for parameter "clairon\.traceparent": "nonsense"\nDETAIL:  The notification is sent without a traceparent\.\nHINT:  The format is 00-/, 'an invalid setting causes a warning');
is(next_notification()->{metadata}{traceparent}, undef, 'an invalid setting is omitted');

# A retry has the same trace context.
my ($kept) = reverse notify("SET LOCAL clairon.traceparent = '$given'", ', ack_required => true, retry_limit => 100');
next_notification();
$store->make_due($kept, 'u1');
$notification = next_notification();
is("$notification->{metadata}{id} $notification->{routing}{retry}{attempts}", "$kept 1", 'the notification is retried');
is($notification->{metadata}{traceparent}, $given, 'a retry has the trace context');
$u1->ack($kept);
wait_until('the notification is acknowledged', sub { $store->pending == 0 });
$seen = () = $u1->notifications;

# A row has the annotation of its transaction. Commands find the fields of the notification, whatever names `data` has.
$pg->safe_psql('postgres', q{CREATE TABLE marks (id int PRIMARY KEY, u text);
    SELECT clairon.watch('marks', 'USER', 'u', ack_required => true, retry_limit => 100)});
$pg->safe_psql('postgres', qq{BEGIN; SELECT clairon.annotate('teacher', '$given', '{"of": {}, "payload": 1}');
    INSERT INTO marks VALUES (1, 'u1'); COMMIT});
$notification = next_notification();
is($notification->{metadata}{traceparent}, $given, 'a row has the trace context of its transaction');
is($notification->{metadata}{emitter}, 'teacher', 'a row has the emitter of its transaction');
is_deeply($notification->{metadata}{data}, { of => {}, payload => 1 }, 'a row has the data of its transaction');
$relay->wait_for_log(qr/msg="notification decoded" id="$notification->{metadata}{id}" traceparent="$given"/);
pass('the trace context of a row is logged with the id');
$pg->safe_psql('postgres', qq{BEGIN; SELECT clairon.annotate(data => '{"of": {}, "traceparent": "$given"}');
    INSERT INTO marks VALUES (2, 'u1'); COMMIT});
$notification = next_notification();
is_deeply($notification->{metadata}{data}, { of => {}, traceparent => $given }, 'data may have a member traceparent');
unlike(($relay->run('trace', $notification->{metadata}{id}))[1], qr/^traceparent/m, 'clairon trace does not print that member');
is($store->pending, 2, 'both rows are pending');
$relay->run('drop', '--source', 'marks');
wait_until('clairon drop finds annotated notifications by their source', sub { $store->pending == 0 });
$seen = () = $u1->notifications;

# Text mode prints the same JSON.
$pg->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('text', 'clairon')});
notify("SET LOCAL clairon.traceparent = '$given'");
is(next_notification()->{metadata}{traceparent}, $given, 'a slot in text mode does not change the trace context');
like($pg->safe_psql('postgres', q{SELECT data FROM pg_logical_slot_get_changes('text', NULL, NULL)}),
    qr/^\{"metadata":\{[^}]*"traceparent":"$given","timestamp":"[^}]*"\},"payload":/,
        'text mode prints the trace context');
$pg->safe_psql('postgres', q{SELECT pg_drop_replication_slot('text')});

# The trace context is in an HTTP request.
sub post
{
    my ($metadata, %headers) = @_;
    my $raw  = Clairon::Test::RawSocket->new($relay);
    my $body = JSON->new->utf8->canonical->encode({ payload => {}, metadata => $metadata,
            routing => { audience => { type => 'USER', targets => ['u1'] } } });
    %headers = (Host => 'x', Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true),
        'Content-Length' => length $body, %headers);
    $raw->write("POST /v1/notifications HTTP/1.1\r\n" . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers) . "\r\n$body");
    my $response = $raw->read_response;
    $response->{json} = JSON::decode_json($response->{body});
    return $response;
}
my $posted = post({}, traceparent => $given);
is($posted->{status}, 201, 'a request with a trace context is accepted');
is(next_notification()->{metadata}{traceparent}, $given, 'metadata contains the trace context of the request');
$relay->wait_for_log(qr/component=gate level=info .*msg="notification published" id="?$posted->{json}{id}"? traceparent="?$given/);
pass('the trace context of a request is logged');
my $raw = Clairon::Test::RawSocket->new($relay);
$raw->write("GET /v1/notifications/$posted->{json}{id} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
    . token(sub => 'api', publish => JSON::true) . "\r\n\r\n");
is(JSON::decode_json($raw->read_response->{body})->{notification}{metadata}{traceparent}, $given,
    'the trace of the notification contains the trace context');
post({ traceparent => $other }, Traceparent => $given);
is(next_notification()->{metadata}{traceparent}, $other, 'the body takes precedence over the header');
post({}, traceparent => "$given-more");
is(next_notification()->{metadata}{traceparent}, undef, 'an invalid header is ignored');
$posted = post({ traceparent => uc $given });
is($posted->{status}, 400, 'an invalid value in the body is rejected');
like($posted->{body}, qr/traceparent must be 00-/, 'the error contains the valid form');
post({}, traceparent => "cc-$trace-00f067aa0ba902b7-ff-what-comes");
is(next_notification()->{metadata}{traceparent}, $given, 'the known part of a later version is used');

# CORS allows a page with tracing to send the headers.
my $preflight = Clairon::Test::RawSocket->new($relay)->request(OPTIONS => '/v1/sse', Origin => 'http://127.0.0.1:1',
    'Access-Control-Request-Method' => 'GET', 'Access-Control-Request-Headers' => 'authorization,traceparent,tracestate');
is($preflight->{status}, 204, 'a preflight of a page with tracing is accepted');
my %may = map { $_ => 1 } split /, /, $preflight->{headers}{'access-control-allow-headers'};
ok($may{$_}, "the preflight allows $_") for qw(authorization traceparent tracestate);

# A repeat in another span is still a repeat, if the span is in the header.
$posted = post({}, traceparent => $given, 'Idempotency-Key' => 'k');
my $again = post({}, traceparent => $other, 'Idempotency-Key' => 'k');
is("$posted->{status} $again->{status}", '201 200', 'a repeat with another trace context is accepted');
is($again->{json}{id}, $posted->{json}{id}, 'a repeat with another trace context returns the same id');
is(next_notification()->{metadata}{traceparent}, $given, 'the notification has the first trace context');

done_testing();
