# Does the doctor find each thing that is wrong with the store, this machine, keys and certificates, without writing anything?
use strict;
use warnings;

use Clairon::Test qw(wait_until free_port);
use Clairon::Test::Doctor qw(doctor failed_checks finds repaired);
use IO::Socket::INET;
use PostgreSQL::Test::Utils qw(run_log slurp_file);
use Test::More;

my $store = Clairon::Test::store();
my $relay = $Clairon::Test::Doctor::relay = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'gate.max_connections' => 100 });
sub ask { return $store->execute(@_) }

chmod 0600, $relay->{file};

# All is well, and nothing was written.
repaired('a healthy store');
is(ask('EXISTS', 'clairon:doctor'), 0, 'what was tried was not done');

# Settings of the server, each mended again by the hint's own command.
sub breaks
{
    my ($name, $broken, $detail) = @_;
    my ($check) = map { "store: $_" } $name;
    ask('CONFIG', 'SET', $name, $broken);
    my $found = finds("$name $broken", $check, $detail, qr/CONFIG SET $name \w+/);
    my ($mend) = $found->{$check}{hint} =~ /(CONFIG SET $name \w+)/;
    ask(split / /, $mend);
    return repaired("$name: the hint mends it");
}
breaks('maxmemory-policy', 'allkeys-lru', qr/allkeys-lru/);
breaks('appendfsync',      'no',          qr/^no$/);
breaks('appendonly',       'no',          qr/^no$/);

ask('CONFIG', 'SET', 'maxmemory', '1mb');
my $found = finds('a store that is full', 'store: memory', qr/MB used of 1 MB/, qr/CONFIG SET maxmemory/);
like($found->{'store: commands'}{detail}, qr/OOM/, 'so what writes is refused');
ask('CONFIG', 'SET', 'maxmemory', 0);
finds('fewer replicas than wanted', 'store: store.min_replicas', qr/0 replicas, 2 required/, qr/min_replicas/, '--store.min_replicas=2');

