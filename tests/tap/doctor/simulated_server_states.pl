# Tests that the doctor detects simulated states that test servers cannot have: wrong clocks, a cluster, a full disk,
# exhausted slots.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch);
use Clairon::Test::Doctor qw(doctor failed_checks finds repaired);
use Clairon::Test::SecureSocket;
use PostgreSQL::Test::Utils qw(run_log);
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "max_slot_wal_keep_size = 1GB\n");
my $store = Clairon::Test::store();
sub sql { return $pg->safe_psql('postgres', $_[0]) }
sql(q{CREATE TABLE t (id int PRIMARY KEY, owner text); ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'owner')});
my $relay = $Clairon::Test::Doctor::relay = Clairon::Test::relay($pg, $store, conf => { 'gate.max_connections' => 100 });
chmod 0600, $relay->{file};
repaired('a healthy server passes all checks');

# A proxy changes the replies of the servers.
sub edited_store { return '--store.url=' . Clairon::Test::proxy($store->{socket}, edit => $_[0])->url('redis') }
is_deeply(failed_checks(edited_store(sub { })), {}, 'a proxy that changes no reply causes no problems');
for my $off (5, -5)
{
    my $late = edited_store(sub { $_[0] =~ s/\A(\*2\r\n\$10\r\n)(\d{10})/$1 . ($2 + $off)/e });
    finds("a store's clock, $off s off", 'store: clock', qr/^$off\.\d+ s off|^@{[$off > 0 ? 4 : -4]}\.\d+ s off/, qr/timedatectl set-ntp true/, $late);
}
finds('a cluster', 'store: cluster mode', qr/^on$/, qr/redis\+cluster:/, edited_store(sub { $_[0] =~ s/cluster_enabled:0/cluster_enabled:1/ }));
finds('a loading store', 'store: server', qr/loading$/, qr/wait/, edited_store(sub { $_[0] =~ s/\nloading:0/\nloading:1/ }));
for my $off (7, -7)
{
    my $port = Clairon::Test::proxy($pg->host . '/.s.PGSQL.' . $pg->port, edit => sub { $_[0] =~ s/(1\d{9})(\.\d+)/$1 + $off . $2/e })->port;
    finds("PostgreSQL's clock, $off s off", 'postgresql: clock', qr/^$off\.\d+ s off|^@{[$off > 0 ? 6 : -6]}\.\d+ s off/, qr/timedatectl set-ntp true/,
        "--feed.conninfo=host=127.0.0.1 port=$port dbname=postgres user=relay sslmode=disable gssencmode=disable");
}

# The store's disk rejects writes.
chmod 0555, $store->{folder};
sub save_is { my ($how) = @_; return wait_until("a save is $how", sub {
    eval { $store->execute('BGSAVE') };
    $store->execute('INFO', 'persistence') =~ /^rdb_last_bgsave_status:$how/m }) }
save_is('err');
finds('a store with failing writes', 'store: disk', qr/the last write failed/, qr/disk is full/);
chmod 0755, $store->{folder};
save_is('ok');
repaired('a store that writes again passes all checks');

# The kernel has a short listen backlog, set in a separate network namespace.
SKIP: {
    my @in_namespace = ('unshare', '--user', '--map-root-user', '--net');
    skip 'this machine does not permit network namespaces', 3 if !run_log([ @in_namespace, 'true' ]);
    my $script = scratch() . '/doctor';
    $relay->write_file($script, "#!/bin/sh\necho 128 >/proc/sys/net/core/somaxconn && exec $relay->{program} \"\$@\"\n");
    my $inside = scratch() . '/inside';
    $relay->write_file($inside, "#!/bin/sh\nexec @in_namespace sh $script \"\$@\"\n");
    chmod 0755, $script, $inside;
    local $Clairon::Test::Doctor::relay = bless { %$relay, program => $inside }, ref $relay;
    finds('a short backlog', 'host: net.core.somaxconn', qr/^net\.core\.somaxconn is 128$/, qr/sysctl -w net\.core\.somaxconn=4096/);
}

# The certificate is expired or not valid yet.
my %days = ('expired \d+ days ago' => [ '20200101000000Z', '20210101000000Z' ], 'not valid for another \d+ days' => [ '20480101000000Z', '20490101000000Z' ]);
for my $what (sort keys %days)
{
    my ($cert, $key) = Clairon::Test::SecureSocket::certificate(@{ $days{$what} });
    finds("a certificate: $what", 'settings: gate.tls_cert', qr/^$what$/, qr/systemctl reload clairon-relay/,
        "--gate.tls_cert=$cert", "--gate.tls_key=$key");
}

# A role is missing, then the limits of walsenders and slots are reached: the hints' commands fix the problems.
sql('ALTER ROLE clairon_app RENAME TO renamed');
finds('a role that does not exist', 'postgresql: role clairon_app', qr/does not exist/, qr/CREATE ROLE clairon_app/);
sql('ALTER ROLE renamed RENAME TO clairon_app');
for my $case ([ 'max_wal_senders', 'walsenders left', 1 ], [ 'max_replication_slots', 'replication slots left', 1 ])
{
    my ($setting, $check, $few) = @$case;
    if ($setting eq 'max_replication_slots')
    {
        $relay->stop;
        sql(q{SELECT pg_drop_replication_slot('clairon'); SELECT pg_create_physical_replication_slot('taken', true)});
    }
    sql("ALTER SYSTEM SET $setting = $few");
    $pg->restart;
    $relay->wait_ready if $setting eq 'max_wal_senders';
    my $found = finds("no $check", "postgresql: $check", qr/^1 of 1 are used$/, qr/ALTER SYSTEM SET $setting = 11; then restart/);
    my ($fix) = $found->{"postgresql: $check"}{hint} =~ /(ALTER SYSTEM SET [^;]+;)/;
    sql($fix);
    $pg->restart;
    $relay->wait_ready if $setting eq 'max_wal_senders';
    ok(!failed_checks()->{"postgresql: $check"}, "$check: the hint's command fixes the problem");
}
ok(failed_checks()->{'postgresql: slots'}, 'a database without a slot of clairon is reported');

done_testing();
