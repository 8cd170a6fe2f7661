# Tests that `clairon why` and GET /v1/notifications/<id>/why explain each outcome of a notification for a user, name what is
# not known, and that a limited right to publish reads only what it could publish.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark token);
use Clairon::Test::RawSocket;
use IO::Select;
use JSON ();
use Test::More;

my $UNKNOWN = '01890000-0000-7000-8000-000000000000';

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'feed.topic_prefix' => 'app', 'delivery.ack_timeout' => '1h', 'delivery.window' => 100 });
$pg->safe_psql('postgres', q{
    CREATE TABLE letters (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('letters', 'USER', 'owner', name => 'post', ack_required => true);
    CREATE TABLE parcels (id int PRIMARY KEY, owner text, a text, b text);
    SELECT clairon.watch('parcels', 'USER', 'owner');
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'early')});

sub notify { my ($audience, $targets, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{\"mark\": \"$mark\"}', topic => 'app.$mark'"
        . ($more ? ", $more" : '') . ')') }
sub notify_acked { my ($audience, $targets, $mark, $more) = @_; return notify($audience, $targets, $mark, 'ack_required => true' . ($more ? ", $more" : '')) }

sub http
{
    my ($path, %claims) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(GET => $path, Authorization => 'Bearer ' . token(sub => 'api', %claims));
}
sub why { my ($id, $user, %claims) = @_; return http("/v1/notifications/$id/why?user=$user", admin => JSON::true, %claims) }
sub explain { my ($id, $user) = @_; return why($id, $user)->{json} // {} }

# Waits for the outcome, and compares what every explanation contains.
sub is_outcome
{
    my ($id, $user, $outcome, $addressed, $words) = @_;
    my $json;
    my $is_reached = eval { wait_until("the outcome is $outcome", sub { $json = explain($id, $user); ($json->{outcome} // '') eq $outcome }); 1 };
    ok($is_reached, "$user: $outcome") or diag(explain_text($json));
    is_deeply($json->{addressed}, $addressed, "$user: addressed") or diag(explain_text($json));
    like($json->{explanation}, $words, "$user: $outcome is explained");
    return $json;
}
sub explain_text { my ($json) = @_; return JSON->new->canonical->encode($json // {}) }
sub connection { my ($client) = @_; return $client->wait_for('connected')->{conn} }
sub receive { my ($client, $mark) = @_; return $client->run_until("$mark arrives", sub { of_mark($client, $mark) }) }
sub trim { $store->execute('XTRIM', $_, 'MAXLEN', 0) for $store->keys('stream'); return }

# Without acknowledgements.
my $plain = notify('USER', 'u1', 'plain');
wait_until('it is stored', sub { $store->stored == 1 });
is_outcome($plain, 'u2', 'not_addressed', JSON::false, qr/not one of its targets.*Audience: USER u1\. Topic: app\.plain\./);
is_outcome($plain, 'u1', 'unknown', JSON::true, qr/needs no acknowledgement, and the deliveries of such notifications are not recorded/);
my $group = notify('TEAM', 't1', 'group');
is_outcome($group, 'early', 'unknown', undef, qr/not known.*Whether early was a member at the commit is not known.*early is a member now/);
is(explain($group, 'late')->{is_member}, JSON::false, 'it contains the present membership');

# Pending, delivered, acknowledged.
my $letter = notify_acked('USER', 'u1,u3', 'letter');
my $json = is_outcome($letter, 'u1', 'pending', JSON::true, qr/pending for u1, and was not delivered.*u1 is not connected now/);
is_deeply([ @$json{qw(delivered acked_at in_error_log relays)} ], [ [], undef, JSON::false, 0 ], 'a pending pair has no delivery');
is_outcome($letter, 'u2', 'not_addressed', JSON::false, qr/not one of its targets.*USER \(2 targets\)/);
my $u1 = $relay->client('u1');
receive($u1, 'letter');
$json = is_outcome($letter, 'u1', 'delivered', JSON::true, qr/delivered to u1, and is not acknowledged, after 1 delivery, the last one at 20/);
is_deeply([ map { $_->{conn} } @{ $json->{delivered} } ], [ connection($u1) ], 'a delivery names its connection');
like($json->{delivered}[0]{at}, qr/^20\d\d-\d\d-\d\dT\S+Z$/, 'and its time');
is($json->{acked_at}, undef, 'it is not acknowledged');
$u1->ack($letter);
$json = is_outcome($letter, 'u1', 'acked', JSON::true, qr/^u1 acknowledged it at 20.*connected to 1 relay now/);
like($json->{acked_at}, qr/^20\S+Z$/, 'it contains the time of the acknowledgement');
is_outcome($letter, 'u3', 'pending', JSON::true, qr/pending for u3/);
my $u3 = $relay->client('u3');
receive($u3, 'letter');
$u3->ack($letter);
is_outcome($letter, 'u3', 'acked', JSON::true, qr/^u3 acknowledged it/);
is_outcome($letter, 'u1', 'acked', JSON::true, qr/^u1 acknowledged it/);
is_outcome($letter, 'u2', 'not_addressed', JSON::false, qr/not one of its targets/);
$pg->safe_psql('postgres', q{INSERT INTO letters VALUES (1, 'u1')});
my $row = $u1->wait_row(1)->{n}{metadata}{id};
like(is_outcome($row, 'u1', 'delivered', JSON::true, qr/Rule: post\. Committed at 20/)->{topic}, qr/letters$/, 'it contains the topic of a row');
is(explain($row, 'u1')->{rule}, 'post', 'and its rule');

# Expired, exhausted, dropped.
my $expired = notify_acked('USER', 'away', 'expired', "ttl => '1 hour'");
is_outcome($expired, 'away', 'pending', JSON::true, qr/pending/);
$store->execute('ZADD', $store->of($expired, 'due'), 1, "$expired:");
$json = is_outcome($expired, 'away', 'expired', JSON::true, qr/expired for away at 20.*no delivery to a connection is recorded.*It is in the error log/);
is($json->{in_error_log}, JSON::true, 'it is in the error log');
my $exhausted = notify_acked('USER', 'u1', 'exhausted', 'retry_limit => 1');
receive($u1, 'exhausted');
$store->make_due($exhausted, 'u1');
$u1->run_until('the retry arrives', sub { 2 == (() = of_mark($u1, 'exhausted')) });
wait_until('both deliveries are reported', sub { 2 == @{ explain($exhausted, 'u1')->{delivered} } });
$store->make_due($exhausted, 'u1');
$json = is_outcome($exhausted, 'u1', 'exhausted', JSON::true, qr/retries for u1 were exhausted at 20.*after 2 deliveries/);
is($json->{in_error_log}, JSON::true, 'it is in the error log');
is(($relay->run('errors', 'drop', '--id', $exhausted))[0], 0, 'the entry of the error log is dropped');
is(explain($exhausted, 'u1')->{in_error_log}, JSON::false, 'then it is not in the error log any more');
my $dropped = notify_acked('USER', 'away', 'dropped');
is_outcome($dropped, 'away', 'pending', JSON::true, qr/pending/);
is(($relay->run('drop', $dropped))[0], 0, 'a pending notification is dropped');
is_outcome($dropped, 'away', 'dropped', JSON::true, qr/^An operator dropped it for away at 20/);

# Memberships at the commit.
my $team = notify_acked('TEAM', 't1', 'team');
is_outcome($team, 'early', 'pending', JSON::true, qr/pending for early.*TEAM t1.*early is a member now/);
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'late'); DELETE FROM clairon.member WHERE user_id = 'early'});
wait_until('the memberships are stored', sub { explain($team, 'late')->{is_member} && !explain($team, 'early')->{is_member} });
is_outcome($team, 'late', 'not_member', JSON::false, qr/late was not a member of the audience at the commit.*late is a member now.*token names the group/);
is_outcome($team, 'early', 'pending', JSON::true, qr/early is not a member now/);
my $open = notify_acked('TEAM', 'empty', 'open');
is_outcome($open, 'late', 'unknown', undef, qr/Whether late was a member at the commit is not known/);

# An erased user: nothing is concluded from the missing pair.
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't2', 'erased'), ('TEAM', 't2', 'erased2'), ('TEAM', 't2', 'stays')});
wait_until('the members are stored', sub { 3 == @{ $store->execute('SMEMBERS', $store->shared('members:TEAM:t2')) } });
my $erased  = notify_acked('TEAM', 't2', 'erased');
my @erasing = map { $relay->client($_) } qw(erased erased2 stays);
receive($_, 'erased') for @erasing;
$erasing[0]->ack($erased);
is_outcome($erased, 'erased', 'acked', JSON::true, qr/acknowledged/);
for my $user ('erased', 'erased2')
{
    is(($relay->run('forget', $user))[0], 0, "$user is removed");
    is_outcome($erased, $user, 'unknown', undef, qr/not known/);
}
is_outcome($erased, 'stays', 'delivered', JSON::true, qr/delivered to stays/);

# Topics.
my $narrow = notify_acked('USER', 'narrow', 'narrow1');
my $other  = $relay->client('narrow', topics => ['app.other']);
$json = is_outcome($narrow, 'narrow', 'not_subscribed', JSON::true, qr/connection \S+ was not subscribed to its topic at 20/);
is_deeply([ map { $_->{conn} } @{ $json->{unsubscribed} } ], [ connection($other) ], 'it names the connection once');
my $live = notify_acked('USER', 'narrow', 'narrow2');
is_outcome($live, 'narrow', 'not_subscribed', JSON::true, qr/not subscribed/);
$other->send({ t => 'subscribe', r => 5, topics => ['app.narrow*'] });
receive($other, 'narrow2');
is_outcome($live, 'narrow', 'delivered', JSON::true, qr/delivered to narrow/);
is(scalar @{ explain($narrow, 'narrow')->{unsubscribed} }, 1, 'a connection reports a topic once');

# A large notification, whose header no script reads.
my $big = $relay->client('big');
$pg->safe_psql('postgres', q{INSERT INTO parcels VALUES (1, 'big', repeat('x', 900000), repeat('y', 900000))});
my $large = $big->wait_row(1)->{n}{metadata}{id};
is_outcome($large, 'big', 'unknown', JSON::true, qr/Audience: USER big\. Topic: app\.parcels/);
is_outcome($large, 'u2', 'not_addressed', JSON::false, qr/Audience: USER big/);

# The tokens that may read traces and explanations.
for my $what ('', '/why?user=u1')
{
    my $status = sub { my ($id, %claims) = @_; return http("/v1/notifications/$id$what", %claims)->{status} };
    is($status->($plain), 403, "$what: a token without the claims is rejected");
    is($status->($plain, $_ => JSON::true), 200, "$what: $_") for qw(publish admin);
    is($status->($UNKNOWN, publish => JSON::true), 404, "$what: unknown id");
    is($status->($plain, publish => { audiences => ['USER'], topics => ['app.p*'] }), 200, "$what: audience and topic allowed");
    is($status->($plain, publish => { audiences => ['TEAM'] }), 403, "$what: audience not allowed");
    is($status->($group, publish => { audiences => ['USER'] }), 403, "$what: audience of a group not allowed");
    is($status->($plain, publish => { topics => ['app.other'] }), 403, "$what: topic not allowed");
    is($status->($large, publish => { topics => ['app.other'] }), 403, "$what: topic of a large notification not allowed");
    is($status->($plain, publish => { topics => [] }), 403, "$what: an empty list allows nothing");
    is($status->($plain, publish => { topics => ['app.other'] }, admin => JSON::true), 200, "$what: admin needs no such right");
}
is_deeply([ map { why($plain, 'u1', admin => undef, publish => $_)->{json}{relays} } JSON::true, { audiences => ['USER'] } ], [ 1, undef ],
    'a limited token reads no connections of users');
is(why($plain, '%3F')->{status}, 200, 'a user may be named ?');
is(http("/v1/notifications/$plain/why?user=", publish => JSON::true)->{status}, 400, 'a user is required');
is(http("/v1/notifications/$plain/why", publish => JSON::true)->{status}, 400, 'also without the argument');
my ($sent) = grep { $_->{stage} eq 'sent' } @{ http("/v1/notifications/$letter", publish => JSON::true)->{json}{events} };
is($sent->{conn}, connection($u1), 'the trace names the connection of a delivery');

# The command.
my ($code, $out, $err) = $relay->run('why', $letter, 'u1');
is_deeply([ $code, $err ], [ 0, '' ], 'clairon why exits with 0');
is($out, explain($letter, 'u1')->{explanation} . "\n", 'it prints the explanation');
($code, $out) = $relay->run('why', '--json', uc $letter, 'u1');
is_deeply(JSON::decode_json($out), explain($letter, 'u1'), '--json prints the JSON of the endpoint');
($code, $out, $err) = $relay->run('why', $UNKNOWN, 'u1');
is_deeply([ $code, $out ], [ 1, '' ], 'an unknown id: status 1');
like($err, qr/no notification in the store has id $UNKNOWN/, 'with the reason');
is(($relay->run('why', @$_))[0], 2, "wrong usage: @$_") for [], [$letter], [ 'x', 'u1' ], [ $letter, '' ];

# Gaps: a plain notification that is not in the store any more, a pending one without its stream entry, and one whose audience
# is known by tokens only.
my %token = (groups => { ROLE => ['r'] });
my ($gone, $reads) = map { $relay->client($_, %token) } qw(gone reads);
connection($_) for $gone, $reads;
my $first = notify('USER', 'gone', 'first');
receive($gone, 'first');
my $pos = $gone->pos;
$gone->close;
my $lost    = notify('USER', 'gone', 'lost');
my $waiting = notify_acked('USER', 'gone', 'waiting');
my $role    = notify_acked('ROLE', 'r', 'role');
receive($reads, 'role');
is_outcome($role, 'reads', 'delivered', JSON::true, qr/delivered to reads/);
is_outcome($waiting, 'gone', 'pending', JSON::true, qr/pending/);
trim();
is(why($lost, 'gone')->{status}, 404, 'a trimmed notification without a gap is not known');
$relay->restart;    # its replay buffer has them
my $back = $relay->client('gone', pos => $pos, %token);
my $gap = $back->wait_for('gap');
is($gap->{why}, 'trimmed', 'the client receives a gap');
for my $of ([ $lost, undef ], [ $waiting, JSON::true ], [ $role, undef ])
{
    my ($id, $addressed) = @$of;
    $json = is_outcome($id, 'gone', 'gap', $addressed, qr/^At 20\S+ connection \S+ of gone received a gap \(trimmed\) that covers it/);
    is_deeply([ @{ $json->{gap} }{qw(conn why)} ], [ connection($back), 'trimmed' ], 'it contains the gap');
}
is(why($lost, 'u1')->{status}, 404, 'another user has no gap');
is(why($lost, 'gone', admin => undef, publish => { audiences => ['USER'] })->{status}, 403, 'a limited token reads nothing about an unknown audience');
is(why($UNKNOWN, 'gone')->{status}, 404, 'an id of another time is unknown');
is(($relay->run('forget', 'gone'))[0], 0, 'the user is removed');
is_deeply([ grep { /gaps/ } @{ $store->execute('KEYS', '*') } ], [], 'with the gaps');
is_outcome($role, 'reads', 'delivered', JSON::true, qr/Its audience is not known any more/);
# The store searches for an unknown id, so few requests may do that at the same time.
$store->pause;
my @reading = map { Clairon::Test::RawSocket->new($relay) } 1 .. 5;
$_->begin(GET => "/v1/notifications/$UNKNOWN/why?user=u1", Authorization => 'Bearer ' . token(sub => 'api', admin => JSON::true)) for @reading;
is(scalar(IO::Select->new(map { $_->{link} } @reading)->can_read($Clairon::Test::SECONDS)), 1, 'one of five requests is not passed to the store');
kill CONT => $store->pid;
is_deeply([ sort map { $_->read_response->{status} } @reading ], [ (404) x 4, 503 ], 'and is rejected; the others are answered');
is(why($UNKNOWN, 'u1')->{status}, 404, 'and so is the next');
is($relay->metric('clairon_store_errors_total'), 0, 'the store returns no errors');

done_testing();
