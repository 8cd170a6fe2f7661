# Tests that each PostgreSQL connection problem is logged with a clear reason, and that the relay recovers.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $store = Clairon::Test::store();
my $pg    = Clairon::Test::postgresql('main', extension => 0);

# Starts a relay that cannot connect and waits for the log message.
sub expect_reason
{
    my ($name, $wanted, %conf) = @_;
    my $relay = Clairon::Test::relay($pg, $store, wait => 0, conf => { 'relay.roles' => 'feed,gate', %conf });
    $relay->wait_for_log($wanted);
    pass("$name: the log has the cause and a hint");
    is(($relay->get('/readyz?need=feed'))[0], 503, "$name: /readyz?need=feed returns 503");
    is(($relay->get('/healthz'))[0], 200, "$name: /healthz returns 200");
    return $relay;
}

$pg->safe_psql('postgres', 'CREATE ROLE relay LOGIN REPLICATION');
my $relay = expect_reason('no extension', qr/clairon\.member.*CREATE EXTENSION clairon/);
$pg->safe_psql('postgres', 'CREATE EXTENSION clairon; GRANT clairon_relay TO relay');
$relay->wait_ready;
pass('no extension: the relay recovers after the extension is created');
$relay->stop;
$pg->drop_slot('clairon');

$relay = expect_reason('no slot', qr/slot does not exist" slot="clairon".*create_slot = on/,
    'feed.create_slot' => 'off');
$pg->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('clairon', 'clairon')});
$relay->wait_ready;
pass('no slot: the relay recovers after the slot is created');
$relay->stop;
$pg->drop_slot('clairon');

$pg->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('clairon', 'test_decoding')});
$relay = expect_reason('foreign slot', qr/slot uses another plugin.*test_decoding/);
$relay->stop;
$pg->drop_slot('clairon');

SKIP:
{
    my $known = $pg->safe_psql('postgres',
        q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'});
    skip 'this server has no list of output plugins', 3 unless $known;
    $pg->safe_psql('postgres', q{ALTER SYSTEM SET output_plugin_libraries = 'test_decoding'});
    $pg->reload;
    $relay = expect_reason('not on the list', qr/add clairon to output_plugin_libraries/);
    $relay->stop;
    $pg->safe_psql('postgres', 'ALTER SYSTEM RESET output_plugin_libraries');
    $pg->reload;
}

$pg->append_conf('postgresql.conf', "wal_level = replica\n");
$pg->restart;
$relay = expect_reason('wal_level', qr/set wal_level = logical/);
$pg->append_conf('postgresql.conf', "wal_level = logical\n");
$pg->stop('fast');
$relay->wait_for_log(qr/could not connect to PostgreSQL/);
$pg->start;
$relay->wait_ready;
pass('a stopped server: the relay recovers after the server is started');
$relay->stop;

$relay = expect_reason('no such role', qr/could not connect to PostgreSQL" error=".*role \S*no_such_role\S* does not exist/,
    'feed.conninfo' => $pg->connstr('postgres') . ' user=no_such_role');
$relay->stop;

$pg->safe_psql('postgres', 'CREATE ROLE reader LOGIN');
$relay = expect_reason('no REPLICATION attribute', qr/LOGIN REPLICATION IN ROLE clairon_relay/,
    'feed.conninfo' => $pg->connstr('postgres') . ' user=reader');
$relay->stop;

done_testing();
