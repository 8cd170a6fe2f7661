# Tests that the gate rejects weak TLS: old versions, RSA key exchange, and CBC.
use strict;
use warnings;

use Clairon::Test qw(scratch free_port);
use Clairon::Test::RawSocket;
use IPC::Run ();
use Test::More;

my $folder = scratch();
system(qw(openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout), "$folder/key.pem", '-out', "$folder/cert.pem") == 0
  or die "could not make a certificate\n";
chmod 0600, "$folder/key.pem";
my $store = Clairon::Test::store();

sub gate
{
    my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0,
        conf => { 'gate.tls_cert' => "$folder/cert.pem", 'gate.tls_key' => "$folder/key.pem", @_ });
    $relay->wait_for_log(qr/store connected.*listening/s);
    return $relay;
}

# Returns the negotiated cipher suite, or '' if the handshake fails.
sub negotiated
{
    my ($port, @options) = @_;
    IPC::Run::run([ qw(openssl s_client -connect), "127.0.0.1:$port", @options ], \"\n", \my $out, \my $err, IPC::Run::timeout(60));
    return $out =~ /^New, (TLSv[\d.]+), Cipher is (\S+)$/m && $2 ne '(NONE)' && $err !~ /alert|wrong version|unsupported/ ? $2 : '';
}

my $admin = free_port();
my $relay = gate('gate.admin_listen' => "127.0.0.1:$admin");
for my $port ($relay->{port}, $admin)
{
    is(negotiated($port, '-tls1_2', '-cipher', $_), $_, "$_ is accepted")
      for qw(ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-CHACHA20-POLY1305);
    is(negotiated($port, '-tls1_2', '-cipher', $_), '', "cipher suite $_ is rejected")
      for qw(AES128-GCM-SHA256 AES256-SHA AES128-SHA256 ECDHE-RSA-AES128-SHA ECDHE-RSA-AES256-SHA384 DHE-RSA-AES128-GCM-SHA256);
    is(negotiated($port, $_, '-cipher', 'ALL:@SECLEVEL=0'), '', "protocol $_ is rejected") for '-tls1', '-tls1_1';
    like(negotiated($port, '-tls1_3'), qr/^TLS_/, 'TLS 1.3 is accepted');
    like(negotiated($port), qr/^TLS_/, 'TLS 1.3 is preferred');
}
my $mark = $relay->log_mark;
for (1 .. 20)
{
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write("\x16\x03\x01\x00\x04abcd");    # a record without a ClientHello
    1 while $raw->more;
}
my $lines = () = $relay->log_text($mark) =~ /handshake failed|rejected by/g;
cmp_ok($lines, '<', 20, 'not every invalid handshake is logged');
unlike($relay->log_text($mark), qr/level=warn.*(?:handshake|rejected)/, 'and are no warning');
is($relay->stop, 0, 'the relay with the default cipher suites exits with status 0 on SIGTERM');
$relay = gate('gate.tls_ciphers' => 'ECDHE-RSA-AES256-GCM-SHA384');
is(negotiated($relay->{port}, '-tls1_2', '-cipher', 'ECDHE-RSA-AES128-GCM-SHA256'), '', 'gate.tls_ciphers restricts the cipher suites');
is(negotiated($relay->{port}, '-tls1_2'), 'ECDHE-RSA-AES256-GCM-SHA384', 'gate.tls_ciphers accepts the named cipher suites');
is($relay->stop, 0, 'the relay with named cipher suites exits with status 0 on SIGTERM');
my ($code, undef, $error) = Clairon::Test::relay(undef, $store, start => 0, roles => 'gate',
    conf => { 'gate.tls_cert' => "$folder/cert.pem", 'gate.tls_key' => "$folder/key.pem", 'gate.tls_ciphers' => 'NONSENSE' })->run('relay', '--check');
is($code, 2, 'a list without a known cipher suite is rejected');
like($error, qr/tls_ciphers must be an OpenSSL cipher list.*NONSENSE/, 'the error contains the list');
done_testing();
