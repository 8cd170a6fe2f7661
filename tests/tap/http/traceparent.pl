# Is the trace that a notification belongs to carried from whoever asked for it to whoever reads it, and told on the way?
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'delivery.ack_timeout' => '200ms', 'delivery.backoff_base' => '50ms', 'feed.topic_prefix' => 'app' });
my $trace = '4bf92f3577b34da6a3ce929d0e0e4736';
my $given = "00-$trace-00f067aa0ba902b7-01";
my $other = "00-$trace-00000000000000aa-00";
my $u1    = $relay->client('u1');
my $seen  = 0;

# The next note that u1 is shown.
sub next_note { $u1->wait_notifications(++$seen); return ($u1->notifications)[$seen - 1] }
sub notify { my ($set, $more) = @_; return split /\n/, $pg->safe_psql('postgres',
    "BEGIN; $set; SELECT clairon.notify('USER', '{u1}', '{\"traceparent\": \"mine\"}'" . ($more // '') . '); COMMIT') }

# From SQL.
my ($id) = reverse notify("SET LOCAL clairon.traceparent = '$given'");
my $note = next_note();
is($note->{metadata}{traceparent}, $given, 'what the transaction set stands in metadata');
is($note->{payload}{traceparent}, 'mine', 'and the payload is as it was');
like($u1->{raw}[-1], qr/"operation":"notify","traceparent":"$given","timestamp":/, 'before the times');
$relay->wait_for_log(qr/who=feed level=info .*msg="decoded $id, traceparent $given"/);
pass('a sampled one is logged beside the id');
like(($relay->run('trace', $id))[1], qr/^traceparent +$given$/m, 'clairon trace tells it');
notify('SELECT 1');
is(next_note()->{metadata}{traceparent}, undef, 'the next transaction has none');
notify("SET LOCAL clairon.traceparent = ''");
is(next_note()->{metadata}{traceparent}, undef, 'nor has an empty one');
($id) = reverse notify("SET LOCAL clairon.traceparent = '$other'");
is(next_note()->{metadata}{traceparent}, $other, 'one that is not sampled is carried too');
$relay->wait_for_log(qr/level=debug .*"decoded $id, traceparent $other"/);
pass('and logged at debug alone');
my ($code, $out, $err) = $pg->psql('postgres',
    q{SET clairon.traceparent = 'nonsense'; SELECT clairon.notify('USER', '{u1}', '{}')});
is($code, 0, 'a bad one does no harm to its transaction');
like($err, qr/WARNING:  clairon\.traceparent: "nonsense" is not valid, the notification is sent without\nHINT:  Valid: 00-/, 'but is told');
is(next_note()->{metadata}{traceparent}, undef, 'and left out');

# A retry is the same message.
my ($kept) = reverse notify("SET LOCAL clairon.traceparent = '$given'", ', ack_required => true, retry_limit => 100');
next_note();
$note = next_note();
is("$note->{metadata}{id} $note->{routing}{retry}{attempts}", "$kept 1", 'it is shown again');
is($note->{metadata}{traceparent}, $given, 'with its trace');
$u1->ack($kept);
wait_until('it is acked', sub { $store->pending == 0 });
$seen = () = $u1->notifications;

# Text mode shows what frames do.
$pg->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('text', 'clairon')});
notify("SET LOCAL clairon.traceparent = '$given'");
is(next_note()->{metadata}{traceparent}, $given, 'again');
like($pg->safe_psql('postgres', q{SELECT data FROM pg_logical_slot_get_changes('text', NULL, NULL)}),
    qr/^\{"metadata":\{[^}]*"traceparent":"$given","timestamp":"[^}]*"\},"payload":/, 'in text mode too');
$pg->safe_psql('postgres', q{SELECT pg_drop_replication_slot('text')});

# Over HTTP.
sub post
{
    my ($metadata, %headers) = @_;
    my $raw  = Clairon::Test::RawSocket->new($relay);
    my $body = JSON::encode_json({ payload => {}, metadata => $metadata,
            routing => { audience => { type => 'USER', targets => ['u1'] } } });
    %headers = (Host => 'x', Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true),
        'Content-Length' => length $body, %headers);
    $raw->write("POST /v1/notifications HTTP/1.1\r\n" . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers) . "\r\n$body");
    my $answer = $raw->read_response;
    $answer->{json} = JSON::decode_json($answer->{body});
    return $answer;
}
my $posted = post({}, traceparent => $given);
is($posted->{status}, 201, 'the header of a request');
is(next_note()->{metadata}{traceparent}, $given, 'stands in metadata');
$relay->wait_for_log(qr/who=gate level=info .*msg="published $posted->{json}{id}, traceparent $given"/);
pass('and in the log');
my $raw = Clairon::Test::RawSocket->new($relay);
$raw->write("GET /v1/notifications/$posted->{json}{id} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
    . token(sub => 'api', publish => JSON::true) . "\r\n\r\n");
is(JSON::decode_json($raw->read_response->{body})->{notification}{metadata}{traceparent}, $given, 'and in the timeline');
post({ traceparent => $other }, Traceparent => $given);
is(next_note()->{metadata}{traceparent}, $other, 'what the body says goes before the header');
post({}, traceparent => "$given-more");
is(next_note()->{metadata}{traceparent}, undef, 'a bad header is passed over');
$posted = post({ traceparent => uc $given });
is($posted->{status}, 400, 'a bad one in the body is refused');
like($posted->{body}, qr/traceparent must be 00-/, 'with what is valid');
post({}, traceparent => "cc-$trace-00f067aa0ba902b7-ff-what-comes");
is(next_note()->{metadata}{traceparent}, $given, 'of a later version, what this one knows');

# A page whose tracing adds the headers to every request is let to.
my $asked = Clairon::Test::RawSocket->new($relay)->request(OPTIONS => '/v1/sse', Origin => 'http://127.0.0.1:1',
    'Access-Control-Request-Method' => 'GET', 'Access-Control-Request-Headers' => 'authorization,traceparent,tracestate');
is($asked->{status}, 204, 'a preflight of a page that traces');
my %may = map { $_ => 1 } split /, /, $asked->{headers}{'access-control-allow-headers'};
ok($may{$_}, "$_ may be sent") for qw(authorization traceparent tracestate);

# A repeat comes in another span, and is a repeat.
$posted = post({ traceparent => $given }, 'Idempotency-Key' => 'k');
my $again = post({ traceparent => $other }, 'Idempotency-Key' => 'k');
is("$posted->{status} $again->{status}", '201 200', 'a key knows its body whatever the trace');
is($again->{json}{id}, $posted->{json}{id}, 'with the same id');
is(next_note()->{metadata}{traceparent}, $given, 'and the first trace');

done_testing();
