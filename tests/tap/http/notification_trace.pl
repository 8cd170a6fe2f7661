# Tests that GET /v1/notifications/ID returns all events of a notification in order and per user, even after the
# notification was trimmed.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'delivery.ack_timeout' => '1h', 'delivery.backoff_base' => '1h', 'delivery.backoff_cap' => '1h', 'delivery.window' => 1000 });
$pg->safe_psql('postgres', q{
    CREATE TABLE letters (id int PRIMARY KEY, owners text[], text text);
    SELECT clairon.watch('letters', 'USER', 'owners', ack_required => true, retry_limit => 2, backoff => 'FIXED')});

sub http
{
    my ($path, %claims) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(GET => $path, Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true, %claims));
}
sub trace { my ($id) = @_; return http("/v1/notifications/$id")->{json} }
sub events { my ($id, %wanted) = @_;
    return grep { my $event = $_; !grep { ($event->{$_} // '') ne $wanted{$_} } keys %wanted } @{ trace($id)->{events} } }
sub insert_letter { my ($id, @owners) = @_;
    $pg->safe_psql('postgres', "INSERT INTO letters VALUES ($id, '{" . join(',', @owners) . "}', 'number $id')");
    return }
sub letters_of { my ($client, $id) = @_; return grep { ($_->{payload}{after}{id} // '') eq $id } $client->notifications }
sub event_text { my ($event) = @_; return join ' ', grep { defined } @$event{qw(stage user attempt reason)} }

# One user acknowledges, the other user never does: each event is recorded with user and attempt.
my ($one, $two) = map { $relay->client($_) } 'u1', 'u "2"';
insert_letter(1, 'u1', '"u \"2\""', 'away');
$_->run_until('the notification arrives', sub { letters_of($_, 1) }) for $one, $two;
my $id = (letters_of($one, 1))[0]{metadata}{id};
$one->ack($id);
wait_until('the ack is stored', sub { events($id, stage => 'acked') });
for my $count (1 .. 3)
{
    $two->run_until('the next attempt arrives', sub { letters_of($two, 1) >= $count });
    $store->make_due($id, 'u "2"');
}
wait_until('the notification is exhausted for the other user', sub { events($id, stage => 'errored') });
my $trace = trace($id);
is($trace->{id}, $id, 'the trace contains the id');
is_deeply($trace->{notification}{payload}{after}{text}, 'number 1', 'the trace contains the notification');
my @events = @{ $trace->{events} };
is_deeply([ map { event_text($_) } @events[ 0, 1 ] ], [ 'committed', 'stored' ], 'the first events are commit and storage');
is($events[0]{at}, $trace->{notification}{metadata}{timestamp}, 'the first event has the commit time of the transaction');
my @first_events = map { event_text($_) } grep { ($_->{user} // '') eq 'u1' } @events;
is_deeply(\@first_events, [ 'sent u1 0', 'acked u1 0' ], 'the user who acknowledged has the events sent and acked');
my @second_events = map { event_text($_) } grep { ($_->{user} // '') eq 'u "2"' } @events;
is_deeply(\@second_events, [ map { "$_" } 'sent u "2" 0', 'retried u "2" 1', 'sent u "2" 1', 'retried u "2" 2', 'sent u "2" 2', 'errored u "2" 2 exhausted' ],
    'the trace lists each delivery and retry to the other user with its attempt, and the exhaustion');
is_deeply([ grep { ($_->{user} // '') eq 'away' } @events ], [], 'the trace has no events of the absent user');
is_deeply($trace->{waiting}, ['away'], 'the trace lists the absent user as waiting');
my @at = map { substr $_->{at}, 0, 23 } @events;
is_deeply(\@at, [ sort @at ], 'the events are in chronological order');
is(scalar(grep { !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(\d{3})?Z$/ } map { $_->{at} } @events), 0, 'all times are in ISO 8601 and UTC');
is(http("/v1/notifications/$id", publish => JSON::false)->{status}, 403, 'a trace requires the publish claim');

# The notification is trimmed from the stream, but its events remain.
my $away = $relay->client('away');
$away->run_until('the notification arrives', sub { letters_of($away, 1) });
$away->ack($id);
wait_until('the notification is no longer pending', sub { !@{ trace($id)->{waiting} } });
my $before = trace($id)->{events};
$store->execute('XTRIM', $_, 'MAXLEN', 0) for $store->keys('stream');
$trace = trace($id);
is($trace->{notification}, undef, 'a trimmed notification is not in the stream');
is(substr($trace->{events}[0]{at}, 0, 23), substr($before->[0]{at}, 0, 23), 'the commit time of a trimmed notification is derived from its id');
is_deeply([ map { event_text($_) } @{ $trace->{events} } ], [ map { event_text($_) } @$before ], 'the other events are unchanged');
$store->execute('DEL', map { $store->keys("$_:$id") } qw(trace acked));
is(http("/v1/notifications/$id")->{status}, 404, 'a notification without a trace returns 404');

# A pending notification keeps its events after trimming.
insert_letter(2, 'later');
wait_until('the notification is stored', sub { $store->pending == 1 });
my ($later) = map { @{ $store->execute('HKEYS', $_) } } $store->keys('pending');
is_deeply([ map { event_text($_) } @{ trace($later)->{events} } ], [ 'committed', 'stored' ], 'before the delivery, the events are commit and storage');
is_deeply(trace($later)->{waiting}, ['later'], 'before the delivery, the trace lists the user as waiting');

# With more events than the limit, the trace keeps its first events and the newest events.
my @many_users = map { "c$_" } 1 .. 520;
insert_letter(3, @many_users);
wait_until('the notification is stored', sub { $store->pending == 2 });
my ($large) = grep { $_ ne $later } map { @{ $store->execute('HKEYS', $_) } } $store->keys('pending');
for my $user (@many_users)
{
    my $response = Clairon::Test::RawSocket->new($relay)->request(GET => '/v1/poll?wait=0', Authorization => 'Bearer ' . token(sub => $user));
    $response->{status} == 200 or fail("$user polls successfully"), last;
    my $ack = Clairon::Test::RawSocket->new($relay);
    my $body = JSON::encode_json({ ids => [$large] });
    $ack->write("POST /v1/ack HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => $user) . "\r\nContent-Length: " . length($body) . "\r\n\r\n$body");
    $ack->read_response->{status} == 204 or fail("$user acks successfully"), last;
}
wait_until('all users have acknowledged', sub { $store->pending == 1 });
my @kept = events($large);
is($store->execute('LLEN', $store->of($large, "trace:$large")), 512, 'the trace is limited');
is_deeply([ map { event_text($_) } @kept[ 0, 1 ] ], [ 'committed', 'stored' ],
    'a limited trace keeps its first events');
is(event_text($kept[-1]), 'acked c520 0', 'a limited trace keeps the newest events');
is($relay->metric('clairon_store_errors_total'), 0, 'the store returns no errors');

done_testing();
