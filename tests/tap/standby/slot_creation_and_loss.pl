# Tests slots on a standby: creation with the primary's help, with a timeout, and recreation after a loss.
use strict;
use warnings;

use Clairon::Test qw(wait_until pg_major);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

plan skip_all => 'PostgreSQL before 16 cannot decode on a standby' if pg_major() < 16;

my $primary = Clairon::Test::postgresql('primary', conf => "log_statement = all\n");
my $standby = Clairon::Test::standby($primary);

sub sql { return $primary->safe_psql('postgres', $_[0]) }
sub standby_sql { return $standby->safe_psql('postgres', $_[0]) }

my ($relay, $row) = (undef, 0);
sub insert { sql(sprintf q{INSERT INTO t VALUES (%d, 'u1')}, ++$row); return $row }

sub wait_primary_logs
{
    my ($pattern, $from) = @_;
    wait_until("the primary logs $pattern",
        sub { substr(slurp_file($primary->logfile), $from) =~ $pattern });
    return;
}

sub set_standby
{
    my (%settings) = @_;
    $standby->append_conf('postgresql.conf', join '', map { "$_ = $settings{$_}\n" } keys %settings);
    $standby->restart;
    return;
}

sub check_gap
{
    my ($client, $how) = @_;
    my $reconnected = $relay->client('u1', pos => $client->pos);
    is($reconnected->wait_for('gap')->{why}, 'epoch', "$how: clients receive a gap");
    $reconnected->wait_row(insert());
    return $reconnected;
}

sql(q{CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});

# A transaction stays open, so no slot can be created, regardless of the log records.
my $open_transaction = $primary->background_psql('postgres');
$open_transaction->query_safe('BEGIN; SELECT pg_current_xact_id()');
my $store = Clairon::Test::store(fsync => 'always');
$relay =
  Clairon::Test::relay($standby, $store, wait => 0, conf => { 'feed.create_timeout' => '1s' });
$relay->wait_for_log(qr/creating slot on a standby.*pg_log_standby_snapshot\(\).*primary_conninfo/);
$relay->wait_for_log(qr/could not create the replication slot within .*timeout_s=1\.0.*retry_s=/);
pass('without the primary\'s help, slot creation ends at its timeout');
$relay->stop;
wait_until('no slot remains', sub {
    standby_sql('SELECT count(*) FROM pg_replication_slots') == 0 });
pass('no slot remains after the timeout');

# The role lacks the privilege to call pg_log_standby_snapshot().
sql('CREATE ROLE stranger LOGIN');
$relay->configure('feed.create_timeout' => '5m',
    'feed.primary_conninfo' => $primary->connstr('postgres') . ' user=stranger');
my $mark = $relay->log_mark;
$relay->start;
my $log = $relay->wait_for_log(qr/could not request a snapshot .*permission denied/, from => $mark);
is(() = $log =~ /could not request a snapshot/g, 1, 'a rejection by the primary is logged');
$relay->stop;

# The role has the privilege; a transaction is open, and then ends.
$relay->configure('feed.primary_conninfo' => $primary->connstr('postgres') . ' user=relay');
($mark, my $from) = ($relay->log_mark, -s $primary->logfile);
$relay->start;
$relay->wait_for_log(qr/calling pg_log_standby_snapshot\(\) on its primary/, from => $mark);
wait_primary_logs(qr/pg_log_standby_snapshot\(\).*pg_log_standby_snapshot\(\)/s, $from);
pass('the relay repeatedly requests a snapshot record from the primary');
$open_transaction->query_safe('ROLLBACK');
$open_transaction->quit;
$relay->wait_ready;
wait_until('the relay stops the requests after the slot is created', sub {
    sql(q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'relay'}) == 0 });
my $client = $relay->client('u1');
$client->wait_row(insert());
pass('the slot is read');

# Without hot_standby_feedback, the primary removes rows that the slot requires.
$mark = $relay->log_mark;
set_standby(hot_standby_feedback => 'off');
wait_until('the primary retains no rows for the standby', sub {
    sql(q{SELECT catalog_xmin IS NULL FROM pg_replication_slots WHERE slot_name = 'standby'}) eq 't' });
sql(q{SELECT clairon.unwatch('t'); VACUUM FULL clairon.rule; VACUUM FULL pg_class;
    SELECT clairon.watch('t', 'USER', 'owner'); CREATE TABLE later (id int); DROP TABLE later;
    VACUUM FREEZE clairon.rule; VACUUM FREEZE pg_class; VACUUM FREEZE pg_attribute});
$relay->wait_for_log(qr/slot is lost.*primary removed catalog rows.*hot_standby_feedback = on/, from => $mark);
pass('a slot with removed rows is logged with a hint');
set_standby(hot_standby_feedback => 'on');
$relay->wait_for_log(qr/lost slot dropped.*slot created/s, from => $mark);
$relay->wait_ready;
$client = check_gap($client, 'rows removed, slot recreated');

# The primary stops logging data that decoding requires.
$mark = $relay->log_mark;
$primary->append_conf('postgresql.conf', "wal_level = replica\n");
$primary->restart;
$relay->wait_for_log(qr/wal_level/, from => $mark);
$relay->wait_for_log(qr/slot is lost.*\bwal_level = logical on the primary/, from => $mark);
pass('an insufficient wal_level is logged with a hint');
$primary->append_conf('postgresql.conf', "wal_level = logical\n");
$primary->restart;
$relay->wait_for_log(qr/slot created/, from => $mark);
$relay->wait_ready;
$client = check_gap($client, 'wal_level corrected');

# A promoted standby is an ordinary primary, so the relay does not connect to the old primary.
$primary->stop('immediate');
$standby->promote;
standby_sql(q{INSERT INTO t VALUES (1000, 'u1')});
$client->wait_row(1000);
pass('the promotion of the standby causes no loss');

done_testing();
