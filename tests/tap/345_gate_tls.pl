# Does the gate speak TLS, in whatever pieces the records come?
use strict;
use warnings;

use Clairon::Test;
use Clairon::Test::SecureSocket;
use Test::More;

eval { require IO::Socket::SSL; 1 } or plan skip_all => 'IO::Socket::SSL is not installed';

my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0,
    conf => { 'gate.tls_cert' => $cert, 'gate.tls_key' => $key });
$relay->wait_for_log(qr/listening/);

sub user
{
    my ($name) = @_;
    my $raw = Clairon::Test::SecureSocket->user($relay, $name, $cert);
    is($raw->{answer}{status}, 101, "$name: is connected over TLS");
    return $raw;
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
