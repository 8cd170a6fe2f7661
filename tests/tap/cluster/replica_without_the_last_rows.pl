# Tests a failover to a replica that lacks rows that the relay has already delivered. By default their WAL is not
# confirmed yet, so the rows are stored again.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text); SELECT clairon.watch('t', 'USER', 'owner')});
my $cluster = Clairon::Test::store_cluster();
my $relay   = Clairon::Test::relay($pg, $cluster);
my $client  = $relay->client('u1');

# Returns the rows of the user in the order received, without duplicates.
sub received
{
    my %had;
    return map { $_->{payload}{after}{id} } grep { !$had{ $_->{metadata}{id} }++ } $client->notifications;
}

$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1')});
$client->run_until('the first row arrives', sub { received() == 1 });
wait_confirmed($pg);

my ($entry) = $cluster->entries;
my ($shard) = $entry->{stream} =~ /\{(\d+)\}/;
my $primary = $cluster->primary_of($shard);
my ($replica) = grep { my $role = $_->execute('ROLE'); $role->[0] eq 'slave' && $role->[2] == $primary->{port} } $cluster->alive;
$cluster->pause($replica);
$primary->execute('CLIENT', 'KILL', 'TYPE', 'replica');

my $before = $pg->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(2, 20) i});
$client->run_until('the rows are delivered', sub { received() == 20 });
$relay->wait_for_log(qr/too few replicas in sync.* replicas=0 min_replicas=1/);
is($pg->safe_psql('postgres', "SELECT confirmed_flush_lsn <= '$before' FROM pg_replication_slots"), 't',
    'the WAL of the delivered rows is not confirmed');

$primary->kill9;
$cluster->resume($replica);
is($cluster->wait_failover($shard, $primary), $replica, 'the replica becomes the primary');
wait_until('the rows are stored again', sub { $cluster->stored >= 20 });
is_deeply([ sort { $a <=> $b } map { /"id":(\d+)/ } map { $_->{data} =~ /"after":(\{[^}]*)/ } $cluster->entries ], [ 1 .. 20 ], 'each row is stored once');
is_deeply([ received() ], [ 1 .. 20 ], 'the user receives all rows in order');

$cluster->heal;
wait_confirmed($pg);
pass('the slot advances after a new replica has joined');

done_testing();
