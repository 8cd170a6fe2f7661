# Tests a store whose clock is set back by an hour, or a replica with an earlier clock after a failover: all entries
# have the same millisecond. Pending notifications are still delivered in commit order.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY);
    CREATE TABLE plain (id int PRIMARY KEY);
    SELECT clairon.watch('t', 'USER', '=u1', ack_required => true);
    SELECT clairon.watch('plain', 'USER', '=u1')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $from  = $relay->client('u1')->pos;
$store->execute('XSETID', $_, (int(time * 1000) + 3_600_000) . '-0') for $store->keys('stream');

# With entries without ack_required in between, there are more entries per millisecond than a score can distinguish.
$pg->safe_psql('postgres', q{
    INSERT INTO t SELECT generate_series(1, 1500);
    INSERT INTO plain SELECT generate_series(1, 1500);
    INSERT INTO t SELECT generate_series(1501, 3000)});
wait_until('all notifications are stored', sub { $store->pending == 3000 });

sub rows { return map { $_->{payload}{after}{id} } grep { $_->{metadata}{source} eq 't' } $_[0]->notifications }

my $client = $relay->client('u1', win => 64);
my $acked  = 0;
while ($acked < 3000)
{
    $client->run_until('more notifications arrive', sub { rows($client) > $acked });
    my @ids = map { $_->{metadata}{id} } grep { $_->{metadata}{source} eq 't' } $client->notifications;
    $client->ack(@ids[ $acked .. $#ids ]);
    $acked = @ids;
}
is_deeply([ rows($client) ], [ 1 .. 3000 ], 'the client receives all rows in commit order');
my $reconnected = $relay->client('u1', pos => $from);
$reconnected->run_until('all notifications arrive', sub { $reconnected->notifications == 4500 });
is_deeply([ rows($reconnected) ], [ 1 .. 3000 ], 'a resumed client receives all rows in commit order');

# The notifications are exhausted, and their first stream entries are trimmed: redriven notifications are delivered
# last.
$relay->configure('delivery.ack_timeout' => '1s', 'delivery.window' => 400);
$relay->restart;
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u2}', '{}', ack_required => true, retry_limit => 0) FROM generate_series(1, 400)});
my $not_acking = $relay->client('u2', win => 400);
$not_acking->wait_notifications(400);
wait_until('all notifications are exhausted', sub { $store->error_count == 400 });
$not_acking->close;
$store->execute('DEL', $_) for map { @{ $store->execute('KEYS', "clairon*:$_:*") } } qw(trace retries);
my ($code, $out, $error) = $relay->run('errors', 'redrive', '--all');
is($code, 0, "the exhausted notifications are redriven: $error");
my @scores;
for my $list ($store->keys('pending_list:u2'))
{
    my %score_of = @{ $store->execute('ZRANGEBYSCORE', $list, '-inf', '+inf', 'WITHSCORES') };
    push @scores, map { "$list $_" } values %score_of;
}
is(scalar @scores, 400, 'the redriven notifications are pending');
my %distinct = map { $_ => 1 } @scores;
is(scalar keys %distinct, 400, 'each entry of a pending list has a unique score');
my $again = $relay->client('u2', win => 400);
$again->wait_notifications(400);
pass('all notifications are delivered, even across page boundaries');
is($relay->metric('clairon_store_errors_total'), 0, 'the store returns no errors');

done_testing();
