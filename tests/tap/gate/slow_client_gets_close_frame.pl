# Tests that a slow client that still reads receives close 4101 after all data that is queued in the socket.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;
use Time::HiRes qw(time);

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.slow_bytes' => '200kB' });
sub publish
{
    my $response = Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/notifications', Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true),
        ':body' => { payload => { text => 'x' x 200_000 }, routing => { audience => { type => 'USER', targets => ['slow'] } } });
    return $response->{status} == 201;
}
my $slow = Clairon::Test::RawSocket->user($relay, 'slow');
wait_until('the relay closes the connection', sub { publish() && $relay->log_text =~ /code=4101/ });

# Reads slowly, for longer than the relay waits for a client that does not read. A busy machine must not make it slower:
# the kernel announces free space in steps of 64 kB.
my ($read, $began) = (0, time());
while (!$slow->{eof})
{
    select(undef, undef, undef, 0.02);
    my $len = $read < 1_000_000 ? int(200_000 * (time() - $began)) - $read : 65_536;
    next if $len <= 0;
    my $got = sysread $slow->{link}, $slow->{bytes}, $len, length $slow->{bytes};
    $read += $got // 0;
    $slow->{eof} = 1 if defined $got && $got == 0 || !defined $got && !$!{EAGAIN};
}
cmp_ok($read, '>', 200_000, 'the slow client receives data that was queued before the close');
is($slow->ends_with(4101, 'a client that reads slowly')->{code}, 4101, 'the slow client receives close 4101');
is($relay->metric('clairon_gate_connections'), 0, 'the connection is closed') if wait_until('the connection is closed', sub { $relay->metric('clairon_gate_connections') == 0 });

# The relay disconnects a client that does not read without waiting for it.
my $not_reading = Clairon::Test::RawSocket->user($relay, 'slow');
my $closes = () = $relay->log_text =~ /code=4101/g;
wait_until('the relay closes the connection', sub { publish() && (() = $relay->log_text =~ /code=4101/g) > $closes });
wait_until('the relay closes the connection', sub { $relay->metric('clairon_gate_connections') == 0 });
pass('a client that does not read is disconnected');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');
done_testing();
