# Tests that the doctor reports each problem of PostgreSQL and the settings with a fix, and without secrets.
use strict;
use warnings;

use Clairon::Test qw(wait_until free_port);
use Clairon::Test::Doctor qw(doctor failed_checks finds warns repaired);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "max_slot_wal_keep_size = 1GB\n");
my $store = Clairon::Test::store();
$store->execute('CONFIG', 'SET', 'maxmemory', '1gb');
sub sql { return $pg->safe_psql('postgres', $_[0]) }
sql(q{CREATE TABLE t (id int PRIMARY KEY, owner text); ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'owner')});
my $relay = $Clairon::Test::Doctor::relay = Clairon::Test::relay($pg, $store, conf => { 'gate.max_connections' => 100 });

# A healthy configuration.
my ($code, $out, $err) = doctor();
is($code, 0, 'the doctor exits with 0 for a healthy configuration') or diag $out, $err;
like($out, qr/^all checks passed$/m, 'the last line is a summary');
like($out, qr/^ok +postgresql  wal_level: wal_level is logical$/m, 'each check has a line');
like($out, qr/^ok +postgresql  replica identity of public\.t: full$/m, 'a complete rule names no column');
unlike($out, qr/ERROR|WARN|hint:/, 'a healthy configuration causes no hint');
repaired('--json reports no failed check');
is((doctor('--quiet'))[1], "all checks passed\n", '--quiet prints only problems');

# Invalid arguments and settings exit with 2.
for my $case ([ ['--nonsense'], qr/unknown argument --nonsense/ ], [ ['--feed.slot=A-B'], qr/slot/ ],
    [ ['--feed.conninfo=a b'], qr/conninfo/ ], [ ['--auth.hs256_secret_file=/nonexistent'], qr/nonexistent/ ])
{
    ($code, $out, $err) = doctor(@{ $case->[0] });
    is($code, 2, "@{ $case->[0] } exits with 2");
    like($err, $case->[1], "@{ $case->[0] } prints the reason");
}
is((doctor('--help'))[0], 0, '--help exits with 0');
like((doctor('--feed.conninfo=' . $pg->connstr('no_such')))[1], qr/"no_such" does not exist\s+hint: dbname in/, 'a wrong database name is not reported as a stopped server');

# Problems of rules and tables are reported.
sql('ALTER TABLE t REPLICA IDENTITY DEFAULT');
finds('a target column that is not in the replica identity', 'postgresql: replica identity of public.t', qr/by key.*"owner"/,
    qr/ALTER TABLE public\.t REPLICA IDENTITY FULL/);
sql('ALTER TABLE t REPLICA IDENTITY NOTHING');
finds('no replica identity', 'postgresql: key of public.t', qr/nothing/, qr/REPLICA IDENTITY FULL/);
sql('ALTER TABLE t REPLICA IDENTITY FULL; ALTER TABLE t SET UNLOGGED');
finds('an unlogged table', 'postgresql: rule default on public.t', qr/unlogged/, qr/ALTER TABLE public\.t SET LOGGED;/);
sql('ALTER TABLE t SET LOGGED; CREATE TABLE gone (a int, b int); ALTER TABLE gone REPLICA IDENTITY FULL;'
    . q{SELECT clairon.watch('gone', 'USER', 'a'); ALTER TABLE gone DROP COLUMN a});
finds('a dropped target column', 'postgresql: rule default on public.gone', qr/dropped/, qr/clairon\.watch/);
sql('DROP TABLE gone; CREATE TABLE late (id int PRIMARY KEY DEFERRABLE, owner text)');
sql(q{SELECT clairon.watch('late', 'USER', 'id')});
my $late = finds('a deferrable key', 'postgresql: key of public.late', qr/deferrable/, qr/REPLICA IDENTITY FULL/);
like($late->{'postgresql: replica identity of public.late'}{detail}, qr/"id"/, 'a deferrable key also lacks the target in the replica identity');
sql('DROP TABLE late');
sql(q{CREATE TABLE messages (id int PRIMARY KEY, recipient text);
    SELECT clairon.watch('messages', 'USER', 'recipient', operations => '{create}')});
