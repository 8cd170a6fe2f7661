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
$store->ask('XSETID', $_, (int(time * 1000) + 3_600_000) . '-0') for $store->keys('stream');

# With what needs none between them, more of a millisecond than a score tells apart.
$pg->safe_psql('postgres', q{
    INSERT INTO t SELECT generate_series(1, 1500);
    INSERT INTO plain SELECT generate_series(1, 1500);
    INSERT INTO t SELECT generate_series(1501, 3000)});
wait_until('all are stored', sub { $store->pending == 3000 }, 60);

sub rows { return map { $_->{payload}{after}{id} } grep { $_->{metadata}{source} eq 't' } $_[0]->notes }

my $client = $relay->client('u1', win => 64);
my $acked  = 0;
while ($acked < 3000)
{
    $client->run_until('more', sub { rows($client) > $acked });
    my @ids = map { $_->{metadata}{id} } grep { $_->{metadata}{source} eq 't' } $client->notes;
    $client->ack(@ids[ $acked .. $#ids ]);
    $acked = @ids;
}
is_deeply([ rows($client) ], [ 1 .. 3000 ], 'in the order of the commits');
my $back = $relay->client('u1', pos => $from);
$back->run_until('all', sub { $back->notes == 4500 }, 60);
is_deeply([ rows($back) ], [ 1 .. 3000 ], 'also when resumed');
is($relay->metric('clairon_store_errors_total'), 0, 'the store never had to refuse');

done_testing();
