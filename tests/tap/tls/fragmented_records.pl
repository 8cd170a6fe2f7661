# Tests that the gate serves TLS regardless of the fragmentation of records.
use strict;
use warnings;

use Clairon::Test;
use Clairon::Test::SecureSocket;
use Mojo::UserAgent;
use Test::More;

eval { require IO::Socket::SSL; 1 } or plan skip_all => 'IO::Socket::SSL is not installed';

my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0,
    conf => { 'gate.tls_cert' => $cert, 'gate.tls_key' => $key });
$relay->wait_for_log(qr/listening/);
# The certificate is valid for two days.
$relay->wait_for_log(qr/component=gate level=warn .*certificate expires soon.*cert\.pem.*days_left=[12]/);

sub user
{
    my ($name) = @_;
    my $raw = Clairon::Test::SecureSocket->user($relay, $name, $cert);
    is($raw->{response}{status}, 101, "$name is connected over TLS");
    return $raw;
}

my $raw = user('u1');
$raw->send_json({ t => 'ping' });
is($raw->next_message->{t}, 'pong', 'a frame receives a reply');
my $ping = '{"t":"ping"' . ' ' x 60_000 . '}';
$raw->text($ping);
is($raw->next_message->{t}, 'pong', 'a frame in many records receives a reply');
$raw->send_json({ t => 'ping' }) for 1 .. 20;
is(scalar(grep { $raw->next_message->{t} eq 'pong' } 1 .. 20), 20, 'many frames in many records receive replies');
my $other = user('u2');
$other->frame(8, pack 'n', 1000);
is($other->read_to_end->{code}, 1000, 'a close frame receives a reply');
my $bare = user('u3');
$bare->frame(1, '{"t":"ping"}', masked => 0);
is($bare->read_to_end->{code}, 1002, 'an unmasked frame is rejected');

my $poll = Clairon::Test::SecureSocket->new($relay, $cert);
is($poll->request(GET => '/v1/poll?wait=0', Authorization => 'Bearer ' . Clairon::Test::token(sub => 'u4'))->{status}, 204, 'a poll over TLS receives a response');

my $plain = Clairon::Test::RawSocket->new($relay);
isnt($plain->request(GET => '/healthz')->{status}, 200, 'a client without TLS is not served');
$raw->send_json({ t => 'ping' });
is($raw->next_message->{t}, 'pong', 'other connections are not affected');
# The certificate of the running relay is replaced.
sub fingerprint
{
    my $link = Clairon::Test::RawSocket->new($relay)->{link};
    $link->blocking(1);
    return IO::Socket::SSL->start_SSL($link, SSL_verify_mode => 0) ? $link->get_fingerprint : 'no TLS';
}

my $first = fingerprint();
Clairon::Test::SecureSocket::certificate();
is(fingerprint(), $first, 'a changed certificate file has no effect yet');
kill HUP => $relay->pid;
$relay->wait_for_log(qr/certificate reloaded/);
my $second = fingerprint();
isnt($second, $first, 'after SIGHUP, new connections receive the new certificate');
open my $broken, '>', $cert or die "could not write: $!";
print {$broken} "nonsense\n";
close $broken;
kill HUP => $relay->pid;
$relay->wait_for_log(qr/could not reload the certificate/);
is(fingerprint(), $second, 'an invalid file has no effect');
$raw->send_json({ t => 'ping' });
is($raw->next_message->{t}, 'pong', 'open connections stay open');

# A metric contains the expiration of the certificate.
sub expiration_metric { my $agent = Mojo::UserAgent->new(insecure => 1); my ($end) = $agent->get("https://127.0.0.1:$relay->{port}/metrics")->result->body
      =~ /^clairon_gate_certificate_expiry_timestamp_seconds (\d+)/m; return $end }
my $left = expiration_metric() - time;
ok($left > 86_400 && $left <= 2 * 86_400, 'the metric is the expiration of the certificate');
Clairon::Test::SecureSocket::certificate('20200101000000Z', '20210101000000Z');
kill HUP => $relay->pid;
$relay->wait_for_log(qr/component=gate level=error .*certificate expired: .*replace the file and reload.*cert\.pem/);
cmp_ok(expiration_metric(), '<', time, 'the metric is the expiration of an expired certificate');

is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