repaired('a rule that sends only inserts needs no old row');
sql('DROP TABLE messages');
sql('ALTER TABLE clairon.rule DISABLE TRIGGER rule_written');
my $found = finds('a disabled trigger', 'postgresql: triggers', qr/8 of 9/, qr/ALTER TABLE clairon\.rule ENABLE ALWAYS TRIGGER rule_written;/);
sql($found->{'postgresql: triggers'}{hint});
repaired('the hint\'s command fixes the problem');
sql('ALTER TABLE clairon.rule SET (user_catalog_table = false); ALTER TABLE clairon.rule ALTER topic SET STORAGE EXTENDED');
$found = finds('a changed rule table', 'postgresql: table clairon.rule', qr/topic/, qr/user_catalog_table = true/);
my ($command) = $found->{'postgresql: table clairon.rule'}{hint} =~ /: (ALTER.*)/;
sql($command);
repaired('the hint\'s command fixes the problem');
sql('CREATE TEMP TABLE kept AS TABLE clairon.rule; DELETE FROM clairon.rule');
finds('a database without rules', 'postgresql: rules', qr/^0 rules/, qr/clairon\.watch/);
sql(q{SELECT clairon.watch('t', 'USER', 'owner')});

# Problems of roles and grants are reported.
sql('ALTER ROLE relay NOREPLICATION');
$found = finds('a role without REPLICATION', 'postgresql: role', qr/no REPLICATION/, qr/ALTER ROLE relay LOGIN REPLICATION/);
like($found->{q{postgresql: relay's role}}{hint}, qr/CREATE ROLE/, 'clairon.doctor() reports a missing REPLICATION');
like($found->{'postgresql: replication'}{hint}, qr/REPLICATION/,
    'a replication connection fails without the REPLICATION attribute');
sql('ALTER ROLE relay REPLICATION SUPERUSER');
finds('a superuser', 'postgresql: role', qr/superuser/, qr/NOSUPERUSER/);
sql('ALTER ROLE relay NOSUPERUSER; REVOKE clairon_relay FROM relay');
finds('a role without grants', 'postgresql: role', qr/not a member of clairon_relay/, qr/GRANT clairon_relay TO relay/);
sql('GRANT clairon_relay TO relay; REVOKE SELECT ON clairon.member FROM clairon_relay');
finds('a revoked grant', 'postgresql: grant on clairon.member', qr/lacks SELECT/, qr/GRANT SELECT ON clairon\.member/);
sql('GRANT SELECT ON clairon.member TO clairon_relay');
repaired('the roles are correct again');
sql('CREATE ROLE "An app"; CREATE ROLE admin SUPERUSER; GRANT SELECT, INSERT, DELETE ON clairon.member TO "An app"; GRANT SELECT, DELETE ON clairon.receipt, clairon.once_key TO "An app";'
    . 'GRANT ALL ON ALL TABLES IN SCHEMA clairon TO admin; GRANT ALL ON ALL FUNCTIONS IN SCHEMA clairon, clairon_internal TO admin; GRANT EXECUTE ON FUNCTION clairon.forget TO "An app"');
repaired('grants that applications need are not reported');
sql('GRANT ALL ON ALL TABLES IN SCHEMA clairon TO "An app"; GRANT ALL ON ALL FUNCTIONS IN SCHEMA clairon, clairon_internal TO "An app";'
    . 'GRANT INSERT ON clairon.rule TO PUBLIC; GRANT ALL ON clairon.receipt TO clairon_relay, clairon_app');
$found = finds('a role that may write the table of rules', 'postgresql: grants on clairon.rule to "An app"', qr/^"An app" has DELETE, INSERT, REFERENCES/, qr/^REVOKE DELETE, INSERT, .* ON clairon\.rule FROM "An app";$/);
like($found->{'postgresql: grants on functions to "An app"'}{detail}, qr/may call internal functions/, 'a role that may call internal functions is reported');
is_deeply([ sort keys %$found ], [ map { "postgresql: grants on $_" } sort((map { "clairon.$_ to \"An app\"" } qw(member notify_key once_key receipt reload rule secret)),
    'clairon.receipt to clairon_app', 'clairon.receipt to clairon_relay', 'clairon.rule to PUBLIC', 'functions to "An app"') ], 'each grant is reported');
sql($_->{hint}) for values %$found;
repaired('the hints revoke the grants');
is(sql(q{SELECT has_table_privilege('clairon_relay', 'clairon.receipt', 'INSERT'), has_table_privilege('clairon_app', 'clairon.receipt', 'SELECT')}), 't|t', 'the hints revoke nothing else');
sql('DROP OWNED BY "An app", admin; DROP ROLE "An app", admin');

# The extension and the plugin.
sql(q{UPDATE pg_extension SET extversion = '0.0.9' WHERE extname = 'clairon'});
finds('an extension that was not upgraded', 'postgresql: extension', qr/version 0\.0\.9, files 0\.1\.0, plugin 0\.1\.0/,
    qr/ALTER EXTENSION clairon UPDATE/);
sql(q{UPDATE pg_extension SET extversion = '0.1.0' WHERE extname = 'clairon'});
sql('CREATE DATABASE bare');
finds('no extension', 'postgresql: extension', qr/clairon/, qr/CREATE EXTENSION clairon/,
    '--feed.conninfo=' . $pg->connstr('bare') . ' user=relay');

# Problems of slots are reported.
finds('a slot of another database', 'postgresql: feed.slot', qr/another database/, qr/conninfo/,
    '--feed.conninfo=' . $pg->connstr('bare') . ' user=relay');
finds('no slot, with create_slot off', 'postgresql: feed.slot', qr/none does not exist/,
    qr/pg_create_logical_replication_slot\('none', 'clairon'\)/, '--feed.slot=none', '--feed.create_slot=off');
sql(q{SELECT pg_create_logical_replication_slot('other', 'test_decoding')});
finds('a slot of another plugin', 'postgresql: feed.slot', qr/plugin test_decoding/, qr/another \[feed\] slot/, '--feed.slot=other');
sql(q{SELECT pg_drop_replication_slot('other'); SELECT pg_create_logical_replication_slot('idle', 'clairon')});
finds('an inactive slot', 'postgresql: slot idle', qr/inactive/, qr/pg_drop_replication_slot\('idle'\)/);
sql(q{SELECT pg_drop_replication_slot('idle'); SELECT pg_create_physical_replication_slot('copy', true)});
finds('an inactive physical slot', 'postgresql: physical slot copy', qr/inactive/,
    qr/pg_drop_replication_slot\('copy'\)/);
sql(q{SELECT pg_drop_replication_slot('copy')});
sub is_synchronous { return sql(q{SELECT bool_or(sync_state <> 'async') FROM pg_stat_replication}) eq 't' }
sql(q{ALTER SYSTEM SET synchronous_standby_names = '*'});
$pg->reload;
wait_until('the relay counts as a standby', \&is_synchronous);
finds('commits that wait for the relay', 'postgresql: synchronous_standby_names', qr/wait for slot clairon,.* is \*/,
    qr/Name the standbys/);
sql('ALTER SYSTEM RESET synchronous_standby_names');
$pg->reload;
wait_until('the relay no longer counts as a standby', sub { !is_synchronous() });

# Server settings are checked; settings that need a restart come last.
my %settings = (wal_sender_timeout => 0);
for my $name (sort keys %settings)
{
    sql("ALTER SYSTEM SET $name = $settings{$name}");
    $pg->reload;
    wait_until("$name is in effect", sub { sql("SHOW $name") =~ /^(-1|0)$/ });
    my @case = ("$name = $settings{$name}", "postgresql: $name", qr/unlimited|off/, qr/ALTER SYSTEM SET $name = '\w+';/);
    my $row = $name eq 'max_slot_wal_keep_size' ? warns(@case) : finds(@case)->{"postgresql: $name"};
    my ($fix) = $row->{hint} =~ /(ALTER SYSTEM SET [^;]+;)/;
    sql($fix);
    $pg->reload;
    wait_until("$name is reset", sub { sql("SHOW $name") !~ /^(-1|0)$/ });
}
repaired('the hints\' commands fix the settings');

# Warnings have ok = true and a hint. Other checks with ok = true have no hint.
sql('ALTER SYSTEM SET max_slot_wal_keep_size = -1');
$pg->reload;
wait_until('the limit is removed', sub { sql('SHOW max_slot_wal_keep_size') eq '-1' });
repaired('unlimited WAL is not an error');
my $warnings = q{SELECT ok, check_name, detail, hint FROM clairon.doctor() WHERE hint IS NOT NULL};
like(sql($warnings), qr/^t\|max_slot_wal_keep_size\|.*unlimited\|.*ALTER SYSTEM SET max_slot_wal_keep_size = '64GB'; SELECT pg_reload_conf\(\);$/,
    'a missing limit is a warning with a hint');
sql($1) if sql($warnings) =~ /(ALTER SYSTEM SET [^;]+;)/;
$pg->reload;
wait_until('the limit is set', sub { sql('SHOW max_slot_wal_keep_size') ne '-1' });
is(sql($warnings), '', 'the hint\'s command removes the warning');
SKIP: {
    skip 'this minor release has no output_plugin_libraries', 2 if sql(q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'}) eq '0';
    sql('ALTER SYSTEM SET output_plugin_libraries = pgoutput, test_decoding');
    $pg->reload;
    wait_until('the list lacks the plugin', sub { sql('SHOW output_plugin_libraries') !~ /clairon/ });
    $found = finds('a plugin that is not on the list', 'postgresql: output_plugin_libraries', qr/pgoutput, test_decoding/,
        qr/ALTER SYSTEM SET output_plugin_libraries = pgoutput, test_decoding, clairon;/);
    my ($fix) = $found->{'postgresql: output_plugin_libraries'}{hint} =~ /(ALTER SYSTEM SET [^;]+;)/;
    sql($fix);
    $pg->reload;
    wait_until('the list is complete', sub { sql('SHOW output_plugin_libraries') =~ /clairon/ });
    repaired('the hint\'s command fixes the problem');
}

# The server has removed the WAL that a slot requires.
$relay->stop;
sql(q{ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'});
$pg->reload;
wait_until('the slot is lost', sub {
    sql('SELECT pg_switch_wal(); CHECKPOINT') for 1 .. 3;
    sql('INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t');
    sql(q{SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'clairon'}) eq 'lost' });
finds('a lost slot', 'postgresql: slot clairon', qr/lost: wal_removed/, qr/Raise max_slot_wal_keep_size.*pg_drop_replication_slot\('clairon'\)/);

# Both servers are stopped; the output contains no secrets.
$pg->append_conf('postgresql.conf', 'wal_level = replica');
sql(q{SELECT pg_drop_replication_slot('clairon')});
$pg->restart;
finds('wal_level = replica', 'postgresql: wal_level', qr/replica/, qr/ALTER SYSTEM SET wal_level = 'logical'/);
$relay->configure('feed.conninfo' => "host=127.0.0.1 port=" . free_port() . " dbname=x user=relay password=hush-hush",
    'store.url' => 'redis://u:hush-hush@127.0.0.1:' . free_port());
chmod 0644, $relay->{file};
$found = finds('a stopped PostgreSQL', 'postgresql: connection', qr/refused/i, qr/Start PostgreSQL/);
like($found->{'store: connection'}{detail}, qr/could not connect/, 'a stopped store is reported too');
($code, $out, $err) = doctor();
unlike($out . $err, qr/hush/, 'passwords are not printed');
is(index($out . $err, $Clairon::Test::SECRET), -1, 'the token secret is not printed');

done_testing();
