# Tests that the doctor reports each problem of the store, the host, keys and certificates, and writes nothing to the
# store.
use strict;
use warnings;

use Clairon::Test qw(wait_until free_port);
use Clairon::Test::Doctor qw(doctor failed_checks finds repaired);
use IO::Socket::INET;
use JSON ();
use PostgreSQL::Test::Utils qw(run_log slurp_file);
use Test::More;

my $store = Clairon::Test::store();
my $relay = $Clairon::Test::Doctor::relay = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'gate.max_connections' => 100 });
sub execute { return $store->execute(@_) }

chmod 0600, $relay->{file};

# A healthy store passes all checks, and the doctor writes nothing to it.
repaired('a healthy store passes all checks');
is(execute('EXISTS', 'clairon:doctor'), 0, 'the commands are checked without an effect on the store');

# Each wrong setting of the server is fixed by the hint's command.
sub check_setting
{
    my ($name, $broken, $detail) = @_;
    my ($check) = map { "store: $_" } $name;
    execute('CONFIG', 'SET', $name, $broken);
    my $found = finds("$name $broken", $check, $detail, qr/CONFIG SET $name \w+/);
    my ($fix) = $found->{$check}{hint} =~ /(CONFIG SET $name \w+)/;
    execute(split / /, $fix);
    return repaired("$name: the hint's command fixes the problem");
}
check_setting('maxmemory-policy', 'allkeys-lru', qr/allkeys-lru/);
check_setting('appendfsync',      'no',          qr/^no$/);
check_setting('appendonly',       'no',          qr/^no$/);

execute('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 1mb 0 0');
like(+(grep { $_->{check} eq 'client-output-buffer-limit' } @{ JSON::decode_json((doctor('--json'))[1])->{checks} })[0]{hint},
    qr/'normal 0 0 0'/, 'a limit below a reply causes a warning');
execute('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 0 0 0');
execute('CONFIG', 'SET', 'maxmemory', '1mb');
my $found = finds('a full store', 'store: memory', qr/MB used of 1 MB/, qr/CONFIG SET maxmemory/);
like($found->{'store: commands'}{detail}, qr/OOM/, 'a full store rejects writes');
execute('CONFIG', 'SET', 'maxmemory', 0);
finds('fewer replicas than required', 'store: store.min_replicas', qr/0 replicas, 2 required/, qr/min_replicas/, '--store.min_replicas=2');

