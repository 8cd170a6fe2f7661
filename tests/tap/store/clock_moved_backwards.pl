# The store's clock is set back by an hour, or a replica takes over whose clock is behind: all entries then have one
# millisecond. Is what waits for acks still shown in the order of the commits?
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

# With what needs none between them, more of a millisecond than a score tells apart.
$pg->safe_psql('postgres', q{
    INSERT INTO t SELECT generate_series(1, 1500);
    INSERT INTO plain SELECT generate_series(1, 1500);
    INSERT INTO t SELECT generate_series(1501, 3000)});
wait_until('all are stored', sub { $store->pending == 3000 }, 60);

sub rows { return map { $_->{payload}{after}{id} } grep { $_->{metadata}{source} eq 't' } $_[0]->notifications }

my $client = $relay->client('u1', win => 64);
my $acked  = 0;
while ($acked < 3000)
{
    $client->run_until('more', sub { rows($client) > $acked });
    my @ids = map { $_->{metadata}{id} } grep { $_->{metadata}{source} eq 't' } $client->notifications;
    $client->ack(@ids[ $acked .. $#ids ]);
    $acked = @ids;
}
is_deeply([ rows($client) ], [ 1 .. 3000 ], 'in the order of the commits');
my $back = $relay->client('u1', pos => $from);
$back->run_until('all', sub { $back->notifications == 4500 }, 60);
is_deeply([ rows($back) ], [ 1 .. 3000 ], 'also when resumed');

# Given up, and forgotten where it was first: what is sent anew has its place behind all.
$relay->configure('delivery.ack_timeout' => '1s', 'delivery.window' => 400);
$relay->restart;
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u2}', '{}', ack_required => true, retry_limit => 0) FROM generate_series(1, 400)});
my $careless = $relay->client('u2', win => 400);
$careless->wait_notifications(400);
wait_until('all are given up', sub { $store->execute('XLEN', 'clairon:errors') == 400 });
$careless->close;
$store->execute('DEL', $_) for map { @{ $store->execute('KEYS', "clairon*:$_:*") } } qw(trail tries);
my ($code, $told, $error) = $relay->run('errors', 'redrive', '--all');
is($code, 0, "what was given up is sent anew: $error");
my @scores;
for my $inbox ($store->keys('inbox:u2'))
{
    my %score_of = @{ $store->execute('ZRANGEBYSCORE', $inbox, '-inf', '+inf', 'WITHSCORES') };
    push @scores, map { "$inbox $_" } values %score_of;
}
is(scalar @scores, 400, 'and waits');
my %distinct = map { $_ => 1 } @scores;
is(scalar keys %distinct, 400, 'each in its own place');
my $again = $relay->client('u2', win => 400);
$again->wait_notifications(400);
pass('so that all are shown, also where a page of them ends');
is($relay->metric('clairon_store_errors_total'), 0, 'the store never had to refuse');

done_testing();
