# Tests that a notification is retried with backoff only for users without an ack, and is moved to the error log at the
# retry limit.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text, team text);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1'), ('TEAM', 't1', 'u2'), ('TEAM', 't1', 'away');
    SELECT clairon.watch('t', 'TEAM', 'team', ack_required => true, retry_limit => 3, backoff => 'FIXED')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'delivery.ack_timeout' => '1h', 'delivery.backoff_base' => '1h', 'delivery.backoff_cap' => '1h' });

sub of_row { my ($client, $id) = @_;
    return grep { ($_->{payload}{after}{id} // 0) == $id } $client->notifications }
sub attempts { return map { $_->{routing}{retry}{attempts} } @_ }
sub errors { return map { { %$_, users => JSON::decode_json($_->{users}) } } $store->errors }
sub notify { my ($user, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$user}', '{\"mark\": \"$mark\"}',"
        . join(', ', ' ack_required => true', $more || ()) . ')') }

# Two users are connected: one acknowledges, one does not. A third user is absent.
my ($one, $two) = map { $relay->client($_) } qw(u1 u2);
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'x', 't1')});
$one->run_until('row 1 arrives', sub { of_row($one, 1) });
my ($first) = of_row($one, 1);
my $id = $first->{metadata}{id};
$one->ack($id);
wait_until('the ack is stored', sub { ($store->execute('HGET', $store->of($id, "ack:$id"), 'u1') // 0) > 0 });
for my $count (1 .. 4)
{
    $two->run_until('the next attempt arrives', sub { of_row($two, 1) >= $count });
    $store->make_due($id, 'u2');
}
is_deeply([ attempts(of_row($two, 1)) ], [ 0 .. 3 ], 'the number of retries to a user without an ack equals the limit');
is_deeply([ map { $_->{metadata}{id} } of_row($two, 1) ], [ ($id) x 4 ], 'each retry has the id of the notification');
$_->run_until('the pair is exhausted', sub { errors() }) for $one, $two;
my ($error) = errors();
is_deeply([ @$error{qw(id reason attempts)}, $error->{users} ], [ $id, 'exhausted', 3, ['u2'] ],
    'the error log has the exhausted notification with the missing user');
is(JSON::decode_json($error->{data})->{payload}{after}{id}, 1, 'the error log contains the notification itself');
is(scalar(of_row($one, 1)), 1, 'the user who acknowledged receives the notification once');
is(scalar(of_row($two, 1)), 4, 'no delivery follows the last retry');
my $state = { @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) } };
is($state->{away}, 0, 'the notification is still pending for the absent user');
ok(!exists $state->{u2}, 'the notification is not pending for the exhausted user');
is($store->pending, 1, 'one pair is pending');
my @entries = grep { $_->{id} eq $id } $store->entries;
is_deeply([ map { JSON::decode_json($_->{data})->{routing}{retry}{attempts} } @entries ], [ 0, 3 ],
    'the stream has the first entry and the last retry');
is($store->execute('XPENDING', $store->of($id, 'stream'), 'clairon', '-', '+', 10)->[0][0], $entries[-1]{entry},
    'the pending stream entry is the newest stream entry');

# The absent user connects with all attempts left, because deliveries count only while the user is connected.
my $away = $relay->client('away');
$away->run_until('the pending notification arrives', sub { of_row($away, 1) });
$away->ack($id);
wait_until('the notification is complete', sub { $store->pending == 0 });
is_deeply([ grep { /:(ack:|retries|pending|due)/ } @{ $store->execute('KEYS', '*') } ], [],
    'the store has deleted all state of the notification');
is(scalar(of_row($away, 1)), 1, 'an acknowledged notification is delivered once');
is(scalar(errors()), 1, 'the error log has one entry');

# With retry limit 0, the notification is delivered once and then exhausted.
$store->make_due(notify('u1', 'zero', 'retry_limit => 0'), 'u1');
$one->run_until('the error log has a second entry', sub { errors() == 2 && of_mark($one, 'zero') });
is(scalar(of_mark($one, 'zero')), 1, 'with limit 0, no retry is sent');
is((errors())[1]{reason}, 'exhausted', 'with limit 0, the notification is exhausted after the first delivery');
is((errors())[1]{attempts}, 0, 'with limit 0, the error log entry counts no attempts');

# Exhausted notifications free their slots in the in-flight window of a user who never acknowledges.
my $narrow = $relay->client('n1', win => 1);
my @narrow = map { notify('n1', "narrow $_", 'retry_limit => 0') } 1 .. 3;
for my $count (1 .. 3)
{
    $narrow->run_until('the next notification arrives', sub { $count == grep { ($_->{payload}{mark} // '') =~ /narrow/ } $narrow->notifications });
    $store->make_due($narrow[ $count - 1 ], 'n1');
}
wait_until('all notifications are exhausted', sub { errors() == 5 });
pass('exhausted notifications free the in-flight window');

# For each type of backoff, the due times are compared without waiting.
$relay->configure('delivery.ack_timeout' => '100ms', 'delivery.backoff_base' => '1h', 'delivery.backoff_cap' => '24h');
$relay->restart;
$one = $relay->client('u1');
for my $kind (qw(EXPONENTIAL LINEAR FIXED))
{
    my $id = notify('u1', $kind, "backoff => '$kind'");
    my @waits;
    for my $try (0 .. 6)
    {
        my $due = wait_until('the notification is delivered and due', sub { $store->execute('ZSCORE', $store->of($id, 'due'), "$id:u1") });
        my ($s, $us) = @{ $store->execute('TIME') };
        push @waits, ($due - $s * 1000 - $us / 1000) / 3_600_000;
        $store->execute('ZADD', $store->of($id, 'due'), 1, "$id:u1") if $try < 6;
        $one->run_until('the next attempt arrives', sub { of_mark($one, $kind) > $try + 1 }) if $try < 5;
        last if $try == 5;
    }
    note "$kind: @waits";
    my @least = $kind eq 'FIXED' ? (1) x 6 : $kind eq 'LINEAR' ? (1 .. 6) : (1, 2, 4, 8, 16, 24);
    my @most  = map { $_ < 24 ? $_ * 1.2 : 24 } @least;
    is(scalar(grep { $waits[$_] < $least[$_] - 0.1 || $waits[$_] > $most[$_] + 0.01 } 0 .. 5), 0,
        "$kind: the delay grows as specified, up to the cap");
    $one->ack($id);
}
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
is($relay->metric('clairon_store_errors_total'), 0, 'the store returns no errors');

done_testing();
