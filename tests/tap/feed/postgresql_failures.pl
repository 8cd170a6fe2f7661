# Tests PostgreSQL failures: failed authentication, TLS errors, terminated and crashed servers, and a killed relay that
# used the slot.
use strict;
use warnings;

use Clairon::Test qw(scratch wait_until);
use Test::More;
use Time::HiRes qw(time);

my $folder = scratch();

# Creates a CA, a certificate for localhost signed by the CA, and a CA without signed certificates.
sub make_certificates
{
    my @key = qw(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2);
    for my $name (qw(authority stranger))
    {
        run(qw(openssl req -x509), @key, '-subj', "/CN=$name", '-keyout', "$folder/$name.key",
            '-out', "$folder/$name.pem");
    }
    run(qw(openssl req -new), @key, '-subj', '/CN=localhost', '-keyout', "$folder/server.key",
        '-out', "$folder/server.csr");
    run(qw(openssl x509 -req -days 2 -CAcreateserial), '-CA', "$folder/authority.pem", '-CAkey',
        "$folder/authority.key", '-in', "$folder/server.csr", '-out', "$folder/server.pem");
    chmod 0600, "$folder/server.key";
    return;
}

sub run { system(@_) == 0 or die "$_[0] failed\n"; return }

make_certificates();
my $pg = Clairon::Test::postgresql('main', conf => "listen_addresses = '127.0.0.1'\n");
my $port = $pg->port;
my $rows = 0;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub insert { sql(sprintf q{INSERT INTO t VALUES (%d, 'u1')}, ++$rows); return $rows }

sql(q{CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner');
    ALTER ROLE relay PASSWORD 'the right one'});
unlink $pg->data_dir . '/pg_hba.conf';
$pg->append_conf('pg_hba.conf', "local all all trust\nhostssl all relay 127.0.0.1/32 scram-sha-256\n");
$pg->reload;
my $store = Clairon::Test::store();

sub conninfo
{
    my (%more) = @_;
    my %options = (host => 'localhost', hostaddr => '127.0.0.1', port => $port, dbname => 'postgres',
        user => 'relay', password => "'the right one'", %more);
    return join ' ', map { "$_=$options{$_}" } sort keys %options;
}

my $relay = Clairon::Test::relay($pg, $store, start => 0);

# Starts the relay with this connection and waits for the log message.
sub expect_reason
{
    my ($name, $wanted, %options) = @_;
    my $mark = $relay->log_mark;
    $relay->configure('feed.conninfo' => conninfo(%options));
    $relay->start;
    my $log = $relay->wait_for_log($wanted, from => $mark);
    unlike($log, qr/right one|wrong one/, "$name: the log contains the cause, but no password");
    is(($relay->get('/readyz'))[0], 503, "$name: /readyz returns 503");
    $relay->stop;
    return;
}

expect_reason('TLS that the server lacks', qr/does not support SSL.*set ssl = on/, sslmode => 'require');
$pg->append_conf('postgresql.conf',
    "ssl = on\nssl_cert_file = '$folder/server.pem'\nssl_key_file = '$folder/server.key'\n");
$pg->reload;
wait_until('the server accepts TLS', sub { sql('SHOW ssl') eq 'on' });
expect_reason('no TLS', qr/no encryption.*sslmode/, sslmode => 'disable');
expect_reason('an unknown CA', qr/certificate verify failed.*sslrootcert/,
    sslmode => 'verify-full', sslrootcert => "$folder/stranger.pem");
expect_reason('another host name', qr/does not match host name.*must be a name/, host => 'elsewhere.example',
    sslmode => 'verify-full', sslrootcert => "$folder/authority.pem");
expect_reason('a wrong password', qr/password authentication failed.*password of the relay's role/, sslmode => 'require',
    password => "'the wrong one'");
