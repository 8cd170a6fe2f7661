# Tests a failover of PostgreSQL, after which one shard is restored from an older copy: only this shard is set to the
# new timeline.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $SHARDS  = 4;
my $primary = Clairon::Test::postgresql('primary');
$primary->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $standby = Clairon::Test::standby($primary);

my $store = Clairon::Test::store(fsync => 'always');
# Too few replicas are connected, so no LSN is confirmed, and all WAL of the new timeline is read again.
my $relay = Clairon::Test::relay($primary, $store, conf => { 'store.shards' => $SHARDS, 'store.min_replicas' => 1 });
my $last  = 0;

sub insert
{
    my ($pg) = @_;
    $pg->safe_psql('postgres', sprintf q{INSERT INTO t SELECT i, 'u' || i %% 5 FROM generate_series(%d, %d) i}, $last + 1, $last + 50);
    $last += 50;
    return;
}

sub rows { my ($shard) = @_; return map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } $store->entries("clairon:{$shard}:stream") }
sub wait_stored { return wait_until("rows up to $last are stored", sub { 5 == grep { $_ > $last - 5 } map { rows($_) } 1 .. 3 }) }

sub check_stored_once
{
    my ($when) = @_;
    my @all = map { rows($_) } 0 .. $SHARDS - 1;
    is_deeply([ sort { $a <=> $b } @all ], [ 1 .. $last ], "$when: each row is stored once");
    for my $k (1 .. 3)
    {
        my @rows = rows($k);
        is_deeply(\@rows, [ sort { $a <=> $b } @rows ], "$when: shard $k is in commit order");
    }
    return;
}

sub keys_of { return sort @{ $store->execute('KEYS', 'clairon:{3}:*') } }

insert($primary);
wait_stored();
$relay->stop;
my @kept = map { [ $_, $store->execute('DUMP', $_) ] } keys_of();
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->append_conf('postgresql.conf', "primary_conninfo = ''\n");
$standby->restart;
$standby->promote;
$standby->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('clairon', 'clairon')});
$relay->configure('feed.conninfo' => $standby->connstr('postgres') . ' user=relay');
$relay->start;
$relay->wait_ready;
insert($standby);
wait_stored();
check_stored_once('a failover without a loss');

my @before = map { $store->execute('HGET', "clairon:{$_}:meta", 'epoch') } 0 .. $SHARDS - 1;
$relay->kill9;
$store->execute('DEL', keys_of());
$store->execute_bytes('RESTORE', $_->[0], 0, $_->[1]) for @kept;
my $mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/following new timeline" timeline=2/, from => $mark);
$relay->wait_ready;
insert($standby);
wait_stored();
check_stored_once('a copy from before the failover');
is_deeply([ map { $store->execute('HGET', "clairon:{$_}:meta", 'epoch') } 0 .. 2 ], [ @before[ 0 .. 2 ] ], 'the epochs of the other shards are unchanged');
unlike($relay->log_text($mark), qr/timeline forked/, 'no rows of the other shards are undone');

done_testing();
