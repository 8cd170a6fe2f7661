# Tests that rows of other shards do not wait for a notification that the store has denied, because the rules of its table's
# owner use up owner_pairs: the other shards' notifications name it, and it never arrives.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 4 }
use Clairon::Test qw(wait_until);
use Clairon::Test::Neighbour;
use Test::More;

use constant { MEMBERS => 3000, ROWS => 6 };

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', sprintf q{INSERT INTO clairon.member SELECT 'TEAM', 't1', 'm' || i FROM generate_series(1, %d) i}, MEMBERS);
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store, conf => { 'feed.owner_pairs' => 1000 });
my $gate      = Clairon::Test::relay(undef, $store, roles => 'gate');
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
$neighbour->run_as('mallory', q{CREATE TABLE mallory.t (id serial PRIMARY KEY, team text)});
$pg->safe_psql('postgres', q{SELECT clairon.watch('mallory.t', 'TEAM', 'team', ack_required => true)});
my @clients = map { $_->client('alice') } $relay, $gate;

# Each row of alice follows a row of mallory, of which all but the first are denied.
for my $n (1 .. ROWS)
{
    $neighbour->run_as('mallory', q{INSERT INTO mallory.t (team) VALUES ('t1')});
    $neighbour->run_as('alice', "INSERT INTO alice.orders VALUES (1000 + $n, 'alice')");
    $_->wait_notifications($n) for @clients;
}
wait_until('denials are counted', sub { $relay->metric('clairon_denied_total{reason="pairs"}') > 0 });
is($_->metric('clairon_store_unordered_total'), 0, 'no notification was delivered without one that it waited for') for $relay, $gate;
is_deeply([ map { $_->{payload}{after}{id} } $clients[1]->notifications ], [ map { 1000 + $_ } 1 .. ROWS ], 'the rows are in commit order');

done_testing();
