# Does the gate speak TLS, in whatever pieces the records come?
use strict;
use warnings;

use Clairon::Test qw(token wait_until scratch);
use Clairon::Test::RawSocket;
use Test::More;

eval { require IO::Socket::SSL; 1 } or plan skip_all => 'IO::Socket::SSL is not installed';

my $folder = scratch();
my $made   = system(qw(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2),
    '-subj', '/CN=localhost', '-keyout', "$folder/key.pem", '-out', "$folder/cert.pem");
is($made, 0, 'a certificate');

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0,
    conf => { 'gate.tls_cert' => "$folder/cert.pem", 'gate.tls_key' => "$folder/key.pem" });
$relay->wait_for_log(qr/listening/);

# A raw socket whose link is TLS.
sub secure
{
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->{link}->blocking(1);
    IO::Socket::SSL->start_SSL($raw->{link}, SSL_ca_file => "$folder/cert.pem", SSL_verifycn_scheme => 'none')
      or die 'no TLS: ' . IO::Socket::SSL::errstr() . "\n";
    return $raw;
}

# As RawSocket->user, over TLS. What OpenSSL has read already, select() does not see: so it blocks.
sub user
{
    my ($name) = @_;
    my $raw = bless secure(), 'Secure';
    $raw->request(GET => '/v1/ws', Upgrade => 'websocket', Connection => 'Upgrade',
        'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version' => 13,
        'Sec-WebSocket-Protocol' => 'clairon.v1.json');
    is($raw->{answer}{status}, 101, "$name: an upgrade over TLS");
    $raw->say({ t => 'connect', r => 1, token => token(sub => $name) });
    is($raw->line->{user}, $name, "$name: is connected");
    return $raw;
}

{
    package Secure;
    our @ISA = 'Clairon::Test::RawSocket';

    sub more
    {
        my ($self) = @_;
        my $got = sysread $self->{link}, my $bytes, 65536;
        $self->{bytes} .= $bytes // '';
        return $got ? 1 : 0;
    }

    sub write
    {
        my ($self, $bytes) = @_;
        while (length $bytes)
        {
            my $sent = syswrite($self->{link}, $bytes) // return 0;
            substr $bytes, 0, $sent, '';
        }
        return 1;
    }
}

my $raw = user('u1');
$raw->say({ t => 'ping' });
is($raw->line->{t}, 'pong', 'lines go both ways');
my $ping = '{"t":"ping"' . ' ' x 60_000 . '}';
$raw->text($ping);
is($raw->line->{t}, 'pong', 'a line of many records');
$raw->say({ t => 'ping' }) for 1 .. 20;
is(scalar(grep { $raw->line->{t} eq 'pong' } 1 .. 20), 20, 'many lines in many records');
my $other = user('u2');
$other->frame(8, pack 'n', 1000);
is($other->ending->{code}, 1000, 'a close is answered');
my $bare = user('u3');
$bare->frame(1, '{"t":"ping"}', masked => 0);
is($bare->ending->{code}, 1002, 'what is not masked is refused');

my $plain = Clairon::Test::RawSocket->new($relay);
isnt($plain->request(GET => '/healthz')->{status}, 200, 'who speaks no TLS is not served');
$raw->say({ t => 'ping' });
is($raw->line->{t}, 'pong', 'and nobody noticed');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

done_testing();
