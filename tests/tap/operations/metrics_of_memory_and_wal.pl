# Tests that metrics contain the memory of the store and its limit, and the WAL that the slot retains: also while the feed
# is down.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
$pg->safe_psql('postgres', q{ALTER SYSTEM SET max_slot_wal_keep_size = '640MB'; SELECT pg_reload_conf()});
my $relay   = Clairon::Test::relay($pg, $store);
sub value { return $relay->metric("clairon_$_[0]") // 0 }

wait_until('the memory of the store is known', sub { value('store_memory_bytes') > 100_000 });
is(value('store_memory_max_bytes'), 0, 'the store has no limit');
$store->execute('CONFIG', 'SET', 'maxmemory', 512 << 20);
wait_until('its limit is known', sub { value('store_memory_max_bytes') == 512 << 20 });

wait_until('the WAL that may still be written is known', sub { value('feed_safe_wal_bytes') > 400 << 20 });
cmp_ok(value('feed_retained_wal_bytes'), '<', 64 << 20, 'the slot of a connected feed retains little');
$store->stop;
wait_until('the feed is down', sub { !value('feed_connected') });
$pg->safe_psql('postgres', 'CREATE TABLE much AS SELECT repeat(md5(i::text), 100) AS t FROM generate_series(1, 60000) AS i; ALTER TABLE much ALTER t SET STORAGE EXTERNAL;
    INSERT INTO much SELECT repeat(md5(i::text), 300) FROM generate_series(1, 10000) AS i; SELECT pg_switch_wal()');
wait_until('the WAL that the slot retains without a feed is known', sub { value('feed_retained_wal_bytes') > 64 << 20 });
cmp_ok(value('feed_safe_wal_bytes'), '<', 600 << 20, 'and what may still be written');
$pg->safe_psql('postgres', q{ALTER SYSTEM RESET max_slot_wal_keep_size; SELECT pg_reload_conf()});
wait_until('a slot without a limit is reported by 0', sub { value('feed_safe_wal_bytes') == 0 });

$store->start;
wait_until('the feed streams', sub { value('feed_connected') });
wait_until('only the status query is left', sub { $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT ''wal''%'}) <= 1 });
done_testing();
