# Tests that the relay distinguishes a standby without new WAL from a standby with an idle primary, and logs the cause.
use strict;
use warnings;

use Clairon::Test qw(wait_until pg_major);
use Test::More;

plan skip_all => 'PostgreSQL before 16 cannot decode on a standby' if pg_major() < 16;

my $primary = Clairon::Test::postgresql('primary');
$primary->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner');
    ALTER ROLE relay SET default_transaction_isolation = 'serializable'; -- no standby takes that
    ALTER ROLE relay SET statement_timeout = '500ms'}); # its queries may take a second
my $standby = Clairon::Test::standby($primary, conf => "wal_retrieve_retry_interval = 200ms\nmax_standby_streaming_delay = -1\n");
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($standby, $store, conf => {
    'feed.primary_conninfo' => $primary->connstr('postgres') . ' user=relay' });
my $again = qr/level=info .*WAL replay resumed on this standby/;

# With several hosts, the relay checks the server that it is connected to.
$relay->stop;
$primary->stop('immediate');
$relay->configure('feed.conninfo' => sprintf 'host=%s,%s port=%d,%d dbname=postgres user=relay',
    $primary->host, $standby->host, $primary->port, $standby->port);
$relay->start;
$relay->wait_ready;
$primary->start;

sub is_stalled { return $relay->metric('clairon_feed_standby_stalled') }

is(is_stalled(), 0, 'a standby with an idle primary is not stalled');
my $mark = $relay->log_mark;
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$relay->wait_for_log(qr/level=warn .*replay is paused.*SELECT pg_wal_replay_resume\(\)/, from => $mark);
is(is_stalled(), 1, 'a paused replay is reported with a hint');
like(($relay->get('/readyz'))[1], qr/"feed":"stalled"/, '/readyz reports it');
is(($relay->get('/readyz'))[0], 200, 'the relay still serves its clients');
is(($relay->get('/readyz?need=feed'))[0], 503, 'it has no working feed');
$mark = $relay->log_mark;
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
$relay->wait_for_log($again, from => $mark);

$mark = $relay->log_mark;
$primary->stop('immediate');
$relay->wait_for_log(qr/component=feed level=warn .*WAL replay stalled on this standby" detail="the WAL receiver is not running/, from => $mark);
is(is_stalled(), 1, 'a stopped primary is detected');
$mark = $relay->log_mark;
$primary->start;
$relay->wait_for_log($again, from => $mark);
is(is_stalled(), 0, 'the relay detects that the primary is running again');
like(($relay->get('/readyz?need=feed'))[1], qr/"feed":"streaming"/, '/readyz reports that the feed works again');

# A query on the standby delays replay.
$mark = $relay->log_mark;
my $reader = $standby->background_psql('postgres');
$reader->query_safe('BEGIN; SELECT count(*) FROM t');
$primary->safe_psql('postgres', 'ALTER TABLE t ADD COLUMN more text; CREATE TABLE other AS SELECT generate_series(1, 5000) n');
$relay->wait_for_log(qr/level=warn .*replay is stalled at .* of received WAL after it.*pg_stat_activity/, from => $mark);
is(is_stalled(), 1, 'a delayed replay is detected');
$mark = $relay->log_mark;
$reader->query_safe('ROLLBACK');
$reader->quit;
$relay->wait_for_log($again, from => $mark);

# The status query fails after the extension is dropped or the grant is revoked.
$mark = $relay->log_mark;
$primary->safe_psql('postgres', 'REVOKE clairon_relay FROM relay');
$relay->wait_for_log(qr/level=warn .*could not query the server's status.*permission denied.*hint="grant clairon_relay/, from => $mark);
$mark = $relay->log_mark;
$primary->safe_psql('postgres', 'GRANT clairon_relay TO relay');
$relay->wait_for_log(qr/level=info .*server status query succeeded again/, from => $mark);
$primary->safe_psql('postgres', 'DROP EXTENSION clairon CASCADE');
$relay->wait_for_log(qr/level=warn .*could not query the server's status.*does not exist.*hint="run CREATE EXTENSION clairon/, from => $mark);
$primary->safe_psql('postgres', q{CREATE EXTENSION clairon; SELECT clairon.watch('t', 'USER', 'owner')});
pass('a failed status query is logged');

$primary->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1')});
wait_until('the row is stored', sub { $store->entries == 1 });
unlike($relay->log_text, qr/retry_s=/, 'the replication stream is not interrupted');

done_testing();