# A user who may do less than the relay needs.
ask('ACL', 'SETUSER', 'half', 'on', '>pw', '~clairon:*', '+@all', '-@dangerous', '-xadd', '+info');
my ($path) = $store->url =~ m{^unix://(.*)};
my $port = free_port();
ask('CONFIG', 'SET', 'port', $port) if eval { ask('CONFIG', 'GET', 'port') };
SKIP: {
    skip 'this store opens no port while it runs', 5 unless IO::Socket::INET->new("127.0.0.1:$port");
    my $url = "--store.url=redis://half:pw\@127.0.0.1:$port";
    $found = finds('a user without the rights', 'store: commands', qr/not .*XADD.*KEYS|not .*KEYS.*XADD/, qr/\+\@all -\@dangerous \+info \+keys/, $url);
    ask('ACL', 'SETUSER', 'half', '+xadd', '+keys', '+config|get');
    is_deeply(failed_checks($url), {}, 'with what the hint names, all is well');
    like(failed_checks("--store.url=redis://half:no\@127.0.0.1:$port")->{'store: connection'}{hint}, qr/user or password/, 'a wrong password');
}

# A replica, and a store that does not answer.
ask('REPLICAOF', '127.0.0.1', free_port());
finds('a replica', 'store: role', qr/^slave/, qr/REPLICAOF NO ONE/);
ask('REPLICAOF', 'NO', 'ONE');
repaired('the primary again');
SKIP: {
    skip 'only KeyDB has active-replica', 3 unless $store->{server} =~ /keydb/;
    my $active = Clairon::Test::store(options => [ '--active-replica', 'yes' ]);
    finds('active-replica', 'store: role', qr/active-replica/, qr/active-replica no/, '--store.url=' . $active->url);
}
my $deaf = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die;
finds('a store that does not answer', 'store: connection', qr/does not answer/, qr/./,
    '--store.url=redis://127.0.0.1:' . $deaf->sockport);
finds('a PostgreSQL that does not answer', 'postgresql: connection', qr/no answer within 10 s/, qr//,
    '--relay.roles=feed', '--feed.conninfo=host=127.0.0.1 dbname=x port=' . $deaf->sockport);

# Limits of this machine.
finds('more clients than open files', 'host: open files', qr/max_connections = 1000000/, qr/LimitNOFILE=1000064/,
    '--gate.max_connections=1000000')
  if qx{sh -c 'ulimit -Hn'} !~ /unlimited/ && qx{sh -c 'ulimit -Hn'} < 1000064;

# Keys.
my $folder = $relay->{folder};
sub openssl { my (@words) = @_; my ($out, $err) = ('', '');
    run_log([ 'openssl', @words ], '>', \$out, '2>', \$err) or die "openssl @words: $err"; return }
# As relay --check does, the doctor warns of a secret that others can read; a mounted one may be meant to be so.
sub exposes
{
    my ($what, $name, $file, @words) = @_;
    my $answer = JSON::decode_json((doctor('--json', @words))[1]);
    my ($row) = grep { $_->{check} eq "permissions of $name" } @{ $answer->{checks} };
    is($row->{level}, 'warn', "$what: a warning");
    like($row->{detail}, qr/^\Q$file\E holds a secret and is accessible to all users$/, "$what: with its path");
    is($row->{hint}, "chmod o= '$file'", "$what: with the command that fixes it");
    my (undef, undef, $err) = $relay->run('relay', '--check', @words);
    like($err, qr/level=warn .*with a secret is accessible to all users: run chmod o=".*\Q$file\E/, "$what: relay --check warns too");
    return;
}
for my $mode (0644, 0602)
{
    chmod $mode, "$folder/secret";
    exposes(sprintf('a secret with mode %o', $mode), 'auth.hs256_secret_file', "$folder/secret");
}
chmod 0600, "$folder/secret";
$relay->write_file("$folder/weak", 'x' x 40);
chmod 0600, "$folder/weak";
$found = finds('a weak secret', 'settings: strength of the secret', qr/40 bytes, 1 different/, qr{/dev/urandom},
    "--auth.hs256_secret_file=$folder/weak");
openssl('genrsa', '-out', "$folder/rsa", 1024);
openssl('rsa', '-in', "$folder/rsa", '-pubout', '-out', "$folder/rsa.pub");
$relay->configure('auth.hs256_secret_file' => undef);
finds('a short RSA key', 'settings: auth.public_key_file', qr/RSA, 1024 bits/, qr/openssl genpkey/, "--auth.public_key_file=$folder/rsa.pub");
openssl('ecparam', '-name', 'secp384r1', '-genkey', '-out', "$folder/ec");
openssl('ec', '-in', "$folder/ec", '-pubout', '-out', "$folder/ec.pub");
my ($code, undef, $err) = doctor("--auth.public_key_file=$folder/ec.pub");
is($code, 2, 'a key of no token is a wrong setting');
like($err, qr/EC on secp384r1.*RSA, or EC on P-256/, 'with what is right');
$relay->configure('auth.hs256_secret_file' => "$folder/secret");

# Certificates.
sub certificate { my ($name, $days) = @_;
    openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=x', '-days', $days, '-keyout', "$folder/$name.key",
        '-out', "$folder/$name.pem");
    chmod 0600, "$folder/$name.key";
    return }
sub tls { my ($cert, $key) = @_; return ("--gate.tls_cert=$folder/$cert.pem", "--gate.tls_key=$folder/$key.key") }
certificate('good', 400);
certificate('short', 3);
is_deeply(failed_checks(tls('good', 'good')), {}, 'a good certificate');
finds('one that runs out', 'settings: gate.tls_cert', qr/expires in [23] days/, qr/systemctl reload clairon-relay/, tls('short', 'short'));
finds('a key of another', 'settings: gate.tls_key', qr/not the certificate's/, qr/the key that the certificate was made for/, tls('good', 'short'));
finds('no certificate in it', 'settings: gate.tls_cert', qr/holds no certificate/, qr/BEGIN CERTIFICATE/,
    "--gate.tls_cert=$folder/secret", "--gate.tls_key=$folder/good.key");

my @store_key = ("--store.tls_cert=$folder/good.pem", "--store.tls_key=$folder/good.key");
is_deeply(failed_checks(@store_key), {}, 'a key for the store');
chmod 0644, "$folder/good.key";
exposes('a key of the store', 'store.tls_key', "$folder/good.key", @store_key);

# Passwords in a file for everybody.
chmod 0644, $relay->{file};
repaired('a file without a password may be read');
for my $conninfo ('host=x password=hush', 'postgresql://me:hush@x/db')
{
    $relay->configure('feed.primary_conninfo' => $conninfo);
    chmod 0644, $relay->{file};
    exposes('a password of the primary', 'the settings file', $relay->{file});
}

# A right that nobody looks at is missed when it is needed.
my %tried = map { $_ => 1 } slurp_file(Clairon::Test::top() . '/relay/doctor/store.c') =~ /^    "([A-Z]+)/mg;
my %used;
for my $script (glob Clairon::Test::top() . '/relay/store/scripts/{,parts/}*.lua')
{
    my $text = slurp_file($script);
    $used{$_} = 1 for $text =~ /\bp?call\('([A-Z]+)'/g, $text =~ /\bcall_chunked\(\w+, '([A-Z]+)'/g;
}
is_deeply([ grep { !$tried{$_} } sort keys %used ], [], 'all that scripts call is tried');

done_testing();
