# Tests that the rows are exactly the receipts that a cluster of stores contains, also after a node has died.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Receipts;
use Test::More;

my $pg       = Clairon::Test::postgresql('main');
my $cluster  = Clairon::Test::store_cluster();
my $receipts = Clairon::Test::Receipts->new($pg, $cluster);
my $relay    = Clairon::Test::relay($pg, $cluster, conf => { 'receipts.sql' => 'true' });

sub stored { return map { $_->{id} } map { $cluster->entries($_) } $cluster->keys('receipts') }

$receipts->add_many(20);
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'receipts of all shards are inserted');

# A replica is paused: receipts that only the primary has are not sent.
my $primary = $cluster->primary_of(5);
my ($replica) = grep { my $role = eval { $_->execute('ROLE') }; $role && $role->[0] eq 'slave' && $role->[2] == $primary->{port} } $cluster->alive;
$cluster->pause($replica);
my ($unsafe) = $receipts->add({ shard => 5 });
$relay->wait_for_log(qr/msg="too few replicas in sync/);
ok(!(grep { $_ eq $unsafe } $receipts->rows), 'a receipt that no replica has is not sent');
$cluster->resume($replica);
$receipts->wait_all;
$cluster->heal;

# A node dies. A receipt that only the dead node had is lost with it, and must not be a row.
my $shard  = 5;
my $victim = $cluster->primary_of($shard);
$receipts->add(map { { shard => $shard } } 1 .. 300);
$victim->kill9;
$receipts->add_many(5);
$cluster->wait_failover($shard, $victim);
$cluster->heal;
$receipts->{ids} = { map { $_ => 1 } stored() };
cmp_ok(scalar(keys %{ $receipts->{ids} }), '>', 320, 'the cluster has receipts');
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'the rows are the receipts that the cluster has');
wait_until('all receipts are acknowledged', sub { $receipts->pending('sql') == 0 });
done_testing();
