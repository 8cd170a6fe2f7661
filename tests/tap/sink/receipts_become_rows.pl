# Tests that the SQL sink inserts each receipt once, drops only what PostgreSQL does not accept, and costs nothing while it
# is off.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Receipts;
use Test::More;

my $pg       = Clairon::Test::postgresql('main');
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($pg, $store);
sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub backends { return sql(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'clairon sink'}) }

# Without the setting.
my $relay = Clairon::Test::relay($pg, $store);
my @first = $receipts->add({}, { user_id => '', acked => 2, recipients => 3, outcome => 'expired', delivered_at => undef, at => '2026-11-30T04:05:06.123456Z' });
$relay->client('u1');    # work of the relay
is(backends(), 0, 'a relay without a sink opens no connection');
is_deeply($store->execute('XINFO', 'GROUPS', $store->shared('receipts')), [], 'it has no consumer group');
is($relay->metric('clairon_sink_backlog_receipts{sink="sql"}'), 0, 'its metrics are 0');

# With the setting.
$relay->configure('receipts.sql' => 'true');
$relay->restart;
$receipts->wait_all;
is_deeply([ $receipts->rows ], [ sort @first ], 'receipts from before the sink was switched on are inserted');
is(sql(q{SELECT outcome, user_id, round, at AT TIME ZONE 'UTC', delivered_at, attempts, emitter, source, topic, acked, recipients
         FROM clairon.receipt WHERE user_id = ''}),
    'expired||1|2026-11-30 04:05:06.123456||0|app|assignments|db.assignments|2|3', 'each member is a column');
wait_until('the receipts are acknowledged', sub { $receipts->pending('sql') == 0 });
is(backends(), 1, 'the sink uses one connection');

# Repeated receipts.
my ($again) = $receipts->add({ user_id => 'twice' });
my ($notification) = split /:/, $again;
$receipts->add({ user_id => 'twice', notification => $notification, emitter => 'other' }, { user_id => 'twice', notification => $notification, round => 2 });
$receipts->wait_all;
is(sql(q{SELECT string_agg(emitter || ' ' || round, ',' ORDER BY round) FROM clairon.receipt WHERE user_id = 'twice'}),
    'app 1,app 2', 'a repeated receipt is not inserted again; another round is');

# Receipts that PostgreSQL does not accept.
my @good = $receipts->add(map { { emitter => "emitter $_" } } 1 .. 300);
my $store_key = $store->shared('receipts');
for my $bad ('{"id":"a","notification":"no uuid","user_id":"u","outcome":"acked","round":1,"at":"2026-11-30T04:05:06Z"}',
    '{"id":"b","notification":"018f0000-0000-7000-8000-00000000ffff","user_id":"u","outcome":"acked","round":1}', 'no JSON',
    qq({"id":"c","notification":"018f0000-0000-7000-8000-00000000ffff","user_id":"\\u0000","outcome":"acked","round":1,"at":"2026-11-30T04:05:06Z"}))
{
    $store->execute('XADD', $store_key, '*', id => 'bad', data => $bad);
    push @good, $receipts->add(map { {} } 1 .. 20);
}
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'all other receipts are inserted');
wait_until('the bad receipts are counted', sub { $relay->metric('clairon_sink_rejected_total{sink="sql"}') == 4 });
$relay->wait_for_log(qr/msg="could not insert a receipt, dropping it" sink="sql" receipt="bad" sqlstate="23502"/);
unlike($relay->log_text, qr/Failing row/, 'the log has no values of a receipt');
wait_until('nothing is pending', sub { $receipts->pending('sql') == 0 });
is($relay->metric('clairon_sink_failures_total{sink="sql"}'), 0, 'a bad receipt is no failure of the sink');

# The metrics.
cmp_ok($relay->metric('clairon_sink_receipts_total{sink="sql"}'), '>=', 2 + 3 + 300 + 84, 'receipts taken are counted');
cmp_ok($relay->metric('clairon_sink_last_success_timestamp_seconds{sink="sql"}'), '>', 1.7e9, 'the time of the last success is known');
wait_until('the backlog is empty', sub { $relay->metric('clairon_sink_backlog_receipts{sink="sql"}') == 0 && $relay->metric('clairon_sink_oldest_seconds{sink="sql"}') == 0 });

# A receipt that was trimmed while it was pending.
$relay->stop;
my $stream = $store->shared('receipts');
my $entry = $store->execute('XADD', $stream, '*', id => 'gone', data => '{}');
$store->execute('XREADGROUP', 'GROUP', 'sql', 'dead', 'STREAMS', $stream, '>');
$store->execute('XDEL', $stream, $entry);
$relay->start;
$relay->wait_ready;
wait_until('the trimmed receipt is acknowledged', sub { $receipts->pending('sql') == 0 });
wait_until('it is counted', sub { $relay->metric('clairon_sink_dropped_total{sink="sql"}') == 1 });
$relay->wait_for_log(qr/msg="receipts were trimmed before the sink has taken them" sink="sql" receipts=1 /);
wait_until('the consumer of a relay that has ended is removed', sub { join(',', $receipts->consumers('sql')) !~ /dead/ });

# Receipts that were trimmed before a relay has read them: the script that trims counts them in this field.
$store->execute('HSET', $store->shared('sinks'), 'dropped:sql', 7);
wait_until('trimmed receipts are counted', sub { $relay->metric('clairon_sink_dropped_total{sink="sql"}') == 1 + 7 });

# An emptied store.
$store->execute('FLUSHALL');
$receipts->add({});
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'receipts are inserted after the store was emptied');
done_testing();
