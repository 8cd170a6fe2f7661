# Tests that a relay that starts to read a user's shard sends rows only from a snapshot that contains the transactions
# of earlier notifications in the shard. The client never receives these notifications, because its cursor starts after
# them.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::StubRows;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my $stub    = Clairon::Test::StubRows->new($pg);
my ($relay, $gate) = map { Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'rows.timeout' => '60s' }) } 1 .. 2;
$stub->set('t');

sub insert { my ($id) = @_; return $pg->safe_psql('postgres', "INSERT INTO t VALUES ($id, 'u1') RETURNING pg_current_xact_id()") }

my $reader = $relay->client('u1');
my ($first, @later) = map { insert($_) } 1 .. 4;
$reader->wait_notifications(4);
is($gate->metric('clairon_store_followed_shards'), 1, 'the other relay does not read the user\'s shard');

# The first transaction still waits for a synchronous standby; later transactions do not wait.
my ($without, $with) = map { sprintf '%s:%s:%s', $_ || $later[-1] + 1, $later[-1] + 1, $_ } $first, '';
$stub->set('t', snapshot => $without);
my $client = $gate->client('u1');
$client->send({ t => 'rows', r => 2, source => 't' });
my $reply = sub { (grep { ($_->{r} // 0) == 2 } @{ $client->{messages} })[0] };
$client->run_until('the relay has queried the database',
    sub { $reply->() || $gate->metric('clairon_rows_repeated_total') >= 2 });
ok(!$reply->(), 'rows are not sent before the oldest of four transactions is visible');
$stub->set('t', snapshot => $with);
is($client->wait_for(sub { ($_[0]{r} // 0) == 2 })->{snapshot}, $with,
    'rows are sent once the oldest transaction is visible');
is_deeply([ $client->notifications ], [], 'the notification of the oldest transaction is not sent again');

done_testing();
