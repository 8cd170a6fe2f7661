# Tests that an absent user receives pending notifications in commit order, although other users received retries of
# them.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owners text[]);
    CREATE TABLE open (id int PRIMARY KEY);
    SELECT clairon.watch('t', 'USER', 'owners', ack_required => true, retry_limit => 100, backoff => 'FIXED');
    SELECT clairon.watch('open', 'ALL', ack_required => true, retry_limit => 100, backoff => 'FIXED')});

for my $shards (1, 4)
{
    my $store = Clairon::Test::store();
    my $relay = Clairon::Test::relay($pg, $store, conf => { 'store.shards' => $shards, 'feed.slot' => "s$shards",
        'delivery.ack_timeout' => '300ms', 'delivery.backoff_base' => '100ms' });
    my $rows = sub { return map { $_->{payload}{after}{id} } $_[0]->notifications };
    my ($busy, $away) = map { $relay->client($_) } qw(u1 u2);
    my $pos = $away->pos;
    $away->close;
    $pg->safe_psql('postgres', "INSERT INTO t VALUES ($_, '{u1,u2}')") for 10 * $shards + 1, 10 * $shards + 2;
    $busy->run_until('both rows arrive', sub { $rows->($busy) >= 2 });
    $busy->ack(($busy->notifications)[0]{metadata}{id});
    $busy->run_until('a retry arrives', sub { (grep { $_ == 10 * $shards + 2 } $rows->($busy)) > 1 });
    $away = $relay->client('u2', pos => $pos);
    $away->run_until('both rows arrive', sub { $rows->($away) >= 2 });
    is_deeply([ ($rows->($away))[0, 1] ], [ 10 * $shards + 1, 10 * $shards + 2 ], "an absent user receives pending notifications in commit order, with $shards shards");
    $_->ack(map { $_->{metadata}{id} } $_->notifications) for $busy, $away;
    my @streams = $shards == 1 ? 'clairon:stream' : map { "clairon:{$_}:stream" } 0 .. $shards - 1;
    wait_until('all notifications are acknowledged', sub { !grep { $store->pending($_) } @streams });
    pass('all notifications can be acknowledged');

    # A user who joins an open-ended audience after the retries receives the pending list in order.
    $_->close for $busy, $away;
    $busy = $relay->client('u3');
    $pos  = $busy->pos;
    my $id_of = sub { my ($client, $row) = @_;
        return (map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} == $row } $client->notifications)[0] };
    my ($first, @others) = map { 10 * $shards + $_ } 1 .. 4;
    $pg->safe_psql('postgres', "INSERT INTO open VALUES ($_)") for $first, @others;
    $busy->run_until('all rows arrive', sub { $rows->($busy) >= 4 });
    $busy->ack(map { $id_of->($busy, $_) } $first, $others[0], $others[2]);
    $busy->run_until('a retry arrives', sub { (grep { $_ == $others[1] } $rows->($busy)) > 1 });
    $away = $relay->client('u4', pos => $pos, win => 1);
    my $received = sub { my %seen; return grep { !$seen{$_}++ } $rows->($away) }; # unacknowledged rows are retried
    for my $count (1 .. 4)
    {
        $away->run_until('another row arrives', sub { $received->() == $count });
        $away->ack($id_of->($away, ($received->())[-1]));
    }
    is_deeply([ $received->() ], [ $first, @others ],
        'a user who joins an open-ended audience receives its notifications in order');
}

done_testing();
