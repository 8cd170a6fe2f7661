# Tests that, with rediss://, the store's certificate is accepted only if a trusted CA has signed it and the name
# matches.
use strict;
use warnings;

use Clairon::Test;
use Clairon::Test::SecureSocket;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $port = Clairon::Test::free_port();

sub relay_to
{
    my ($host, %conf) = @_;
    return Clairon::Test::relay($pg, undef, wait => 0, start => 0,
        conf => { 'store.url' => "rediss://$host:$port", %conf });
}

my $relay_check = relay_to('localhost');
my $output = qx{$relay_check->{program} relay -c $relay_check->{file} --check 2>&1};
if ($output =~ /TLS requires hiredis 1/)
{
    is($? >> 8, 2, 'a hiredis without TLS is rejected with the reason');
    done_testing();
    exit;
}
is($?, 0, 'rediss:// is a valid url') or diag $output;

# The store also requires client certificates.
my $store = Clairon::Test::store(options => [
    '--tls-port', $port, '--tls-cert-file', $cert, '--tls-key-file', $key, '--tls-ca-cert-file', $cert,
    '--tls-auth-clients', 'yes' ]);
my %ours = ('store.tls_ca' => $cert, 'store.tls_cert' => $cert, 'store.tls_key' => $key);

for (
    [ 'a name that is not in the certificate', '127.0.0.1', \%ours,                              qr/certificate verify failed" hint="\[store\] tls_ca must/ ],
    [ 'an unknown signer',            'localhost', { %ours, 'store.tls_ca' => undef },  qr/certificate verify failed.*not have expired/ ],
    [ 'a missing client certificate',                'localhost', { 'store.tls_ca' => $cert },         qr/store connection failed/ ],
  )
{
    my ($name, $host, $conf, $reason) = @$_;
    my $relay = relay_to($host, %$conf);
    $relay->start;
    $relay->wait_for_log($reason);
    pass("$name is rejected");
    $relay->stop;
    is($store->execute('EXISTS', $store->keys('stream')), 0, 'a rejected store receives no data');
}

my $broken = relay_to('localhost', %ours, 'store.tls_ca' => "$relay_check->{folder}/none");
$output = qx{$broken->{program} relay -c $broken->{file} --check 2>&1};
like($output, qr/tls_ca: could not read/, 'the log contains the path of a missing file');

my $relay = relay_to('localhost', %ours);
$relay->start;
$relay->wait_ready;
my $client = $relay->client('u1');

sub check_row_arrives
{
    my ($id) = @_;
    $pg->safe_psql('postgres', "INSERT INTO t VALUES ($id, 'u1')");
    $client->wait_row($id);
    return pass("row $id arrives over TLS");
}

check_row_arrives(1);
# The rows need more than one TLS record.
$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(1001, 3000) i});
$client->wait_row(3000);
is($store->stored, 2001, 'each of many rows is stored once');
$store->restart;
check_row_arrives(2);

$output = qx{$relay->{program} errors list -c $relay->{file} 2>&1};
is($?, 0, 'clairon errors reads from the store over TLS') or diag $output;

done_testing();
