# Tests that, with four shards, acks, retries, groups, the error log, traces and API calls use the correct shard, from
# any relay.
use strict;
use warnings;

use Clairon::Test qw(wait_until token of_mark);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $SHARDS = 4;
my $pg     = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE team (id int PRIMARY KEY, team text);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1'), ('TEAM', 't1', 'u2');
    SELECT clairon.watch('team', 'TEAM', 'team', ack_required => true)});
my $store  = Clairon::Test::store();
my @relays = map { Clairon::Test::relay($pg, $store, roles => $_, conf => { 'store.shards' => $SHARDS,
    'delivery.ack_timeout' => '1s', 'delivery.backoff_base' => '1s', 'gate.console' => 'on' }) } 'feed,gate', 'gate';

sub sum { my ($count_in) = @_; my $sum = 0; $sum += $count_in->($_) for 0 .. $SHARDS - 1; return $sum }
sub pending { return sum(sub { $store->pending("clairon:{$_[0]}:stream") }) }
sub shards_with { my ($key) = @_; return grep { $store->execute('EXISTS', "clairon:{$_}:$key") } 0 .. $SHARDS - 1 }
sub notify { my ($audience, $targets, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{\"mark\": \"$mark\"}',"
        . join(', ', ' ack_required => true', $more || ()) . ')') }
sub clairon { return $relays[0]->run(@_) }
sub console
{
    my ($method, $path, $body, $status) = @_;
    my $response = Clairon::Test::RawSocket->new($relays[1])->request($method, "/v1/console/$path", ':body' => $body,
        Authorization => 'Bearer ' . token(sub => 'root', admin => JSON::true));
    is($response->{status}, $status // 200, "the console replies to $method $path");
    return $response->{json};
}

# Notifications for one user: all data is in the user's shard.
my @users  = map { "u$_" } 1 .. 8;
my %client = map { $users[$_] => $relays[ $_ % 2 ]->client($users[$_]) } 0 .. $#users;
my %mine   = map { $_ => notify('USER', $_, 'own', 'retry_limit => 50') } @users;
$client{$_}->run_until('the user\'s own notification arrives', sub { of_mark($client{$_}, 'own') }) for @users;
my %shard_of = map { $_ => join ' ', shards_with("ack:$mine{$_}") } @users;
is_deeply([ grep { $shard_of{$_} !~ /^[123]$/ } @users ], [], 'a notification with ack_required for one user is in one shard, never in the first shard');
is(scalar(keys %{ { reverse %shard_of } }), 3, 'users are distributed over the other shards');
is_deeply([ map { shards_with("pending_list:$_") } @users ], [ @shard_of{@users} ], 'a pending list is in the shard of its user');
$client{$_}->run_until('a retry arrives', sub { of_mark($client{$_}, 'own') > 1 }) for @users;
pass('unacknowledged notifications are retried');
$client{$_}->ack($mine{$_}) for @users;
wait_until('all acks are stored', sub { pending() == 0 });
is_deeply([ map { shards_with("ack:$_") } values %mine ], [], 'acks are stored in the shard of their notification');

# Notifications for groups, several users, and ALL are in the first shard.
$pg->safe_psql('postgres', q{INSERT INTO team VALUES (1, 't1')});
my $several = notify('USER', 'u1,u5', 'several');
my $all     = notify('ALL', '', 'all', "ttl => '1 hour'");
$client{$_}->run_until('the row of the group arrives', sub { grep { ($_->{metadata}{source} // '') eq 'team' } $client{$_}->notifications }) for qw(u1 u2);
$client{$_}->run_until('the notification for several users arrives', sub { of_mark($client{$_}, 'several') }) for qw(u1 u5);
$client{$_}->run_until('all notifications arrive', sub { of_mark($client{$_}, 'all') }) for @users;
is_deeply([ map { shards_with("ack:$_") } $several, $all ], [ 0, 0 ], 'notifications for more than one user are in the first shard');
my ($team) = map { $_->{metadata}{id} } grep { ($_->{metadata}{source} // '') eq 'team' } $client{u1}->notifications;
$client{$_}->ack($team) for qw(u1 u2);
$client{$_}->ack($several) for qw(u1 u5);
$client{$_}->ack($all) for @users;
wait_until('all acks are stored', sub { $store->pending('clairon:{0}:stream') == 1 });
is_deeply([ map { shards_with("ack:$_") } $team, $several ], [], 'acks of shared notifications are stored in the first shard');

# Membership changes apply to all shards.
$pg->safe_psql('postgres', q{
    BEGIN; DELETE FROM clairon.member WHERE user_id = 'u2'; INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u3'); COMMIT;
    INSERT INTO team VALUES (2, 't1')});
$client{u3}->run_until('the row arrives for the new member', sub { grep { ($_->{payload}{after}{id} // 0) == 2 } $client{u3}->notifications });
my ($second) = map { $_->{metadata}{id} } grep { ($_->{payload}{after}{id} // 0) == 2 } $client{u3}->notifications;
is_deeply([ sort @{ $store->execute('HKEYS', "clairon:{0}:ack:$second") } ], [qw(u1 u3)], 'a membership change applies from its commit');
$client{$_}->ack($second) for qw(u1 u3);
my $later = notify('USER', 'u2,u3', 'later');
$client{$_}->run_until('a later notification of the first shard arrives', sub { of_mark($client{$_}, 'later') }) for qw(u2 u3);
$client{$_}->ack($later) for qw(u2 u3);
ok(!(grep { ($_->{payload}{after}{id} // 0) == 2 } $client{u2}->notifications), 'a former member receives no notification');

# A nack is sent to a relay that does not read the shard of the notification.
my $nacked = notify('USER', 'u4', 'nacked', 'retry_limit => 5');
$client{u4}->run_until('the notification arrives', sub { of_mark($client{u4}, 'nacked') });
$client{u4}->send({ t => 'nack', ids => [$nacked], delay => 100 });
wait_until('the nack is stored', sub { grep { /^nacked/ } map { @{ $store->execute('LRANGE', "clairon:{$_}:trace:$nacked", 0, -1) } } 1 .. 3 });
$client{u4}->run_until('a retry arrives', sub { of_mark($client{u4}, 'nacked') > 1 });
$client{u4}->ack($nacked);
pass('a nack defers a notification in any shard');

# Each shard has an error log, and commands read all error logs as one; redriven notifications return to their shard.
sub logged { return sum(sub { $store->execute('XLEN', "clairon:{$_[0]}:errors") }) }
my %lost = map { $_ => notify('USER', $_, 'lost', q{retry_limit => 0, ack_timeout => '1 hour'}) } qw(u1 u2 u3);
$lost{both} = notify('USER', 'u5,u6', 'lost', q{retry_limit => 0, ack_timeout => '1 hour'});
# Waits until the deliveries are reported, then ends their ack timeouts.
sub exhaust
{
    for my $name (@_)
    {
        my ($id, @pairs) = ($lost{$name}, map { "$lost{$name}:$_" } $name eq 'both' ? qw(u5 u6) : $name);
        my $due = wait_until('the notification is stored', sub { my ($shard) = shards_with("ack:$id"); defined $shard && "clairon:{$shard}:due" });
        wait_until('all deliveries are reported', sub { !grep { !defined $store->execute('ZSCORE', $due, $_) } @pairs });
        $store->execute('ZADD', $due, map { (1, $_) } @pairs);
    }
    return;
}
exhaust(keys %lost);
wait_until('the notifications are exhausted', sub { logged() == 4 });
is($store->execute('EXISTS', 'clairon:errors'), 0, 'no error log exists without a shard number');
is_deeply([ map { my $mark = $_; grep { my $k = $_; grep { $_->{id} eq $lost{$mark} } $store->entries("clairon:{$k}:errors") } 0 .. $SHARDS - 1 } qw(u1 u2 u3 both) ],
    [ @shard_of{qw(u1 u2 u3)}, 0 ], 'a dead letter is in the error log of its shard');
my ($code, $out) = clairon('errors', 'list', '--json', '--reason', 'exhausted');
my @listed = map { JSON::decode_json($_) } split /\n/, $out;
is_deeply([ sort map { $_->{id} } @listed ], [ sort values %lost ], 'the error logs of all shards are listed');
sub by_age { my @parts = map { [ split /-/, $_->{entry} ] } @_; return $parts[0][0] <=> $parts[1][0] || $parts[0][1] <=> $parts[1][1] }
is_deeply([ map { $_->{id} } @listed ], [ map { $_->{id} } sort { by_age($a, $b) } @listed ], 'the entries of all error logs are listed oldest first');
is_deeply([ map { $_->{entry} } @{ console(GET => 'errors')->{errors} } ], [ map { $_->{entry} } reverse @listed ],
    'the console lists the entries newest first');
is_deeply([ map { $_->{entry} } @{ console(GET => "errors?before=$listed[2]{entry}")->{errors} } ], [ map { $_->{entry} } @listed[ 1, 0 ] ], 'a page starts before the given entry, regardless of its shard');
my %had = map { $_ => scalar of_mark($client{$_}, 'lost') } qw(u1 u2 u3 u5);
($code, $out) = clairon('errors', 'redrive', '--reason', 'exhausted');
is($out, "redrove 4 entries for 5 users\n", 'redrive reports the number of entries and users');
$client{$_}->run_until('a redriven notification arrives', sub { of_mark($client{$_}, 'lost') > $had{$_} }) for keys %had;
is_deeply([ map { shards_with("ack:$lost{$_}") } qw(u1 u2 u3 both) ], [ @shard_of{qw(u1 u2 u3)}, 0 ], 'a redriven notification is in the same shard');
exhaust(keys %lost);
wait_until('the notifications are exhausted again', sub { logged() == 4 });
console(POST => 'redrive', JSON::encode_json({ entry => $listed[0]{entry} }), 404);
@listed = map { JSON::decode_json($_) } split /\n/, (clairon('errors', 'list', '--json'))[1];
console(POST => 'drop', JSON::encode_json({ entry => $_->{entry} })) for @listed[ 1 .. $#listed ];
is_deeply([ map { $_->{entry} } @{ console(GET => 'errors')->{errors} } ], [ $listed[0]{entry} ], 'the console drops an entry of any shard');
is(console(POST => 'redrive', JSON::encode_json({ entry => $listed[0]{entry} }))->{users} > 0, 1, 'the console redrives an entry of any shard');
is(logged(), 0, 'a redriven entry is deleted');
exhaust(grep { $lost{$_} eq $listed[0]{id} } keys %lost);
wait_until('the notification is exhausted again', sub { logged() == 1 });
($code, $out) = clairon('errors', 'drop', '--all');
like($out, qr/^dropped \d+ entr(?:y|ies)$/, 'drop reports the number of entries');
is(logged(), 0, 'the error logs are empty after the drop');

# Traces are found by command and over HTTP.
sub http
{
    my ($relay, $method, $path, %options) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, ':body' => $options{body},
        Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true), %{ $options{headers} // {} });
}
for my $id ($mine{u1}, $mine{u2}, $team)
{
    ($code, $out) = clairon('trace', $id);
    like($out, qr/stored.*sent.*acked/s, 'a trace is found in any shard');
    my $response = http($relays[1], GET => "/v1/notifications/$id");
    is($response->{status}, 200, 'the trace is served over HTTP');
    is((grep { $_->{stage} eq 'acked' } @{ $response->{json}{events} }) > 0, 1, 'the trace contains the acks');
}
($code) = clairon('trace', '01234567-89ab-8def-8123-456789abcdef');
is($code, 1, 'an unknown id has no trace');
is(http($relays[1], GET => '/v1/notifications/01234567-89ab-8def-8123-456789abcdef')->{status}, 404, 'an unknown id returns 404 over HTTP');

# A published notification for one user is in the user's shard, a notification with a key is in the first shard; each
# notification is stored once.
sub body { my ($user) = @_;
    return JSON::encode_json({ payload => { mark => 'api' }, routing => { audience => { type => 'USER', targets => [$user] } } }) }
my $plain = http($relays[0], POST => '/v1/notifications', body => body('u7'));
is($plain->{status}, 201, 'an API call is accepted');
my %key = (headers => { 'Idempotency-Key' => 'k1' }, body => body('u7'));
my ($first, $again) = map { http($_, POST => '/v1/notifications', %key) } @relays;
is_deeply([ map { $_->{status} } $first, $again ], [ 201, 200 ], 'a request with a key is stored once, regardless of the relay');
is($again->{json}{id}, $first->{json}{id}, 'the repeat returns the first id');
$client{u7}->run_until('both notifications arrive', sub { of_mark($client{u7}, 'api') >= 2 });
sub shard_with { my ($id) = @_; return grep { my $k = $_; grep { $_->{id} eq $id } $store->entries("clairon:{$k}:stream") } 0 .. $SHARDS - 1 }
is_deeply([ map { shard_with($_->{json}{id}) } $plain, $first ], [ $shard_of{u7}, 0 ], 'each notification is in its shard');
is(scalar of_mark($client{u7}, 'api'), 2, 'each notification is delivered once');

# A notification with a key for one user is pending in the first shard, where its ack is stored.
my $sure = JSON::encode_json({ payload => { mark => 'sure' }, routing => { audience => { type => 'USER', targets => ['u7'] }, retry => { ack_required => JSON::true } } });
$sure = http($relays[0], POST => '/v1/notifications', body => $sure, headers => { 'Idempotency-Key' => 'k2' })->{json}{id};
$client{u7}->run_until('the notification arrives', sub { of_mark($client{u7}, 'sure') });
is_deeply([ shards_with("ack:$sure") ], [0], 'the shared notification is pending in the first shard');
my $ack = http($relays[1], POST => '/v1/ack', body => { ids => [$sure] }, headers => { Authorization => 'Bearer ' . token(sub => 'u7') });
is($ack->{status}, 204, 'a relay that did not deliver the notification accepts its ack');
wait_until('the notification is complete', sub { !shards_with("ack:$sure") });
pass('the ack completes a notification that another relay delivered');

# Metrics and the doctor cover all shards.
my $overview = http($relays[0], GET => '/console/api/overview');
wait_until('the metrics are updated', sub { ($relays[0]->metric('clairon_store_stream_entries') // 0) == sum(sub { $store->execute('XLEN', "clairon:{$_[0]}:stream") }) });
pass('metrics count all shards');
my $doctor = JSON::decode_json((clairon('doctor', '--json'))[1]);
is_deeply([ map { "$_->{ok} $_->{detail}" } grep { $_->{check} eq 'store.shards' } @{ $doctor->{checks} } ], ['1 4'], 'the doctor confirms the number of shards');
$doctor = JSON::decode_json((clairon('doctor', '--json', '--store.shards=2'))[1]);
like((grep { $_->{check} eq 'store.shards' } @{ $doctor->{checks} })[0]{detail}, qr/created with \[store\] shards = 4, not 2/, 'the doctor reports a wrong number of shards');
($code, undef, my $err) = clairon('errors', 'list', '--store.shards=2');
is($code, 1, 'commands reject a wrong number of shards');
like($err, qr/created with \[store\] shards = 4, not 2/, 'the error contains both numbers of shards');

done_testing();