# The user has fewer permissions than the relay needs.
execute('ACL', 'SETUSER', 'half', 'on', '>pw', '~clairon:*', '+@all', '-@dangerous', '-xadd', '+info');
my ($path) = $store->url =~ m{^unix://(.*)};
my $port = free_port();
execute('CONFIG', 'SET', 'port', $port) if eval { execute('CONFIG', 'GET', 'port') };
SKIP: {
    skip 'this store cannot open a port at run time', 5 unless IO::Socket::INET->new("127.0.0.1:$port");
    my $url = "--store.url=redis://half:pw\@127.0.0.1:$port";
    $found = finds('a user without sufficient permissions', 'store: commands', qr/not CONFIG XADD /, qr/\+\@all -\@dangerous \+info \+config/, $url);
    execute('ACL', 'SETUSER', 'half', '+xadd', '+config|get');
    repaired('the permissions in the hint are sufficient', $url);
    like(failed_checks("--store.url=redis://half:no\@127.0.0.1:$port")->{'store: connection'}{hint}, qr/user or password/, 'a wrong password is reported with a hint');
}

# The store is a replica, or does not respond.
execute('REPLICAOF', '127.0.0.1', free_port());
finds('a replica', 'store: role', qr/^slave/, qr/REPLICAOF NO ONE/);
execute('REPLICAOF', 'NO', 'ONE');
repaired('the former primary passes all checks');
SKIP: {
    skip 'only KeyDB has active-replica', 3 unless $store->{server} =~ /keydb/;
    my $active = Clairon::Test::store(options => [ '--active-replica', 'yes' ]);
    finds('active-replica', 'store: role', qr/active-replica/, qr/active-replica no/, '--store.url=' . $active->url);
}
my $unresponsive = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die;
finds('a store that does not respond', 'store: connection', qr/does not reply: reply timed out/, qr/^The server accepts connections but does not reply/,
    '--store.url=redis://127.0.0.1:' . $unresponsive->sockport);
finds('a PostgreSQL that does not respond', 'postgresql: connection', qr/connection timed out after 10 s/, qr//,
    '--relay.roles=feed', '--feed.conninfo=host=127.0.0.1 dbname=x port=' . $unresponsive->sockport);

# The host's limits are too low.
finds('more clients than open files', 'host: open files', qr/max_connections = 1000000/, qr/LimitNOFILE=1000064/,
    '--gate.max_connections=1000000')
  if qx{sh -c 'ulimit -Hn'} !~ /unlimited/ && qx{sh -c 'ulimit -Hn'} < 1000064;

# Weak keys and keys that other users can read are reported.
my $folder = $relay->{folder};
sub openssl { my (@arguments) = @_; my ($out, $err) = ('', '');
    run_log([ 'openssl', @arguments ], '>', \$out, '2>', \$err) or die "openssl @arguments: $err"; return }
# Checks that the doctor and `relay --check` only warn about a secret that other users can read, because the permissions
# of a mounted file may be impossible to change.
sub check_exposed
{
    my ($what, $name, $file, @arguments) = @_;
    my $report = JSON::decode_json((doctor('--json', @arguments))[1]);
    my ($row) = grep { $_->{check} eq "permissions of $name" } @{ $report->{checks} };
    is($row->{level}, 'warn', "$what causes a warning");
    like($row->{detail}, qr/^\Q$file\E contains a secret and is accessible to all users$/, "$what is reported with its path");
    is($row->{hint}, "chmod o= '$file'", "$what is reported with the command that fixes it");
    my (undef, undef, $err) = $relay->run('relay', '--check', @arguments);
    like($err, qr/level=warn .*with a secret is accessible to all users: run chmod o=".*\Q$file\E/, "$what: relay --check warns too");
    return;
}
for my $mode (0644, 0602)
{
    chmod $mode, "$folder/secret";
    check_exposed(sprintf('a secret with mode %o', $mode), 'auth.hs256_secret_file', "$folder/secret");
}
chmod 0600, "$folder/secret";
$relay->write_file("$folder/weak", 'x' x 40);
chmod 0600, "$folder/weak";
$found = finds('a weak secret', 'settings: secret strength', qr/40 bytes, 1 of them distinct/, qr{/dev/urandom},
    "--auth.hs256_secret_file=$folder/weak");
openssl('genrsa', '-out', "$folder/rsa", 1024);
openssl('rsa', '-in', "$folder/rsa", '-pubout', '-out', "$folder/rsa.pub");
$relay->configure('auth.hs256_secret_file' => undef);
my ($code, undef, $err) = doctor("--auth.public_key_file=$folder/rsa.pub");
is($code, 2, 'a short RSA key is an invalid setting');
like($err, qr/has 1024 bits, must be RSA with at least 2048 bits/, 'the error has the minimum');
openssl('ecparam', '-name', 'secp384r1', '-genkey', '-out', "$folder/ec");
openssl('ec', '-in', "$folder/ec", '-pubout', '-out', "$folder/ec.pub");
($code, undef, $err) = doctor("--auth.public_key_file=$folder/ec.pub");
is($code, 2, 'a key of another type is an invalid setting');
like($err, qr/EC on secp384r1.*RSA, or EC on P-256/, 'the error names the valid key types');
$relay->configure('auth.hs256_secret_file' => "$folder/secret");

# Certificates that expire soon, do not match their key or are missing are reported.
sub certificate { my ($name, $days) = @_;
    openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=x', '-days', $days, '-keyout', "$folder/$name.key",
        '-out', "$folder/$name.pem");
    chmod 0600, "$folder/$name.key";
    return }
sub tls { my ($cert, $key) = @_; return ("--gate.tls_cert=$folder/$cert.pem", "--gate.tls_key=$folder/$key.key") }
certificate('good', 400);
certificate('short', 3);
is_deeply(failed_checks(tls('good', 'good')), {}, 'a valid certificate passes');
finds('a certificate that expires soon', 'settings: gate.tls_cert', qr/expires in [23] days/, qr/systemctl reload clairon-relay/, tls('short', 'short'));
finds('a key of another certificate', 'settings: gate.tls_key', qr/does not match the certificate/, qr/the certificate's private key/, tls('good', 'short'));
finds('a file without a certificate', 'settings: gate.tls_cert', qr/contains no certificate/, qr/BEGIN CERTIFICATE/,
    "--gate.tls_cert=$folder/secret", "--gate.tls_key=$folder/good.key");

my @store_key = ("--store.tls_cert=$folder/good.pem", "--store.tls_key=$folder/good.key");
is_deeply(failed_checks(@store_key), {}, 'a valid client certificate of the store passes');
chmod 0644, "$folder/good.key";
check_exposed('a key of the store', 'store.tls_key', "$folder/good.key", @store_key);

# Passwords in a file that other users can read are reported.
chmod 0644, $relay->{file};
repaired('a readable file without a password is accepted');
for my $conninfo ('host=x password=hush', 'postgresql://me:hush@x/db')
{
    $relay->configure('feed.primary_conninfo' => $conninfo);
    chmod 0644, $relay->{file};
    check_exposed('a password of the primary', 'the configuration file', $relay->{file});
}

# Without its check, a missing permission would be noticed only at run time.
my $container = qr/XGROUP|XINFO|MEMORY/;
my %tried = map { $_ => 1 } slurp_file(Clairon::Test::top() . '/relay/doctor/store_server.c') =~ /^    "((?:$container) [A-Z]+|[A-Z]+)/mg;
my %used;
for my $script (glob Clairon::Test::top() . '/relay/store/scripts/{,parts/}*.lua')
{
    my $text = slurp_file($script);
    $used{$_} = 1 for $text =~ /\bp?call\('((?!$container)[A-Z]+|(?:$container)', '[A-Z]+)'/g, $text =~ /\bcall_chunked\(\w+, '([A-Z]+)'/g;
}
is_deeply([ grep { !$tried{$_} } map { s/', '/ /r } sort keys %used ], [], 'all commands of the scripts are checked');

done_testing();
