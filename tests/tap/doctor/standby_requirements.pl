# Tests that the doctor checks the requirements for decoding on a standby, both on the standby and on its primary.
use strict;
use warnings;

use Clairon::Test qw(wait_until pg_major);
use Clairon::Test::Doctor qw(doctor failed_checks finds repaired);
use JSON ();
use Test::More;

my $primary = Clairon::Test::postgresql('primary', conf => "max_slot_wal_keep_size = 1GB\n");
my $store   = Clairon::Test::store();
sub sql { return $primary->safe_psql('postgres', $_[0]) }
sql(q{CREATE TABLE t (id int PRIMARY KEY, owner text); ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'owner');
    ALTER ROLE relay SET default_transaction_isolation = 'serializable'});
my $standby = Clairon::Test::standby($primary);
sub standby_sql { return $standby->safe_psql('postgres', $_[0]) }
$primary->wait_for_catchup($standby);
my $relay = $Clairon::Test::Doctor::relay = Clairon::Test::relay($standby, $store, start => 0, roles => 'feed');
my $primary_option = '--primary=' . $primary->connstr('postgres');

# A relay that moved from the primary to its standby has left its slot there.
sql(q{SELECT pg_create_logical_replication_slot('left_there', 'clairon')});
my (undef, $report) = doctor('--json', $primary_option);
my ($left) = grep { $_->{check} eq 'unused slot' } @{ JSON::decode_json($report)->{checks} };
is($left->{level}, 'warn', 'an unused slot on the primary causes a warning');
like($left->{detail}, qr/^slot left_there is not active, and retains \d+ \w+ of WAL$/, 'the warning names the slot');
like($left->{hint}, qr/on the primary: SELECT pg_drop_replication_slot\('left_there'\)/, 'the warning has the command that drops it');
sql(q{SELECT pg_drop_replication_slot('left_there')});

if ((my $major = pg_major()) < 16)
{
    finds('a standby before 16', 'postgresql: server', qr/a standby/, qr/before 16.*name its primary in \[feed\] conninfo/);
    SKIP: { skip "PostgreSQL $major cannot decode on a standby", 1 }
    done_testing();
    exit;
}

$relay->start;
wait_until('the slot is being created', sub {
    standby_sql(q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'clairon' AND restart_lsn IS NOT NULL}) });
sql('SELECT pg_log_standby_snapshot()');
$relay->wait_for_log(qr/streaming from slot/);
wait_until('the primary has the standby\'s xmin', sub { sql(q{SELECT catalog_xmin IS NOT NULL FROM pg_replication_slots}) eq 't' });
my ($code, $out, $err) = doctor();
is($code, 0, 'a healthy standby passes all checks') or diag $out, $err;
like($out, qr/primary +connection: skipped: set --primary=CONNINFO or/, 'checks that need the primary are listed as skipped');
($code, $out, $err) = doctor('--feed.primary_conninfo=' . $primary->connstr('postgres'));
is($code, 0, 'a healthy standby with its primary passes all checks') or diag $out, $err;
like($out, qr/physical slot: standby is active, reserved, retains catalog rows/, 'the physical slot retains the required rows');

