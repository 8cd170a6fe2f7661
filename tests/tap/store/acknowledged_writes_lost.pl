# Tests that, after a store restarts without some acknowledged writes, the lost rows are replayed from the WAL.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store = Clairon::Test::store(fsync => 'everysec');
my $relay = Clairon::Test::relay($pg, $store);
my $folder = $store->{folder};

sub insert
{
    my ($from, $to) = @_;
    $pg->safe_psql('postgres', "INSERT INTO t SELECT i, 'u1' FROM generate_series($from, $to) i");
    return;
}

sub rows { return map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } $store->entries }

insert(1, 100);
wait_until('the first rows are stored', sub { $store->stored == 100 });

# The copy simulates the disk after a power failure: it contains the first rows but not the next rows.
$store->stop;
system('cp', '-a', $folder, "$folder.old") == 0 or die 'could not copy the store';
$store->start;
$relay->wait_ready;

my $client = $relay->client('u1');
insert(101, 200);
$client->wait_notifications(100);
is($store->stored, 200, 'the store acknowledges the next rows');
$store->kill9;
system("rm -rf $folder/* && cp -a $folder.old/. $folder/") == 0 or die 'could not restore the store';
$store->start;
$relay->wait_ready;
insert(201, 210);
wait_until('all rows are stored', sub { $store->stored >= 210 });
is_deeply([ rows() ], [ 1 .. 210 ], 'lost rows are replayed from the WAL, in order, without duplicates');
$client->wait_row(210);
my %ids = map { $_->{metadata}{id} => 1 } $client->notifications;
is(scalar keys %ids, 110, 'the replayed rows have the same ids');

# At the end, all changes are confirmed.
wait_confirmed($pg);
pass('durable rows are confirmed');

done_testing();
