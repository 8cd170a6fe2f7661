# Who is waited for, and for how long? Open audiences, expiration, absent users, two relays, one that is killed.
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
    grep { !$id || $_->{id} eq $id } $store->entries('clairon:errors') }
sub state_of { my ($id) = @_; return { @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) } } }
sub copies_of { my ($id) = @_; return grep { $_->{id} eq $id } $store->entries }
sub marks { map { $_->{payload}{mark} // () } @_ }

# ALL: whoever is shown it owes an ack; it ends at its expiration, with who is missing then.
my ($one, $two) = ($relays[0]->client('u1'), $relays[1]->client('u2'));
my $id = notify('ALL', '', 'open', "ttl => '1 hour', retry_limit => 1000");
$_->run_until('the open one', sub { of_mark($one, 'open') && of_mark($two, 'open') }) for $one, $two;
wait_until('both are waited for', sub { keys %{ state_of($id) } == 2 });
is_deeply([ values %{ state_of($id) } ], [ 0, 0 ], 'whoever was shown it is waited for');
$one->ack($id);
my $two_had = of_mark($two, 'open');
$two->run_until('a retry', sub { of_mark($two, 'open') > $two_had });
cmp_ok(state_of($id)->{u1}, '>', 1, 'the ack of one is kept');
is($store->pending, 1, 'and the message goes on');
my $one_had = of_mark($one, 'open');
$two->run_until('another retry', sub { of_mark($two, 'open') > $two_had + 1 });
$one->run_until('what came', sub { 1 });
is(scalar(of_mark($one, 'open')), $one_had, 'who acked is not shown it again');
my $late = $relays[0]->client('u3');
notify('USER', 'u3', 'mark', '');
$late->run_until('its own', sub { of_mark($late, 'mark') });
$late->ack($late->wait_for('msg')->{n}{metadata}{id});
is(scalar(of_mark($late, 'open')), 0, 'who comes later is not sent it');
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:");
wait_until('it ends', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
is_deeply([ map { [ $_->{reason}, $_->{users} ] } errors($id) ], [ [ 'expired', ['u2'] ] ],
    'at its end who has not acked is in the error log');
is($store->execute('EXISTS', $store->of($id, "ack:$id"), $store->of($id, "tries:$id"), $store->keys('due')), 0,
    'and nothing else is left');

$id = notify('ALL', '', 'all ack', '');
for my $client ($one, $two, $late)
{
    $client->run_until('it', sub { of_mark($client, 'all ack') });
    $client->ack($id);
}
wait_until('three acks', sub { 3 == grep { $_ > 1 } values %{ state_of($id) } });
cmp_ok($store->execute('ZSCORE', $store->of($id, 'due'), "$id:"), '>', 1000 * (time + 23 * 3600), 'without expiration it ends after a day');
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:");
wait_until('it ends', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
is(scalar(errors($id)), 0, 'if all of those acked there is no error');

# A group that only tokens know.
my $guest = $relays[1]->client('g1', groups => { CLUB => ['c1'] });
$id = notify('CLUB', 'c1', 'club', '');
$guest->run_until('it', sub { of_mark($guest, 'club') });
wait_until('the guest is waited for', sub { defined state_of($id)->{g1} });
is_deeply([ keys %{ state_of($id) } ], ['g1'], 'a group without rows waits for whom it was shown to');
$guest->ack($id);
wait_until('it acked', sub { state_of($id)->{g1} > 1 });

# Known users: expiration, with one who was never there.
$id = notify('USER', 'u1,u2,nobody', 'short', "ttl => '1 hour', retry_limit => 1000");
$_->run_until('it', sub { of_mark($one, 'short') && of_mark($two, 'short') }) for $one, $two;
$one->ack($id);
wait_until('one acked', sub { state_of($id)->{u1} > 1 });
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:");
wait_until('it ends', sub { errors($id) });
is_deeply([ map { [ $_->{reason}, [ sort @{ $_->{users} } ] ] } errors($id) ], [ [ 'expired', [ 'nobody', 'u2' ] ] ],
    'at the expiration those without an ack are in the error log');
is($store->execute('EXISTS', map { $store->keys("inbox:$_") } qw(nobody u2)), 0, 'and not waited for any more');

# What expired is not shown, and told to who missed it.
my $pos = $one->pos;
$one->close;
$id = notify('USER', 'u1', 'too late', "ttl => '1 millisecond'");
my $kept = notify('USER', 'u1', 'in time', "ttl => '1 hour'");
wait_until('it ends', sub { errors($id) });
$one = $relays[0]->client('u1', pos => $pos);
$one->run_until('the other', sub { of_mark($one, 'in time') });
$one->ack($kept);
is(scalar(of_mark($one, 'too late')), 0, 'what expired while one was away is not shown');
is($one->wait_for('gap')->{why}, 'expired', 'but told');

# Absent: no attempt is used up.
$id = notify('USER', 'absent', 'waits', 'retry_limit => 1');
my $other = notify('USER', 'u2', 'beside', 'retry_limit => 0');
wait_until('the other one is given up', sub { errors($other) });
is($store->execute('ZSCORE', $store->of($id, 'due'), "$id:absent"), undef, 'what was not shown is not due');
my $absent = $relays[1]->client('absent');
$absent->run_until('it and its retry', sub { of_mark($absent, 'waits') == 2 });
is_deeply([ map { $_->{routing}{retry}{attempts} } of_mark($absent, 'waits') ], [ 0, 1 ],
    'an absent user has all attempts before him');
wait_until('given up', sub { errors($id) });

# Who was shown it and left uses up no attempt either.
my $leaver = $relays[0]->client('leaver');
$id = notify('USER', 'leaver', 'left', 'retry_limit => 0');
$leaver->run_until('it', sub { of_mark($leaver, 'left') });
$leaver->close;
$other = notify('USER', 'u2', 'beside again', 'retry_limit => 3');
wait_until('the other one is given up', sub { errors($other) });
is(scalar(copies_of($id)), 1, 'there is no retry for who left');
is(scalar(errors($id)), 0, 'and no end to it');
$leaver = $relays[1]->client('leaver');
$leaver->run_until('it again', sub { of_mark($leaver, 'left') });
wait_until('it is given up', sub { errors($id) });
is((errors($id))[0]{attempts}, 0, 'until there was time to ack');

# Two connections of one user, on two relays: each pair is retried once, by one of them.
my ($here, $there) = map { $_->client('both') } @relays;
$id = notify('USER', 'both', 'twice', 'retry_limit => 4');
$_->run_until('all showings', sub { of_mark($here, 'twice') == 5 && of_mark($there, 'twice') == 5 }) for $here, $there;
wait_until('given up', sub { errors($id) });
is_deeply([ map { JSON::decode_json($_->{data})->{routing}{retry}{attempts} } copies_of($id) ], [ 0 .. 4 ],
    'two relays make each copy once');
is_deeply([ map { [ @$_{qw(reason attempts)} ] } errors($id) ], [ [ 'exhausted', 4 ] ], 'and give up once');

# Acks across relays.
$id = notify('USER', 'both', 'acked there', '');
$_->run_until('it', sub { of_mark($here, 'acked there') && of_mark($there, 'acked there') }) for $here, $there;
$here->ack($id);
$there->wait_for(sub { $_[0]{t} eq 'acked' && $_[0]{ids}[0] eq $id });
pass('a session on another relay is told of the ack');
wait_until('done', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
is(scalar(grep { $_->{t} eq 'acked' } @{ $here->{messages} }), 0, 'the one who acked is not');

# A relay that dies with work due.
$id = notify('USER', 'u3', 'orphan', 'retry_limit => 1000');
$late->run_until('it', sub { of_mark($late, 'orphan') });
wait_until('it is due', sub { $store->execute('ZSCORE', $store->of($id, 'due'), "$id:u3") });
$relays[0]->kill9;
wait_until('the other relay retries it', sub { copies_of($id) == 2 });
my $again = $relays[1]->client('u3');
$again->run_until('it is shown', sub { of_mark($again, 'orphan') });
is((of_mark($again, 'orphan'))[0]{routing}{retry}{attempts}, 1, 'who comes back is shown the copy');
$again->ack($id);
wait_until('acked', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
is($relays[1]->metric('clairon_store_errors_total'), 0, 'the store never had to refuse');

done_testing();