# The standby has wrong settings.
sub reload { my ($setting, $value) = @_;
    standby_sql("ALTER SYSTEM SET $setting = $value");
    $standby->reload;
    wait_until("$setting is $value", sub { standby_sql("SELECT current_setting('$setting') = '" . ($value =~ s/'//gr) . "'") eq 't' });
    return }
reload('hot_standby_feedback', 'off');
my $found = finds('no feedback', 'postgresql: hot_standby_feedback', qr/is off/, qr/ALTER SYSTEM SET hot_standby_feedback = on;/);
reload('hot_standby_feedback', 'on');
reload('wal_receiver_status_interval', 0);
finds('no status', 'postgresql: hot_standby_feedback', qr/interval is 0/, qr/ALTER SYSTEM SET wal_receiver_status_interval = '10s';/);
reload('wal_receiver_status_interval', q{'10s'});
standby_sql('SELECT pg_wal_replay_pause()');
finds('paused replay', 'postgresql: replay', qr/paused/, qr/^SELECT pg_wal_replay_resume\(\);$/);
standby_sql('SELECT pg_wal_replay_resume()');
sql('ALTER TABLE t REPLICA IDENTITY DEFAULT');
$primary->wait_for_catchup($standby);
finds('a problem that is fixed on the primary', 'postgresql: replica identity of public.t', qr/by key/, qr/^On the primary: ALTER TABLE public\.t REPLICA IDENTITY FULL/);
sql('ALTER TABLE t REPLICA IDENTITY FULL');
$primary->wait_for_catchup($standby);
is_deeply(failed_checks($primary_option), {}, 'the repaired standby passes all checks');

# The option --primary names another server or a stopped server; then the physical slot is missing.
my $other = Clairon::Test::postgresql('other');
finds('another server', 'primary: system', qr/identifier/, qr/--primary must be the primary/, '--primary=' . $other->connstr('postgres'));
finds('a stopped primary', 'primary: connection', qr/No such file|refused/, qr//, '--primary=host=/nonexistent');
unlike(failed_checks('--primary=password=hush hush')->{'primary: connection'}{detail}, qr/hush/, 'an invalid connection string is not printed');
reload('primary_slot_name', q{''});
$found = finds('no physical slot', 'postgresql: hot_standby_feedback', qr/primary_slot_name is ""/, qr/pg_create_physical_replication_slot/);
wait_until('the slot is inactive', sub { sql(q{SELECT active FROM pg_replication_slots WHERE slot_name = 'standby'}) eq 'f' });
reload('primary_slot_name', q{'gone'});
$found = finds('a missing physical slot', 'primary: physical slot', qr/gone does not exist/,
    qr/pg_create_physical_replication_slot\('gone', true\)/, $primary_option);
ok($found->{'postgresql: WAL receiver'}, 'a standby that receives no WAL is reported');
is($primary->safe_psql('postgres', q{SELECT ok FROM clairon.doctor() WHERE check_name = 'physical slot standby'}), 'f',
    'the primary reports an inactive slot');
reload('primary_slot_name', q{'standby'});
wait_until('WAL is received again', sub { sql(q{SELECT active FROM pg_replication_slots WHERE slot_name = 'standby'}) eq 't' });
wait_until('the WAL receiver is reported', sub { standby_sql('SELECT count(*) FROM pg_stat_wal_receiver') });

# The primary has removed rows that a slot on the standby required, and the slot was not recreated.
$relay->stop;
reload('hot_standby_feedback', 'off');
wait_until('no rows are retained', sub { sql(q{SELECT catalog_xmin IS NULL FROM pg_replication_slots WHERE slot_name = 'standby'}) eq 't' });
sql($_) for 'CREATE TABLE passing (a int)', 'DROP TABLE passing', 'VACUUM pg_class', 'VACUUM pg_attribute';
wait_until('the slot is lost', sub { standby_sql(q{SELECT conflicting FROM pg_replication_slots WHERE slot_name = 'clairon'}) eq 't' });
finds('a slot in conflict', 'postgresql: slot clairon', qr/lost: (rows_removed|conflict)/,
    qr/hot_standby_feedback = on and primary_slot_name.*pg_drop_replication_slot\('clairon'\)/);
like(standby_sql(q{SELECT lost_because FROM clairon.status}), qr/rows_removed|conflict/, 'clairon.status contains the reason');

# The primary has a lower wal_level, which SHOW wal_level on the standby does not return.
$primary->append_conf('postgresql.conf', 'wal_level = replica');
$primary->restart;
finds('a primary without wal_level', 'primary: wal_level', qr/replica/, qr/wal_level = 'logical'; then restart the primary/, $primary_option);

done_testing();
