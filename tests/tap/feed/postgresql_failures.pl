# PostgreSQL's own failures: its doors (password, TLS), its ends (terminated, crashed), and a relay that dies on the slot.
use strict;
use warnings;

use Clairon::Test qw(scratch wait_until);
use Test::More;
use Time::HiRes qw(time);

my $folder = scratch();

# An authority, a certificate of the name localhost that it signed, and an authority that signed none.
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
    my %words = (host => 'localhost', hostaddr => '127.0.0.1', port => $port, dbname => 'postgres',
        user => 'relay', password => "'the right one'", %more);
    return join ' ', map { "$_=$words{$_}" } sort keys %words;
}

my $relay = Clairon::Test::relay($pg, $store, start => 0);

# Starts the relay with such a connection and waits for the sentence.
sub refused
{
    my ($name, $wanted, %words) = @_;
    my $mark = $relay->log_mark;
    $relay->configure('feed.conninfo' => conninfo(%words));
    $relay->start;
    my $log = $relay->wait_for_log($wanted, from => $mark);
    unlike($log, qr/right one|wrong one/, "$name: the log says what is wrong, and no password");
    is(($relay->get('/readyz'))[0], 503, "$name: not ready");
    $relay->stop;
    return;
}

refused('TLS the server lacks', qr/does not support SSL.*set ssl = on/, sslmode => 'require');
$pg->append_conf('postgresql.conf',
    "ssl = on\nssl_cert_file = '$folder/server.pem'\nssl_key_file = '$folder/server.key'\n");
$pg->reload;
wait_until('the server speaks TLS', sub { sql('SHOW ssl') eq 'on' });
refused('no TLS', qr/no encryption.*sslmode/, sslmode => 'disable');
refused('a stranger signed', qr/certificate verify failed.*sslrootcert/,
    sslmode => 'verify-full', sslrootcert => "$folder/stranger.pem");
refused('another name', qr/does not match host name.*must be a name/, host => 'elsewhere.example',
    sslmode => 'verify-full', sslrootcert => "$folder/authority.pem");
refused('a wrong password', qr/password authentication failed.*password of the relay's role/, sslmode => 'require',
    password => "'the wrong one'");
refused('no password', qr/no password supplied.*password of the relay's role/, sslmode => 'require', password => "''");
sub doctor_says { return ($relay->run('doctor', '--quiet'))[1] }
sql('CREATE ROLE other LOGIN');
refused('a door for others', qr/no pg_hba\.conf entry.*SSL encryption.*hint="allow the relay's role to connect to this database/, sslmode => 'prefer', user => 'other');
sql('ALTER ROLE relay NOLOGIN');
refused('a role that may not log in', qr/not permitted to log in" hint="ALTER ROLE .* LOGIN/, sslmode => 'require');
like(doctor_says(), qr/hint: ALTER ROLE .* LOGIN/, 'the doctor says so too');
sql('ALTER ROLE relay LOGIN CONNECTION LIMIT 0');
like(doctor_says(), qr/too many connections for role.*\n +hint: raise the CONNECTION LIMIT/, 'and knows a limit of connections');
sql('ALTER ROLE relay CONNECTION LIMIT -1');

# Then all is right, and it streams over TLS.
$relay->configure('feed.conninfo' =>
      conninfo(sslmode => 'verify-full', sslrootcert => "$folder/authority.pem"));
$relay->start;
$relay->wait_ready;
unlike($relay->log_text, qr/[.]history/, 'a first start has no other timeline to ask about');
my $client = $relay->client('u1');
insert();
$client->wait_notifications(1);
is(sql('SELECT count(*) FROM pg_stat_replication JOIN pg_stat_ssl USING (pid) WHERE ssl'), 1,
    'verify-full: rows come over TLS');

# Its walsender terminated, its server restarted and crashed: clients stay, rows come once.
sub comes_through
{
    my ($name) = @_;
    my $id = insert();
    $client->wait_row($id);
    ok(!$client->{closed}, "$name: the client stays and gets what is written after");
    is(scalar $store->entries, $rows, "$name: nothing is lost, nothing comes twice");
    return;
}

my $mark = $relay->log_mark;
sql('SELECT pg_terminate_backend(pid) FROM pg_stat_replication');
$relay->wait_for_log(qr/terminating connection.*retry_s=/, from => $mark);
comes_through('a terminated walsender');
insert();
$pg->restart;
comes_through('a restart');
insert();
wait_until('it is stored and not confirmed', sub { $relay->metric('clairon_feed_unconfirmed_bytes') > 0 });
$pg->stop('immediate');
wait_until('the relay is not ready', sub { ($relay->get('/readyz'))[0] == 503 });
is($relay->metric('clairon_feed_unconfirmed_bytes'), 0, 'who reads no slot has nothing to confirm');
$pg->start;
comes_through('a crash');

# A relay that is killed leaves the slot to the next.
my $second = Clairon::Test::relay($pg, $store);
$second->wait_for_log(qr/standing by/);
$client = $second->client('u1');
for my $round (1 .. 3)
{
    my ($dies, $takes) = $round % 2 ? ($relay, $second) : ($second, $relay);
    $mark = $takes->log_mark;
    my $began = time;
    $dies->kill9;
    $takes->wait_for_log(qr/streaming from slot/, from => $mark);
    note sprintf 'taken over after %.2f s', time - $began;
    insert();
    $dies->start;
    $dies->wait_ready;
}
wait_until('all is stored', sub { $store->entries >= $rows });
is(scalar $store->entries, $rows, 'whoever takes over stores each row once');

# The extension goes while the slot has still to read what was written to its rules.
$_->stop for $relay, $second;
$pg->safe_psql('postgres', q{SELECT clairon.unwatch('t'); DROP EXTENSION clairon CASCADE});
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/ended the stream" .*the extension was dropped .*pg_drop_replication_slot/, from => $mark);
pass('a dropped extension is named, with what mends it');
like(doctor_says(), qr/hint: run CREATE EXTENSION clairon/, 'the doctor tells the first step');
$pg->safe_psql('postgres', q{CREATE EXTENSION clairon; SELECT clairon.watch('t', 'USER', 'owner')});
wait_until('the slot is dropped', sub {
    ($pg->psql('postgres', q{SELECT pg_drop_replication_slot('clairon')}))[0] == 0 });
$relay->wait_for_log(qr/slot created/, from => $mark);
$relay->wait_ready;
$pg->safe_psql('postgres', sprintf q{INSERT INTO t VALUES (%d, 'u1')}, ++$rows);
wait_until('rows are stored again', sub { $store->entries == $rows });
pass('and with both, rows are stored again');

done_testing();