expect_reason('no password', qr/no password supplied.*password of the relay's role/, sslmode => 'require', password => "''");
sub doctor_output { return ($relay->run('doctor', '--quiet'))[1] }
sql('CREATE ROLE other LOGIN');
expect_reason('no pg_hba entry', qr/no pg_hba\.conf entry.*SSL encryption.*hint="allow the relay's role to connect to this database/, sslmode => 'prefer', user => 'other');
sql('ALTER ROLE relay NOLOGIN');
expect_reason('a role without LOGIN', qr/not permitted to log in" hint="run ALTER ROLE .* LOGIN/, sslmode => 'require');
like(doctor_output(), qr/hint: run ALTER ROLE .* LOGIN/, 'the doctor reports a role without LOGIN');
sql('ALTER ROLE relay LOGIN CONNECTION LIMIT 0');
like(doctor_output(), qr/too many connections for role.*\n +hint: raise the CONNECTION LIMIT/, 'the doctor reports the connection limit');
sql('ALTER ROLE relay CONNECTION LIMIT -1');

# With a valid configuration, the feed streams over TLS.
$relay->configure('feed.conninfo' =>
      conninfo(sslmode => 'verify-full', sslrootcert => "$folder/authority.pem"));
$relay->start;
$relay->wait_ready;
unlike($relay->log_text, qr/[.]history/, 'a first start requests no timeline history');
my $client = $relay->client('u1');
insert();
$client->wait_notifications(1);
is(sql('SELECT count(*) FROM pg_stat_replication JOIN pg_stat_ssl USING (pid) WHERE ssl'), 1,
    'rows arrive over TLS with verify-full');

# After a terminated walsender, a server restart, and a crash, clients are still connected and receive each row once.
sub check_recovered
{
    my ($name) = @_;
    my $id = insert();
    $client->wait_row($id);
    ok(!$client->{closed}, "$name: the client stays connected and receives later rows");
    is(scalar $store->entries, $rows, "$name: no row is lost or stored twice");
    return;
}

my $mark = $relay->log_mark;
sql('SELECT pg_terminate_backend(pid) FROM pg_stat_replication');
$relay->wait_for_log(qr/terminating connection.*retry_s=/, from => $mark);
check_recovered('a terminated walsender');
insert();
$pg->restart;
check_recovered('a restart');
# A row is confirmed two seconds after it is stored.
wait_until('a row is not confirmed', sub { insert(); $relay->metric('clairon_feed_unconfirmed_bytes') > 0 });
$pg->stop('immediate');
wait_until('the feed is down', sub { ($relay->get('/readyz?need=feed'))[0] == 503 });
is(($relay->get('/readyz'))[0], 200, 'without PostgreSQL, the relay stays ready');
is($relay->metric('clairon_feed_unconfirmed_bytes'), 0, 'without a connection, clairon_feed_unconfirmed_bytes is 0');
$pg->start;
check_recovered('a crash');

# After a relay is killed, the next relay acquires the slot.
my $second = Clairon::Test::relay($pg, $store);
$second->wait_for_log(qr/waiting as standby/);
$client = $second->client('u1');
for my $round (1 .. 3)
{
    my ($killed, $successor) = $round % 2 ? ($relay, $second) : ($second, $relay);
    $mark = $successor->log_mark;
    my $began = time;
    $killed->kill9;
    $successor->wait_for_log(qr/streaming from slot/, from => $mark);
    note sprintf 'taken over after %.2f s', time - $began;
    insert();
    $killed->start;
    $killed->wait_ready;
}
wait_until('all rows are stored', sub { $store->entries >= $rows });
is(scalar $store->entries, $rows, 'the next relay stores each row once');

# The extension is dropped while the slot still has changes for its rules.
$_->stop for $relay, $second;
$pg->safe_psql('postgres', q{SELECT clairon.unwatch('t'); DROP EXTENSION clairon CASCADE});
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/ended the stream" .*the extension was dropped: .*pg_drop_replication_slot/, from => $mark);
pass('a dropped extension is logged with a hint');
like(doctor_output(), qr/hint: run CREATE EXTENSION clairon/, 'the doctor reports the first step');
$pg->safe_psql('postgres', q{CREATE EXTENSION clairon; SELECT clairon.watch('t', 'USER', 'owner')});
$pg->drop_slot('clairon');    # the relay, which retries, may be using it
$relay->wait_for_log(qr/slot created/, from => $mark);
$relay->wait_ready;
$pg->safe_psql('postgres', sprintf q{INSERT INTO t VALUES (%d, 'u1')}, ++$rows);
wait_until('rows are stored again', sub { $store->entries == $rows });
pass('after both steps, rows are stored again');

done_testing();
