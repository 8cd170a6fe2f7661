# Is a message shown again, with backoff, to those who lack the ack and to nobody else, and does it
# end in the error log when they never ack?
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
my %quick = ('delivery.ack_timeout' => '300ms', 'delivery.backoff_base' => '100ms', 'delivery.backoff_cap' => '2s');
my $relay = Clairon::Test::relay($pg, $store, conf => {%quick});

sub of_row { my ($client, $id) = @_;
    return grep { ($_->{payload}{after}{id} // 0) == $id } $client->notifications }
sub attempts { return map { $_->{routing}{retry}{attempts} } @_ }
sub errors { return map { { %$_, users => JSON::decode_json($_->{users}) } } $store->entries('clairon:errors') }
sub notify { my ($user, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$user}', '{\"mark\": \"$mark\"}',"
        . join(', ', ' ack_required => true', $more || ()) . ')') }

# Two are there: one acks, one does not; the third is away.
my ($one, $two) = map { $relay->client($_) } qw(u1 u2);
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'x', 't1')});
$one->run_until('row 1', sub { of_row($one, 1) });
my ($first) = of_row($one, 1);
my $id = $first->{metadata}{id};
$one->ack($id);
$two->run_until('all of its retries', sub { of_row($two, 1) >= 4 });
is_deeply([ attempts(of_row($two, 1)) ], [ 0 .. 3 ], 'who does not ack is shown it again, limit times');
is_deeply([ map { $_->{metadata}{id} } of_row($two, 1) ], [ ($id) x 4 ], 'under the same id');
$_->run_until('the pair is given up', sub { errors() }) for $one, $two;
my ($error) = errors();
is_deeply([ @$error{qw(id reason attempts)}, $error->{users} ], [ $id, 'exhausted', 3, ['u2'] ],
    'then it goes to the error log, with who is missing');
is(JSON::decode_json($error->{data})->{payload}{after}{id}, 1, 'and with the message');
is(scalar(of_row($one, 1)), 1, 'who acked was shown it once');
is(scalar(of_row($two, 1)), 4, 'and nobody after the end');
my $state = { @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) } };
is($state->{away}, 0, 'who was away is still waited for');
ok(!exists $state->{u2}, 'who was given up is not');
is($store->pending, 1, 'one entry is pending');
my @entries = grep { $_->{id} eq $id } $store->entries;
is_deeply([ map { JSON::decode_json($_->{data})->{routing}{retry}{attempts} } @entries ], [ 0 .. 3 ],
    'each copy counts one more');
is($store->execute('XPENDING', $store->of($id, 'stream'), 'clairon', '-', '+', 10)->[0][0], $entries[-1]{entry},
    'and the newest stands for the message');

# The absent one comes: no attempt was used up without a socket.
my $away = $relay->client('away');
$away->run_until('what waits', sub { of_row($away, 1) });
$away->ack($id);
wait_until('the message is done', sub { $store->pending == 0 });
is_deeply([ grep { /:(ack:|inbox|tries|pending|due)/ } @{ $store->execute('KEYS', '*') } ], [],
    'nothing is left of it');
is(scalar(of_row($away, 1)), 1, 'shown once, as it was acked');
is(scalar(errors()), 1, 'one error in all');

# Limit 0: shown once, then given up. Retry off: never again.
notify('u1', 'zero', 'retry_limit => 0');
$one->run_until('the second error', sub { errors() == 2 });
is(scalar(of_mark($one, 'zero')), 1, 'limit 0 is never shown again');
is((errors())[1]{reason}, 'exhausted', 'and given up');
is((errors())[1]{attempts}, 0, 'at no attempt');

# Who never acks is not starved by what was given up: its places in the window are free again.
my $narrow = $relay->client('n1', win => 1);
notify('n1', "narrow $_", 'retry_limit => 0') for 1 .. 3;
$narrow->run_until('all three', sub { 3 == grep { ($_->{payload}{mark} // '') =~ /narrow/ } $narrow->notifications });
wait_until('all are given up', sub { errors() == 5 });
pass('what is given up makes room in a window');

# Each kind of backoff as it grows: by the due times, which nothing waits for.
$relay->configure('delivery.ack_timeout' => '100ms', 'delivery.backoff_base' => '1h', 'delivery.backoff_cap' => '24h');
$relay->restart;
$one = $relay->client('u1');
for my $kind (qw(EXPONENTIAL LINEAR FIXED))
{
    my $id = notify('u1', $kind, "backoff => '$kind'");
    my @waits;
    for my $try (0 .. 6)
    {
        my $due = wait_until('it is shown and due', sub { $store->execute('ZSCORE', $store->of($id, 'due'), "$id:u1") });
        my ($s, $us) = @{ $store->execute('TIME') };
        push @waits, ($due - $s * 1000 - $us / 1000) / 3_600_000;
        $store->execute('ZADD', $store->of($id, 'due'), 1, "$id:u1") if $try < 6;
        $one->run_until('it is shown again', sub { of_mark($one, $kind) > $try + 1 }) if $try < 5;
        last if $try == 5;
    }
    note "$kind: @waits";
    my @least = $kind eq 'FIXED' ? (1) x 6 : $kind eq 'LINEAR' ? (1 .. 6) : (1, 2, 4, 8, 16, 24);
    my @most  = map { $_ < 24 ? $_ * 1.2 : 24 } @least;
    is(scalar(grep { $waits[$_] < $least[$_] - 0.1 || $waits[$_] > $most[$_] + 0.01 } 0 .. 5), 0,
        "$kind grows as it should, and not beyond the cap");
    $one->ack($id);
}
wait_until('all are acked', sub { $store->pending == 0 });
is($relay->metric('clairon_store_errors_total'), 0, 'the store never had to refuse');

done_testing();
