# Tests that the commands of the operations pages for the store work as printed, with its own client, on each store:
# Redis, Valkey and KeyDB (STORE_SERVER).
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 1 }    # the pages print keys of one shard
use Clairon::Test qw(wait_until);
use Clairon::Test::Pages;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('one', 'USER', 'owner', ack_required => true)});
my ($port, $replica_port) = map { Clairon::Test::free_port() } 1 .. 2;
my $store   = Clairon::Test::store(file => 1, options => [ '--port', $port, '--bind', '127.0.0.1' ]);
my $replica = Clairon::Test::store(options => [ '--port', $replica_port, '--bind', '127.0.0.1', '--replicaof', '127.0.0.1', $port, '--repl-diskless-sync-delay', 0 ]);
my $pages   = Clairon::Test::Pages->new(Clairon::Test::new_folder('client'));
my @at      = (port => $port);
my %of_replica = (replace => { 6380 => $replica_port });

$pages->type('INSTALL', $_, @at) for qr/config set appendonly/, qr/config set maxmemory \d/, qr/config set maxmemory-policy/, qr/config rewrite/;
$pages->type('INSTALL', qr/ACL SETUSER/, @at);
my $relay = Clairon::Test::relay($pg, $store, conf => { 'store.url' => "redis://relay:store-secret\@127.0.0.1:$port" });
my $client = $relay->client('u1');
$pg->safe_psql('postgres', "INSERT INTO one (owner) VALUES ('u1')");
$client->wait_notifications(1);
$client->close;
$relay->stop;

for my $pattern (qr/ping/, qr/loading/, qr/used_memory_human/, qr/aof_last_write_status\|rdb/, qr/^\$CLI bgsave/, qr/connected_slaves/, qr/slowlog/, qr/aof_delayed_fsync/, qr/xpending/, qr/xrange/)
{
    isnt($pages->type('RUNBOOKS', $pattern, @at), '', 'it prints its result');
}
$pages->type('RUNBOOKS', qr/config set maxmemory/, @at);
$pages->type('RUNBOOKS', qr/latency-history/, @at, seconds => 3);
$store->execute('XGROUP', 'CREATE', 'clairon:receipts', 'sql', '$', 'MKSTREAM');
$pages->type('RUNBOOKS', qr/XGROUP DESTROY/, @at);

wait_until('the replica is in sync', sub { $replica->execute('INFO', 'replication') =~ /master_link_status:up/ });
like($pages->type('FAILOVER', qr/master_link_status/, @at, %of_replica), qr/master_link_status:up/, 'the replica is in sync');
$pages->type('FAILOVER', qr/REPLICAOF/, @at, %of_replica);
is($replica->execute('ROLE')->[0], 'master', 'the replica is promoted');

wait_until('the snapshot is complete', sub { $store->execute('INFO', 'persistence') =~ /rdb_bgsave_in_progress:0/ });
$pages->type('UPGRADE', qr/bgsave/, @at);
$store->execute('XADD', 'trial:stream', '*', 'data', '{}');
$store->execute('XADD', 'trial:stream', '*', 'data', '{}');
$pages->type('UPGRADE', qr/xlen/,             @at);
$pages->type('UPGRADE', qr/xrevrange/,        @at);
$pages->type('UPGRADE', qr/xgroup create/,    @at);
$pages->type('UPGRADE', qr/xreadgroup/,       @at);
$pages->type('UPGRADE', qr/^\$CLI del clairon/, @at);
is($store->execute('EXISTS', 'clairon:progress:clairon'), 0, 'the progress is deleted');
$store->execute('SET', 'clairon:{15}:progress:clairon', 1);
$pages->type('UPGRADE', qr/seq 0 15/, @at);
$pages->type('INSTALL', qr/--scan/,   @at);
is(join(' ', grep { /^clairon:/ } @{ $store->execute('KEYS', '*') }), '', 'no key of the relay remains');

is($pages->untyped($_), '', "all commands of $_.md for the store were typed") for qw(FAILOVER INSTALL RUNBOOKS UPGRADE);
done_testing();
