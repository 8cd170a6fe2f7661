# Tests a relay that starts while one shard is ahead of another: reconnecting clients receive all notifications in
# commit order.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 4 }
use Clairon::Test qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE task (id int PRIMARY KEY, owners text[], version int);
    SELECT clairon.watch('task', 'USER', 'owners')});
my $store = Clairon::Test::store();
my $feed  = Clairon::Test::relay($pg, $store, roles => 'feed');
my $gate  = Clairon::Test::relay(undef, $store, roles => 'gate');

# Commits one transaction: the first version is for two users, the later versions are for one user.
my $version = 0;
sub change
{
    my ($count) = @_;
    my $text = 'BEGIN;';
    for (1 .. $count)
    {
        $version++;
        $text .= sprintf q{INSERT INTO task VALUES (1, '{%s}', %d) ON CONFLICT (id) DO UPDATE SET owners = EXCLUDED.owners, version = EXCLUDED.version;},
          $_ == 1 ? 'u1,u2' : 'u1', $version;
    }
    $pg->safe_psql('postgres', $text . 'COMMIT');
    wait_until('the transaction is stored', sub { $store->entries == $version });
    return;
}
sub versions { return [ map { $_->{payload}{after}{version} } $_[0]->notifications ] }

# The relay waits for a shard for three seconds. Returns whether that was long enough. On a slow machine, it may not be.
sub turn
{
    my $client = $gate->client('u1');
    change(2);
    $client->run_until('the client has read all that is stored', sub { (versions($client)->[-1] // 0) == $version });
    my ($pos, $first, $count) = ($client->pos, $version + 1, scalar $client->notifications);
    change(2);
    $client->wait_notifications($count + 2);
    is_deeply([ @{ versions($client) }[ $count .. $count + 1 ] ], [ $first, $first + 1 ], 'live versions are in order');
    $client->close;
    $gate->stop;

    # The feed stops after it has stored its notifications in only one shard.
    my %before = @{ $store->execute('HGETALL', 'clairon:{0}:progress:clairon') };
    change(30);
    $feed->kill9;
    $store->execute('HSET', 'clairon:{0}:progress:clairon', %before);
    my ($last) = reverse $store->entries('clairon:{0}:stream');
    $store->execute('XDEL', 'clairon:{0}:stream', $last->{entry});

    my $begin = time;
    $gate->start;
    $gate->wait_ready;
    my $reconnected = $gate->client('u1', pos => $pos);
    $reconnected->wait_notifications(2);
    my $fresh = $gate->client('u1');
    $feed->start;
    wait_until('all notifications are stored', sub { $store->entries == $version });
    $reconnected->run_until('all notifications arrive', sub { @{ versions($reconnected) } >= 32 });
    # If the relay no longer waits when this client connects, the client receives only the later notifications.
    $fresh->run_until('all notifications arrive', sub { @{ versions($fresh) } >= 30 || $gate->metric('clairon_store_unordered_total') });
    my $seconds    = time - $begin;
    my $is_in_time = $gate->metric('clairon_store_unordered_total') == 0;
    ok($is_in_time || $seconds > 3, 'no notification is out of order within three seconds') or diag "$seconds s";
    if ($is_in_time)
    {
        is_deeply(versions($reconnected), [ $first .. $version ], 'a resumed client receives the missing notifications in order');
        is_deeply(versions($fresh), [ $first + 2 .. $version ], 'a new client receives the missing notifications in order');
    }
    $_->close for $reconnected, $fresh;
    return $is_in_time;
}
wait_until('no notification is out of order in one turn', \&turn);

done_testing();
