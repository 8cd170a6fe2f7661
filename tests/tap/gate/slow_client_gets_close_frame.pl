# Does a slow reader that goes on reading get the close 4101, behind all that stands before it in the socket?
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.slow_bytes' => '200kB' });
sub publish
{
    my $answer = Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/notifications', Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true),
        ':body' => { payload => { text => 'x' x 200_000 }, routing => { audience => { type => 'USER', targets => ['slow'] } } });
    return $answer->{status} == 201;
}
my $slow = Clairon::Test::RawSocket->user($relay, 'slow');
wait_until('the relay closes it', sub { publish() && $relay->log_text =~ /closes with 4101/ });

# Reads a little at a time, as a slow line does, for longer than a client that reads nothing is waited for.
my $read = 0;
while (!$slow->{eof})
{
    select(undef, undef, undef, 0.02);
    my $got = sysread $slow->{link}, $slow->{bytes}, $read < 1_000_000 ? 4096 : 65_536, length $slow->{bytes};
    $read += $got // 0;
    $slow->{eof} = 1 if defined $got && $got == 0 || !defined $got && !$!{EAGAIN};
}
cmp_ok($read, '>', 200_000, 'it had much to read');
is($slow->ends_with(4101, 'a slow reader')->{code}, 4101, 'which it can read');
is($relay->metric('clairon_gate_connections'), 0, 'and the connection is gone') if wait_until('the relay saw its end', sub { $relay->metric('clairon_gate_connections') == 0 });

# One that reads nothing is not waited for.
my $mute = Clairon::Test::RawSocket->user($relay, 'slow');
my $closes = () = $relay->log_text =~ /closes with 4101/g;
wait_until('the relay closes it', sub { publish() && (() = $relay->log_text =~ /closes with 4101/g) > $closes });
wait_until('the relay ends it all the same', sub { $relay->metric('clairon_gate_connections') == 0 });
pass('a reader that takes nothing is ended');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');
done_testing();
