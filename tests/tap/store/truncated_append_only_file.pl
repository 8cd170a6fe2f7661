# Tests an append-only file that a crash truncated within a transaction: loading the file twice causes no duplicates.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $store = Clairon::Test::store();
# Too few replicas are connected, so no LSN is confirmed, and PostgreSQL retains all WAL.
my $relay = Clairon::Test::relay($pg, $store, conf => { 'store.min_replicas' => 1 });
my $rows  = 0;

sub insert
{
    my ($count) = @_;
    $pg->safe_psql('postgres', sprintf q{INSERT INTO t SELECT i, 'u1' FROM generate_series(%d, %d) i},
        $rows + 1, $rows + $count);
    $rows += $count;
    return;
}

sub wait_stored { wait_until("$rows rows are stored", sub { $store->stored >= $rows }); return }

sub check_stored_once
{
    my ($name) = @_;
    is_deeply([ map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } $store->entries ], [ 1 .. $rows ],
        "$name: each row is stored once, in order");
    is($store->pending, $rows, "$name: each row is pending once");
    return;
}

# Truncates the store's file within its last transaction with entries; returns the number of entries before this
# transaction, and of its entries that remain. The rows may have been stored in several transactions.
sub cut_file
{
    my ($path) = (glob("$store->{folder}/appendonlydir/*.incr.aof"), glob("$store->{folder}/appendonly.aof"));
    open my $file, '+<:raw', $path or die "could not open $path: $!";
    local $/;
    my $bytes = <$file>;
    my $end   = rindex $bytes, "\r\nXCLAIM\r\n";
    my $begin = rindex $bytes, "\r\nMULTI\r\n", $end;
    my $cut   = int(($begin + $end) / 2);
    truncate $file, $cut or die "could not cut $path: $!";
    close $file;
    return map { scalar(() = /\r\nXADD\r\n\$\d+\r\nclairon:(?:\{\d\}:)?stream\r\n/g) } substr($bytes, 0, $begin), substr($bytes, $begin, $cut - $begin);
}

insert(10);
wait_stored();
insert(50);
wait_stored();
$relay->kill9;
$store->kill9;
my ($complete, $incomplete) = cut_file();
cmp_ok($incomplete, '>', 0, 'the file ends within a transaction');
$store->start;
is($store->stored, $complete, 'the store ignores the incomplete transaction');
$relay->start;
wait_stored();
insert(10);
wait_stored();
check_stored_once('after the first load');
my $client = $relay->client('u1');
$client->wait_notifications(64);

$store->kill9;
$store->start;
insert(10);
wait_until('the last rows are stored', sub { ($store->entries)[-1]{data} =~ /"id":$rows\b/ });
check_stored_once('after the second load');
is($client->gaps, '', 'the client receives no gap');

done_testing();
