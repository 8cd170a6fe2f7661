# Tests for which users a notification is pending, and how long: open-ended audiences, expiration, absent users, and two
# relays, one of which is killed.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my %quick = ('delivery.ack_timeout' => '300ms', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '2s');
my @relays = map { Clairon::Test::relay($pg, $store, conf => {%quick}) } 1 .. 2;

sub notify { my ($audience, $targets, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{\"mark\": \"$mark\"}',"
        . join(', ', ' ack_required => true', $more || ()) . ')') }
sub errors { my ($id) = @_; return map { { %$_, users => JSON::decode_json($_->{users}) } }
    grep { !$id || $_->{id} eq $id } $store->errors }
sub state_of { my ($id) = @_; return { @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) } } }
sub entries_of { my ($id) = @_; return grep { $_->{id} eq $id } $store->entries }
sub marks { map { $_->{payload}{mark} // () } @_ }

# Each user who receives a notification for ALL must acknowledge it until it expires.
my ($one, $two) = ($relays[0]->client('u1'), $relays[1]->client('u2'));
my $id = notify('ALL', '', 'open', "ttl => '1 hour', retry_limit => 1000");
$_->run_until('the open-ended notification arrives', sub { of_mark($one, 'open') && of_mark($two, 'open') }) for $one, $two;
wait_until('the notification is pending for both users', sub { keys %{ state_of($id) } == 2 });
is_deeply([ values %{ state_of($id) } ], [ 0, 0 ], 'the notification is pending for each recipient');
$one->ack($id);
wait_until('the ack of one user is stored', sub { state_of($id)->{u1} > 1 });
is($store->pending, 1, 'the notification stays pending for the other user');
# A retry that was created before the ack may still arrive. It is stored before the next notification.
notify('USER', 'u1', 'after the ack', '');
$one->run_until('the next notification arrives', sub { of_mark($one, 'after the ack') });
$one->ack(map { $_->{metadata}{id} } of_mark($one, 'after the ack'));
my ($one_before, $two_before) = (scalar of_mark($one, 'open'), scalar of_mark($two, 'open'));
$two->run_until('more retries arrive', sub { of_mark($two, 'open') > $two_before + 1 });
my $late = $relays[0]->client('u3');
notify('USER', 'u1,u3', 'mark', '');
for my $client ($one, $late)
{
    $client->run_until('a later notification arrives', sub { of_mark($client, 'mark') });
    $client->ack(map { $_->{metadata}{id} } of_mark($client, 'mark'));
}
is(scalar(of_mark($one, 'open')), $one_before, 'a user who acknowledged receives no retry');
is(scalar(of_mark($late, 'open')), 0, 'a user who connects later does not receive the notification');
wait_until('all other notifications are acknowledged', sub { $store->pending == 1 });
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:");
wait_until('the notification expires', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
is_deeply([ map { [ $_->{reason}, $_->{users} ] } errors($id) ], [ [ 'expired', ['u2'] ] ],
    'at expiration, the error log lists the users without an ack');
is($store->execute('EXISTS', $store->of($id, "ack:$id"), $store->of($id, "retries:$id"), $store->keys('due')), 0,
    'no other state of the notification remains');

$id = notify('ALL', '', 'all ack', '');
for my $client ($one, $two, $late)
{
    $client->run_until('the notification arrives', sub { of_mark($client, 'all ack') });
    $client->ack($id);
}
wait_until('three acks are stored', sub { 3 == grep { $_ > 1 } values %{ state_of($id) } });
cmp_ok($store->execute('ZSCORE', $store->of($id, 'due'), "$id:"), '>', 1000 * (time + 23 * 3600), 'without a ttl, the notification expires after a day');
$store->execute('ZADD', $store->of($id, 'due'), 1.5, "$id:");    # expired, and the wait for delivery reports has ended
wait_until('the notification expires', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
is(scalar(errors($id)), 0, 'a notification that all recipients acknowledged has no error log entry');

# The group is known only from tokens.
my $guest = $relays[1]->client('g1', groups => { CLUB => ['c1'] });
$id = notify('CLUB', 'c1', 'club', '');
$guest->run_until('the notification arrives', sub { of_mark($guest, 'club') });
wait_until('the notification is pending for the recipient', sub { defined state_of($id)->{g1} });
is_deeply([ keys %{ state_of($id) } ], ['g1'],
    'the notification for a group without members in the database is pending for its recipients');
$guest->ack($id);
wait_until('the notification is acknowledged', sub { state_of($id)->{g1} > 1 });

# Users in the database: the notification expires, and one of its users never connects.
$id = notify('USER', 'u1,u2,nobody', 'short', "ttl => '1 hour', retry_limit => 1000");
$_->run_until('the notification arrives', sub { of_mark($one, 'short') && of_mark($two, 'short') }) for $one, $two;
$one->ack($id);
wait_until('one ack is stored', sub { state_of($id)->{u1} > 1 });
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:");
wait_until('the notification expires', sub { errors($id) });
is_deeply([ map { [ $_->{reason}, [ sort @{ $_->{users} } ] ] } errors($id) ], [ [ 'expired', [ 'nobody', 'u2' ] ] ],
    'at expiration, the error log also lists a user who never connected');
is($store->execute('EXISTS', map { $store->keys("pending_list:$_") } qw(nobody u2)), 0,
    'the notification is no longer pending for its users');

# Expired notifications are not delivered, but announced to their users as a gap.
my $pos = $one->pos;
$one->close;
$id = notify('USER', 'u1', 'too late', "ttl => '1 millisecond'");
my $kept = notify('USER', 'u1', 'in time', "ttl => '1 hour'");
wait_until('the notification expires', sub { errors($id) });
$one = $relays[0]->client('u1', pos => $pos);
$one->run_until('the other notification arrives', sub { of_mark($one, 'in time') });
$one->ack($kept);
is(scalar(of_mark($one, 'too late')), 0, 'a notification that expired while the user was disconnected is not delivered');
is($one->wait_for('gap')->{why}, 'expired', 'a missed notification that expired causes a gap');

# Deliveries to absent users do not count as attempts.
$id = notify('USER', 'absent', 'waits', 'retry_limit => 1');
my $other = notify('USER', 'u2', 'beside', 'retry_limit => 0');
wait_until('the other notification is exhausted', sub { errors($other) });
is($store->execute('ZSCORE', $store->of($id, 'due'), "$id:absent"), undef, 'an undelivered notification is not due');
my $absent = $relays[1]->client('absent');
$absent->run_until('the notification and its retry arrive', sub { of_mark($absent, 'waits') == 2 });
is_deeply([ map { $_->{routing}{retry}{attempts} } of_mark($absent, 'waits') ], [ 0, 1 ],
    'an absent user keeps all attempts');
wait_until('the notification is exhausted', sub { errors($id) });

# The user received the notification and disconnected: no attempt is counted.
sub is_present { my ($user) = @_;
    return grep { $store->execute('SISMEMBER', $_, $user) } grep { /:presence:/ } @{ $store->execute('KEYS', '*') } }
my $leaving = $relays[0]->client('leaver');
$id = notify('USER', 'leaver', 'left', "retry_limit => 0, ack_timeout => '1 hour'");
$leaving->run_until('the notification arrives', sub { of_mark($leaving, 'left') });
$leaving->close;
wait_until('the user is absent', sub { !is_present('leaver') });
$store->make_due($id, 'leaver');
wait_until('the due pair is processed', sub { ($store->execute('ZSCORE', $store->of($id, 'due'), "$id:leaver") // 0) != 1 });
is(scalar(entries_of($id)), 1, 'no retry is created for a disconnected user');
is(scalar(errors($id)), 0, 'a disconnected user causes no error log entry');
$leaving = $relays[1]->client('leaver');
$leaving->run_until('a retry arrives', sub { of_mark($leaving, 'left') });
# Until the delivery is reported, the due time has the fraction of a deferred retry.
wait_until('the delivery is reported', sub { is_present('leaver') && $store->execute('ZSCORE', $store->of($id, 'due'), "$id:leaver") !~ /\./ });
$store->make_due($id, 'leaver');
wait_until('the notification is exhausted', sub { errors($id) });
is((errors($id))[0]{attempts}, 0, 'a notification is exhausted only after an ack timeout while its user is connected');

# One user has a connection to each of two relays: each pair is retried once, by one relay.
my ($first, $second) = map { $_->client('both') } @relays;
$id = notify('USER', 'both', 'twice', 'retry_limit => 4');
$_->run_until('all attempts arrive', sub { of_mark($first, 'twice') == 5 && of_mark($second, 'twice') == 5 }) for $first, $second;
wait_until('the notification is exhausted', sub { errors($id) });
is_deeply([ map { $_->{routing}{retry}{attempts} } of_mark($_, 'twice') ], [ 0 .. 4 ], 'two relays create each retry once') for $first, $second;
is_deeply([ map { [ @$_{qw(reason attempts)} ] } errors($id) ], [ [ 'exhausted', 4 ] ],
    'two relays create one error log entry');

# An ack over one relay reaches the user's session on another relay.
$id = notify('USER', 'both', 'acked over second', '');
$_->run_until('the notification arrives', sub { of_mark($first, 'acked over second') && of_mark($second, 'acked over second') }) for $first, $second;
$first->ack($id);
$second->wait_for(sub { $_[0]{t} eq 'acked' && $_[0]{ids}[0] eq $id });
pass('a session on another relay receives the ack');
wait_until('the notification is complete', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
is(scalar(grep { $_->{t} eq 'acked' } @{ $first->{messages} }), 0, 'the session that acknowledged receives no acked frame');

# One relay is killed while a retry is due.
$id = notify('USER', 'u3', 'orphan', "retry_limit => 1000, ack_timeout => '1 hour'");
$late->run_until('the notification arrives', sub { of_mark($late, 'orphan') });
wait_until('the delivery is reported', sub { $store->execute('ZSCORE', $store->of($id, 'due'), "$id:u3") });
$relays[0]->kill9;
$store->make_due($id, 'u3');
wait_until('the other relay creates the retry', sub { entries_of($id) == 2 });
my $again = $relays[1]->client('u3');
$again->run_until('the notification arrives', sub { of_mark($again, 'orphan') });
is((of_mark($again, 'orphan'))[0]{routing}{retry}{attempts}, 1, 'a returning user receives the retry');
$again->ack($id);
wait_until('the notification is acknowledged', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
is($relays[1]->metric('clairon_store_errors_total'), 0, 'the store returns no errors');

done_testing();
